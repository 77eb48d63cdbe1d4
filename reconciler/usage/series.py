"""Times of samples: thinned scrapes, and the time that each sample covers."""

from collections.abc import Iterable, Sequence

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import DAY_MS, LEAST_STEP_MS, Cadence


def thinned(scrapes: Iterable[int], least_ms: int = LEAST_STEP_MS) -> tuple[int, ...]:
    """Return the scrapes of a broker to keep, so that two do not overlap: closer ones count the same bytes twice.

    Decided for all scrapes of the broker and not for each series, so that its series stay aligned and can be added.
    Thinning restarts each UTC day: so a late scrape changes only its own day, and a day that is ingested alone equals the
    day of a rebuild. (Only across midnight two kept scrapes may be closer.)

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
    """Return the time that each moment covers: since the one before, or a step at the start of a session.

    Args:
        times: Milliseconds, strictly ascending.
        pace: Step and gap.
        before_ms: The moment before the first, if known.

    Raises:
        QuotaValueError: Two moments are equal or out of order: a series was read twice or is not sorted.
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
