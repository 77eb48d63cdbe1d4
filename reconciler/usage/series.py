"""Series of samples: thinned scrapes, sessions and the time that each sample stands for, idle time, sums of series."""

from collections.abc import Iterable, Sequence
from itertools import chain

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import (
    DAY_MS,
    LEAST_STEP_MS,
    MAX_UNITS,
    Cadence,
    Censored,
    Sample,
    UntimedSample,
)


def thinned(scrapes: Iterable[int], least_ms: int = LEAST_STEP_MS) -> tuple[int, ...]:
    """Which scrapes of a broker are kept, so that two do not overlap: closer ones count the same bytes twice.

    Decided for the scrapes of the broker and not series by series, so that its series stay aligned and can be
    added. It begins anew each UTC day: then a late scrape changes its own day and no other, and a day that is
    ingested alone equals the day of a rebuild. (Only across midnight two kept scrapes may be closer.)

    Args:
        scrapes: Milliseconds, ascending.
        least_ms: Smallest distance.
    """
    thinned_times: list[int] = []
    for ts in scrapes:
        if (
            not thinned_times
            or ts - thinned_times[-1] >= least_ms
            or ts // DAY_MS != thinned_times[-1] // DAY_MS
        ):
            thinned_times.append(ts)
    return tuple(thinned_times)


def spans(times: Sequence[int], pace: Cadence, before_ms: int | None = None) -> tuple[int, ...]:
    """The time that each of these moments stands for: since the one before, or a step where a session begins.

    Args:
        times: Milliseconds, strictly ascending.
        pace: Step and gap.
        before_ms: The moment before the first, if it is known.

    Raises:
        QuotaValueError: Two moments are equal or out of order: a series was read twice or not sorted.
    """
    durations: list[int] = []
    last = before_ms
    for ts in times:
        distance = pace.step_ms if last is None else ts - last
        if distance <= 0:
            raise QuotaValueError(f"samples must ascend: {ts} comes after {last}")
        durations.append(pace.step_ms if distance > pace.max_gap_ms else distance)
        last = ts
    return tuple(durations)


def timed(
    readings: Sequence[UntimedSample], pace: Cadence, before_ms: int | None = None
) -> tuple[Sample, ...]:
    """Readings of one bucket on one broker as samples; arguments and errors as :func:`spans`."""
    lengths = spans([reading.ts_ms for reading in readings], pace, before_ms)
    return tuple(
        Sample(reading.ts_ms, dt, reading.rate_units, reading.throttle_ms, reading.censored)
        for reading, dt in zip(readings, lengths, strict=True)
    )


def filled(readings: Iterable[UntimedSample], up: Iterable[int]) -> tuple[UntimedSample, ...]:
    """The readings, and nothing used wherever the broker answered without this bucket.

    Kafka forgets the sensor of a bucket after an hour without traffic. So a scrape that succeeded and does not
    name the bucket says that it used nothing; a scrape that failed says nothing, and stays a gap. Only where the broker
    measures at all: without any quota of the key it counts no client (:attr:`reconciler.usage.tags.KeyLimits.measured`).

    Args:
        readings: Of one bucket on one broker.
        up: When the broker answered, and was kept. Readings at other moments are dropped.
    """
    by_time = {reading.ts_ms: reading for reading in readings}
    return tuple(
        by_time.get(ts)
        or UntimedSample(ts_ms=ts, rate_units=0, throttle_ms=0, censored=Censored.NO)
        for ts in sorted(set(up))
    )


def summed(parts: Iterable[Iterable[Sample]]) -> tuple[Sample, ...]:
    """Several buckets of one broker as one: what a bucket that is made of them will be recorded as.

    Rates add up where the moments are the same. A part without a sample there used nothing (:func:`filled`), so
    series of one broker must have been thinned together. The worst throttling and censoring of any part holds for the
    sum; the time is the longest that any part gives, and they agree unless one begins there.

    Args:
        parts: Each strictly ascending.
    """
    samples_by_time: dict[int, Sample] = {}
    for sample in chain.from_iterable(parts):
        previous = samples_by_time.get(sample.ts_ms)
        samples_by_time[sample.ts_ms] = sample if previous is None else _added(sample, previous)
    return tuple(samples_by_time[ts] for ts in sorted(samples_by_time))


def _added(first: Sample, second: Sample) -> Sample:
    delays = [delay for delay in (first.throttle_ms, second.throttle_ms) if delay is not None]
    return Sample(
        ts_ms=first.ts_ms,
        dt_ms=max(first.dt_ms, second.dt_ms),
        rate_units=min(MAX_UNITS, first.rate_units + second.rate_units),
        throttle_ms=max(delays) if delays else None,
        censored=max(first.censored, second.censored, key=_SEVERITY.index),
    )


_SEVERITY = (Censored.NO, Censored.UNKNOWN, Censored.YES)


def between(samples: Sequence[Sample], from_ms: int, to_ms: int) -> tuple[Sample, ...]:
    """The samples of a span of time, its end not included. Its first sample begins a session."""
    return tuple(sample for sample in samples if from_ms <= sample.ts_ms < to_ms)


def covered_ms(samples: Iterable[Sample]) -> int:
    """The time that samples stand for."""
    return sum(sample.dt_ms for sample in samples)


def censored_ms(samples: Iterable[Sample]) -> int:
    """The part of it in which the client wanted more than it got."""
    return sum(sample.dt_ms for sample in samples if sample.censored is Censored.YES)


def throttled_ms(samples: Sequence[Sample]) -> int | None:
    """The time in which the broker was seen to throttle; ``None`` if it was never recorded whether it does.

    throttle-time is the mean delay of throttled requests over a minute. It is no share of time, so a sample with any
    is throttled as a whole, and it lingers for up to a minute.
    """
    if samples and all(sample.throttle_ms is None for sample in samples):
        return None
    return sum(sample.dt_ms for sample in samples if sample.throttle_ms)
