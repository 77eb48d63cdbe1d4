"""The arithmetic of recorded use row by row, deliberately simple: what the kernel's columns are compared with.

Only the type of its series is imported from the kernel.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.usage.kernel.histogram import BOUNDS
from reconciler.usage.kernel.series import CENSORED, NOT_RECORDED, SampleSeries, series_of
from reconciler.usage.samples import (
    MAX_UNITS,
    MILLION,
    MODEL_OF,
    SCALE,
    Cadence,
    Censored,
    QuotaType,
    ThrottleModel,
    half_up,
    spans,
)
from reconciler.usage.throttle_models import (
    BURST_WINDOWS,
    DELIVERY_TIMEOUT_MS,
    LONGEST_MS,
    MIN_DELAY_MS,
    Forecast,
)


class Sample(NamedTuple):
    """One sample of one bucket on one broker; fields as the columns of a series, null as ``None``."""

    ts_ms: int
    dt_ms: int
    rate_units: int
    throttle_ms: int | None = None
    censored: Censored = Censored.UNKNOWN


class UntimedSample(NamedTuple):
    """A sample before its time is known."""

    ts_ms: int
    rate_units: int
    throttle_ms: int | None = None
    censored: Censored = Censored.UNKNOWN


class ThrottledSample(NamedTuple):
    """The effect of a limit on one sample."""

    backlog: int
    served: int
    delayed: int
    delay_ms: int
    throttled: bool


def rate_units(kind: QuotaType, rate: float) -> int | None:
    """A recorded rate in units, cut to 0 and :data:`MAX_UNITS`; ``None`` if it is not a number.

    Negative rates occur: a throttled fetch is recorded and then subtracted (unrecordQuotaSensor), and the
    two may be in different windows.
    """
    if math.isnan(rate):
        return None
    scaled = rate * SCALE[kind]
    if scaled >= MAX_UNITS:
        return MAX_UNITS
    return half_up(scaled) if scaled > 0 else 0


def censored(
    kind: QuotaType,
    *,
    throttle_ms: int | None,
    rate_units: int,
    limit: int | None,
    request_throttled: bool | None,
) -> Censored:
    """Whether a recorded rate is less than the demand.

    The throttle time alone does not show this: it is a mean over a minute and lingers, so the rate must also be near
    the limit. If bytes and request time both exceed their quota, only the quota with the longer delay records it, so
    a client that its request quota throttles looks unthrottled here.

    A throttled consumer may be far below its limit: a fetch that does not fit gets an empty response and its bytes
    are subtracted, so with large fetches it gets half of the limit. Throttled and far from the limit proves nothing.

    Args:
        kind: The limited quota type.
        throttle_ms: Recorded throttle time; ``None`` = not recorded.
        rate_units: Recorded rate.
        limit: Limit in effect at that time, in units; ``None`` = unlimited.
        request_throttled: Whether a request quota that covers these clients was throttled; ``None`` = not known.
    """
    if request_throttled:
        return Censored.YES
    near = limit is not None and 10 * rate_units >= 9 * limit
    if near and throttle_ms:
        return Censored.YES
    far = kind is QuotaType.FETCH and limit is not None and bool(throttle_ms)
    if request_throttled is None or far or (near and throttle_ms is None):
        return Censored.UNKNOWN
    return Censored.NO


def columns(samples: Iterable[Sample]) -> SampleSeries:
    """Samples as the columns of the kernel."""
    rows = list(samples)
    return series_of(
        {
            "ts_ms": [row.ts_ms for row in rows],
            "dt_ms": [row.dt_ms for row in rows],
            "rate_units": [row.rate_units for row in rows],
            "throttle_ms": [
                NOT_RECORDED if row.throttle_ms is None else row.throttle_ms for row in rows
            ],
            "censored": [CENSORED.index(row.censored) for row in rows],
        }
    )


def samples_of(series: SampleSeries) -> list[Sample]:
    """The columns of the kernel as samples."""
    rows = zip(
        *(
            getattr(series, name).tolist()
            for name in ("ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")
        ),
        strict=True,
    )
    return [
        Sample(ts, dt, rate, None if throttle == NOT_RECORDED else throttle, CENSORED[code])
        for ts, dt, rate, throttle, code in rows
    ]


def timed(
    readings: Sequence[UntimedSample], pace: Cadence, before_ms: int | None = None
) -> tuple[Sample, ...]:
    """Samples of one bucket on one broker, with their times."""
    lengths = spans([reading.ts_ms for reading in readings], pace, before_ms)
    return tuple(
        Sample(reading.ts_ms, dt, reading.rate_units, reading.throttle_ms, reading.censored)
        for reading, dt in zip(readings, lengths, strict=True)
    )


def filled(readings: Iterable[UntimedSample], up: Iterable[int]) -> tuple[UntimedSample, ...]:
    """The samples, with zero use where the broker answered without this bucket."""
    by_time = {reading.ts_ms: reading for reading in readings}
    return tuple(by_time.get(ts) or UntimedSample(ts, 0, 0, Censored.NO) for ts in sorted(set(up)))


def summed(parts: Iterable[Iterable[Sample]]) -> tuple[Sample, ...]:
    """The sum of several buckets of one broker."""
    by_time: dict[int, list[Sample]] = {}
    for part in parts:
        for sample in part:
            by_time.setdefault(sample.ts_ms, []).append(sample)
    return tuple(
        Sample(
            ts_ms=ts,
            dt_ms=max(sample.dt_ms for sample in group),
            rate_units=min(MAX_UNITS, sum(sample.rate_units for sample in group)),
            throttle_ms=max(
                (sample.throttle_ms for sample in group if sample.throttle_ms is not None),
                default=None,
            ),
            censored=max((sample.censored for sample in group), key=CENSORED.index),
        )
        for ts, group in sorted(by_time.items())
    )


def between(samples: Sequence[Sample], from_ms: int, to_ms: int) -> tuple[Sample, ...]:
    """The samples of a time range, whose end is exclusive."""
    return tuple(sample for sample in samples if from_ms <= sample.ts_ms < to_ms)


def covered_ms(samples: Iterable[Sample]) -> int:
    """The time that samples cover."""
    return sum(sample.dt_ms for sample in samples)


def censored_ms(samples: Iterable[Sample]) -> int:
    """The part of the covered time with a demand above the rate."""
    return sum(sample.dt_ms for sample in samples if sample.censored is Censored.YES)


def throttled_ms(samples: Sequence[Sample]) -> int | None:
    """The time in which the broker recorded throttling; ``None`` if it was never recorded."""
    if samples and all(sample.throttle_ms is None for sample in samples):
        return None
    return sum(sample.dt_ms for sample in samples if sample.throttle_ms)


def arrived(sample: Sample) -> int:
    """The units that arrived in the time of a sample."""
    return (sample.rate_units * sample.dt_ms + 500) // 1000


def rows(
    kind: QuotaType,
    samples: Sequence[Sample],
    limit: int,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Iterator[ThrottledSample]:
    """The effect of a limit on each sample, one after the other."""
    model = MODEL_OF[kind]
    level = 0
    last: int | None = None
    for sample in samples:
        if last is None or sample.ts_ms - last > max_gap_ms:
            level = 0
        last = sample.ts_ms
        units, passes = arrived(sample), limit * sample.dt_ms // 1000
        before = level
        match model:
            case ThrottleModel.BACKLOG | ThrottleModel.TOKENS:
                depth = BURST_WINDOWS * limit if model is ThrottleModel.TOKENS else 0
                level = max(0, before + units - passes)
                waits, waited = max(0, level - depth), max(0, before - depth)
                delay = min(LONGEST_MS, waits * 1000 // limit)
                is_throttled = (
                    delay >= min_delay_ms if model is ThrottleModel.BACKLOG else waits > 0
                )
                yield ThrottledSample(
                    level, units + waited - waits, min(waits, units), delay, is_throttled
                )
            case ThrottleModel.REJECTED:
                refused = max(0, units - passes)
                yield ThrottledSample(0, units - refused, refused, 0, refused > 0)
            case ThrottleModel.APPROXIMATE:
                yield ThrottledSample(0, units, 0, 0, sample.rate_units > limit)


def simulate(
    kind: QuotaType,
    samples: Sequence[Sample],
    limit: int | None,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Forecast:
    """The sums of :func:`rows`."""
    met = [] if limit is None else list(rows(kind, samples, limit, max_gap_ms, min_delay_ms))
    pairs = list(zip(samples, met, strict=False))
    ends = [
        row
        for at, (sample, row) in enumerate(pairs)
        if at + 1 == len(pairs) or samples[at + 1].ts_ms - sample.ts_ms > max_gap_ms
    ]
    model = MODEL_OF[kind]
    knows_delay = model in (ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    return Forecast(
        model=model,
        samples=len(samples),
        covered_ms=covered_ms(samples),
        arrived_units=sum(map(arrived, samples)),
        throttled_ms=sum(sample.dt_ms for sample, row in pairs if row.throttled),
        max_delay_ms=max((row.delay_ms for row in met), default=0) if knows_delay else None,
        over_timeout_ms=sum(
            sample.dt_ms for sample, row in pairs if row.delay_ms > DELIVERY_TIMEOUT_MS
        )
        if knows_delay
        else None,
        delayed_units=sum(row.delayed for row in met),
        unfinished=sum(
            row.backlog > 0 if model is ThrottleModel.BACKLOG else row.delay_ms > 0 for row in ends
        ),
    )


def histogram(samples: Iterable[Sample]) -> dict[int, int]:
    """Milliseconds per bucket of the table of bounds, ascending."""
    weights: dict[int, int] = {}
    for sample in samples:
        index = bisect_right(BOUNDS, sample.rate_units)
        weights[index] = weights.get(index, 0) + sample.dt_ms
    return dict(sorted(weights.items()))


def percentile(weights: dict[int, int], ppm: int) -> int | None:
    """The largest number of the first bucket at which the cumulated time reaches this share."""
    total, passed = sum(weights.values()), 0
    for index in sorted(weights):
        passed += weights[index]
        if passed * MILLION >= ppm * total:
            return BOUNDS[index] - 1
    return None
