"""Samples of one bucket on one broker as columns; spans of them, sums of several, and the time they stand for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MAX_UNITS, Censored

IntColumn: TypeAlias = npt.NDArray[np.int64]

COLUMNS: Final = ("ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")

NOT_RECORDED: Final = -1
"""Stands for a null of ``throttle_ms``."""

CENSORED: Final = (Censored.NO, Censored.UNKNOWN, Censored.YES)
"""In a column, each word is its place in this tuple; so the largest number is the worst."""

UNKNOWN: Final = CENSORED.index(Censored.UNKNOWN)
_YES: Final = CENSORED.index(Censored.YES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleSeries:
    """The samples of one bucket on one broker in time order: columns of equal length.

    Attributes:
        ts_ms: When each was read, milliseconds since the epoch, strictly ascending.
        dt_ms: The time that it stands for: since the reading before, or the scrape step where a session begins.
        rate_units: The rate, in units per second.
        throttle_ms: Mean delay of throttled requests; 0 = none was throttled (Kafka's NaN), :data:`NOT_RECORDED`.
        censored: Whether the client wanted more than it got, as places in :data:`CENSORED`.

    Raises:
        QuotaValueError: Samples do not strictly ascend, or a rate or time is out of its range.
    """

    ts_ms: IntColumn
    dt_ms: IntColumn
    rate_units: IntColumn
    throttle_ms: IntColumn
    censored: IntColumn

    def __post_init__(self) -> None:
        early = np.flatnonzero(np.diff(self.ts_ms) <= 0)
        if early.size:
            before, after = self.ts_ms[early[0]], self.ts_ms[early[0] + 1]
            raise QuotaValueError(f"samples must ascend: {after} comes after {before}")
        wrong = (self.dt_ms <= 0) | (self.rate_units < 0) | (self.rate_units > MAX_UNITS)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise QuotaValueError(
                f"the sample at {self.ts_ms[at]} has {self.rate_units[at]} units over {self.dt_ms[at]} ms"
            )

    def __len__(self) -> int:
        return self.ts_ms.size

    def between(self, from_ms: int, to_ms: int) -> "SampleSeries":
        """The samples of a span of time, its end not included. Its first sample begins a session."""
        begin, end = np.searchsorted(self.ts_ms, (from_ms, to_ms))
        return self._each(lambda column: column[begin:end])

    def _each(self, change: Callable[[IntColumn], IntColumn]) -> "SampleSeries":
        return SampleSeries(**{name: change(getattr(self, name)) for name in COLUMNS})

    @property
    def covered_ms(self) -> int:
        """The time that the samples stand for."""
        return int(self.dt_ms.sum())

    @property
    def censored_ms(self) -> int:
        """The part of it in which the client wanted more than it got."""
        return int(self.dt_ms[self.censored == _YES].sum())

    @property
    def wanted_more(self) -> bool:
        """Whether the client ever wanted more than it got."""
        return bool((self.censored == _YES).any())

    @property
    def may_have_wanted_more(self) -> bool:
        """Whether it ever did, or it is not known."""
        return bool((self.censored >= UNKNOWN).any())

    @property
    def throttled_ms(self) -> int | None:
        """The time in which the broker was seen to throttle; ``None`` if it was never recorded whether it does.

        throttle-time is the mean delay of throttled requests over a minute. It is no share of time, so a sample with
        any is throttled as a whole, and it lingers for up to a minute.
        """
        if len(self) and (self.throttle_ms == NOT_RECORDED).all():
            return None
        return int(self.dt_ms[self.throttle_ms > 0].sum())

    @property
    def peak(self) -> int:
        """The largest rate; 0 of no sample."""
        return int(self.rate_units.max(initial=0))


def series_of(columns: Mapping[str, Any]) -> SampleSeries:
    """Columns of any kind that NumPy can read (arrays of Arrow without nulls, lists, buffers) as a series, put in order of time.

    Args:
        columns: With the names of :data:`COLUMNS`; ``throttle_ms`` and ``censored`` as numbers.

    Raises:
        QuotaValueError: As :class:`SampleSeries`.
    """
    arrays = {name: np.asarray(columns[name], dtype=np.int64) for name in COLUMNS}
    ts_ms = arrays["ts_ms"]
    if (ts_ms[1:] < ts_ms[:-1]).any():
        order = np.argsort(ts_ms, kind="stable")
        arrays = {name: array[order] for name, array in arrays.items()}
    return SampleSeries(**arrays)


NOTHING: Final = series_of(dict.fromkeys(COLUMNS, ()))
"""No sample."""


def summed(parts: Sequence[SampleSeries]) -> SampleSeries:
    """Several buckets of one broker as one: what a bucket that is made of them will be recorded as.

    Rates add up where the moments are the same. A part without a sample there used nothing: days are assembled so that
    silence is a sample of zero, and scrapes of one broker are thinned together. The worst throttling and censoring of any part
    holds for the sum; the time is the longest that any part gives, and they agree unless one begins there.
    """
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else NOTHING
    ts_ms, place = np.unique(np.concatenate([part.ts_ms for part in filled]), return_inverse=True)
    order = np.argsort(place, kind="stable")
    begins = np.searchsorted(place[order], np.arange(ts_ms.size))

    def combined(name: str, combine: np.ufunc) -> IntColumn:
        column = np.concatenate([getattr(part, name) for part in filled])[order]
        reduced: IntColumn = combine.reduceat(column, begins)
        return reduced

    return SampleSeries(
        ts_ms=ts_ms,
        dt_ms=combined("dt_ms", np.maximum),
        rate_units=np.minimum(combined("rate_units", np.add), MAX_UNITS),
        throttle_ms=combined("throttle_ms", np.maximum),
        censored=combined("censored", np.maximum),
    )
