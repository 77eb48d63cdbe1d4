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
    Reading,
    Sample,
)


def thinned(scrapes: Iterable[int], least_ms: int = LEAST_STEP_MS) -> tuple[int, ...]:
    """Which scrapes of a broker are kept, so that two do not overlap: closer ones tell the same bytes twice.

    Decided for the scrapes of the broker and not series by series, so that its series stay aligned and can be
    added. It begins anew each UTC day: then a late scrape changes its own day and no other, and a day that is
    ingested alone equals the day of a rebuild. (Only across midnight two kept scrapes may be closer.)

    Args:
        scrapes: Milliseconds, ascending.
        least_ms: Smallest distance.
    """
    kept: list[int] = []
    for ts in scrapes:
        if not kept or ts - kept[-1] >= least_ms or ts // DAY_MS != kept[-1] // DAY_MS:
            kept.append(ts)
    return tuple(kept)


def spans(times: Sequence[int], pace: Cadence, before_ms: int | None = None) -> tuple[int, ...]:
    """The time that each of these moments stands for: since the one before, or a step where a session begins.

    Args:
        times: Milliseconds, strictly ascending.
        pace: Step and gap.
        before_ms: The moment before the first, if it is known.

    Raises:
        QuotaValueError: Two moments are equal or out of order: a series was read twice or not sorted.
    """
    found: list[int] = []
    last = before_ms
    for ts in times:
        distance = pace.step_ms if last is None else ts - last
        if distance <= 0:
            raise QuotaValueError(f"samples must ascend: {ts} comes after {last}")
        found.append(pace.step_ms if distance > pace.max_gap_ms else distance)
        last = ts
    return tuple(found)


def timed(
    readings: Sequence[Reading], pace: Cadence, before_ms: int | None = None
) -> tuple[Sample, ...]:
    """Readings of one bucket on one broker as samples; arguments and errors as :func:`spans`."""
    lengths = spans([one.ts_ms for one in readings], pace, before_ms)
    return tuple(
        Sample(one.ts_ms, dt, one.rate_units, one.throttle_ms, one.censored)
        for one, dt in zip(readings, lengths, strict=True)
    )


def filled(readings: Iterable[Reading], up: Iterable[int]) -> tuple[Reading, ...]:
    """The readings, and nothing used wherever the broker answered without this bucket.

    Kafka forgets the sensor of a bucket after an hour without traffic. So a scrape that succeeded and does not
    name the bucket says that it used nothing; a scrape that failed says nothing, and stays a gap. Only where the broker
    measures at all: without any quota of the key it counts nobody (:attr:`reconciler.usage.tags.Book.measured`).

    Args:
        readings: Of one bucket on one broker.
        up: When the broker answered, and was kept. Readings at other moments are dropped.
    """
    by_time = {one.ts_ms: one for one in readings}
    return tuple(
        by_time.get(ts) or Reading(ts_ms=ts, rate_units=0, throttle_ms=0, censored=Censored.NO)
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
    found: dict[int, Sample] = {}
    for one in chain.from_iterable(parts):
        other = found.get(one.ts_ms)
        found[one.ts_ms] = one if other is None else _added(one, other)
    return tuple(found[ts] for ts in sorted(found))


def _added(one: Sample, other: Sample) -> Sample:
    delays = [delay for delay in (one.throttle_ms, other.throttle_ms) if delay is not None]
    return Sample(
        ts_ms=one.ts_ms,
        dt_ms=max(one.dt_ms, other.dt_ms),
        rate_units=min(MAX_UNITS, one.rate_units + other.rate_units),
        throttle_ms=max(delays) if delays else None,
        censored=max(one.censored, other.censored, key=_SEVERITY.index),
    )


_SEVERITY = (Censored.NO, Censored.UNKNOWN, Censored.YES)


def between(samples: Sequence[Sample], from_ms: int, to_ms: int) -> tuple[Sample, ...]:
    """The samples of a span of time, its end not included. Its first sample begins a session."""
    return tuple(one for one in samples if from_ms <= one.ts_ms < to_ms)


def covered_ms(samples: Iterable[Sample]) -> int:
    """The time that samples stand for."""
    return sum(one.dt_ms for one in samples)


def censored_ms(samples: Iterable[Sample]) -> int:
    """The part of it in which the client wanted more than it got."""
    return sum(one.dt_ms for one in samples if one.censored is Censored.YES)


def throttled_ms(samples: Sequence[Sample]) -> int | None:
    """The time in which the broker was seen to throttle; ``None`` if it was never recorded whether it does.

    throttle-time is the mean delay of throttled requests over a minute. It is no share of time, so a sample with any
    is throttled as a whole, and it lingers for up to a minute.
    """
    if samples and all(one.throttle_ms is None for one in samples):
        return None
    return sum(one.dt_ms for one in samples if one.throttle_ms)
