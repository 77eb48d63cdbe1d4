"""Samples of one bucket on one broker as columns; time spans and sums of series.

A series is read as runs: adjacent samples of it in a file, each column in the smallest type that fits all values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MAX_UNITS, Censored

IntColumn: TypeAlias = npt.NDArray[np.int64]

COLUMNS: Final = ("ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")

NOT_RECORDED: Final = -1
"""Replaces null in ``throttle_ms``."""

CENSORED: Final = (Censored.NO, Censored.UNKNOWN, Censored.YES)
"""A column contains the index of each state in this tuple; so the largest number is the worst."""

UNKNOWN: Final = CENSORED.index(Censored.UNKNOWN)
_YES: Final = CENSORED.index(Censored.YES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleSeries:
    """The samples of one bucket on one broker in time order: columns of equal length.

    Raises:
        QuotaValueError: Samples do not strictly ascend, or a rate or time is out of its range.
    """

    ts_ms: IntColumn  # time of each reading, milliseconds since the epoch, strictly ascending
    # The time that it covers: since the reading before, or the scrape step at the start of a session.
    dt_ms: IntColumn
    rate_units: IntColumn  # the rate, in units per second
    # Mean delay of throttled requests; 0 = none was throttled (Kafka's NaN), `NOT_RECORDED`.
    throttle_ms: IntColumn
    censored: IntColumn  # whether the client wanted more than it got, as indexes of `CENSORED`

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
        """Return the samples of a time span, its end exclusive. Its first sample starts a session."""
        begin, end = np.searchsorted(self.ts_ms, (from_ms, to_ms))
        return self._each(lambda column: column[begin:end])

    def _each(self, change: Callable[[IntColumn], IntColumn]) -> "SampleSeries":
        return SampleSeries(**{name: change(getattr(self, name)) for name in COLUMNS})

    @property
    def covered_ms(self) -> int:
        """The time that the samples cover."""
        return int(self.dt_ms.sum())

    @property
    def censored_ms(self) -> int:
        """The part of :attr:`covered_ms` in which the client wanted more than it got."""
        return int(self.dt_ms[self.censored == _YES].sum())

    @property
    def wanted_more(self) -> bool:
        """Whether the client ever wanted more than it got."""
        return bool((self.censored == _YES).any())

    @property
    def may_have_wanted_more(self) -> bool:
        """Whether the client ever wanted more than it got, or may have."""
        return bool((self.censored >= UNKNOWN).any())

    @property
    def throttled_ms(self) -> int | None:
        """The time in which the broker recorded throttling; ``None`` if throttle times were never recorded.

        throttle-time is the mean delay of throttled requests over a minute, not a share of time. So a sample with a positive
        value counts as throttled as a whole, and the value persists for up to a minute.
        """
        if len(self) and (self.throttle_ms == NOT_RECORDED).all():
            return None
        return int(self.dt_ms[self.throttle_ms > 0].sum())

    @property
    def peak(self) -> int:
        """The largest rate; 0 without samples."""
        return int(self.rate_units.max(initial=0))


def series_of(columns: Mapping[str, Any]) -> SampleSeries:
    """Convert columns that NumPy can read (Arrow arrays without nulls, lists, buffers) to a series, sorted by time.

    Args:
        columns: Columns by the names of :data:`COLUMNS`; ``throttle_ms`` and ``censored`` as numbers.

    Raises:
        QuotaValueError: As for :class:`SampleSeries`.
    """
    arrays = {name: np.asarray(columns[name], dtype=np.int64) for name in COLUMNS}
    ts_ms = arrays["ts_ms"]
    if (ts_ms[1:] < ts_ms[:-1]).any():
        order = np.argsort(ts_ms, kind="stable")
        arrays = {name: array[order] for name, array in arrays.items()}
    return SampleSeries(**arrays)


NOTHING: Final = series_of(dict.fromkeys(COLUMNS, ()))
"""A series without samples."""


def summed(parts: Sequence[SampleSeries]) -> SampleSeries:
    """Sum several buckets of one broker to the series of a bucket that consists of them.

    Rates of equal moments are added. A part without a sample at a moment had no use: assembled days contain a zero sample for
    each silent moment, and scrapes of one broker are thinned together. The sum gets the worst throttling and censoring of
    its parts, and the longest time of a moment; times are equal unless a part starts there.
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


TYPES: Final = dict(zip(COLUMNS, ("i8", "i4", "i8", "i8", "i1"), strict=True))
"""Types of the columns of a run."""

Run: TypeAlias = tuple[Any, ...]
"""The arrays of a run, by :data:`~reconciler.usage.kernel.series.COLUMNS`."""


def beginnings(rows: int, changes: Iterable[Any]) -> IntColumn:
    """Return the indexes at which runs begin.

    Args:
        rows: Number of samples, at least one.
        changes: For each column that distinguishes series, whether each sample except the first differs in it from the one before.
    """
    begins = np.ones(rows, dtype=bool)
    begins[1:] = False
    for differs in changes:
        begins[1:] |= np.asarray(differs, dtype=bool)
    return np.flatnonzero(begins)


def cut(columns: Mapping[str, Any], begins: IntColumn) -> Iterator[Run]:
    """Yield the runs of columns, as copies: a run that is kept does not keep the others."""
    arrays = [np.asarray(columns[name]).astype(TYPES[name]) for name in COLUMNS]
    ends = [*begins[1:], arrays[0].size]
    for begin, end in zip(begins, ends, strict=True):
        yield tuple(array[begin:end].copy() for array in arrays)


def spread(numbers: Sequence[int], begins: IntColumn, rows: int) -> IntColumn:
    """Return the number of its run for each of ``rows`` samples."""
    lengths = np.diff(np.append(begins, rows))
    return np.repeat(np.asarray(numbers, dtype=np.int64), lengths)


def joined(runs: Sequence[Run]) -> SampleSeries:
    """Return the series of runs in any order.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    in_order = sorted(runs, key=_first_ts)  # runs that follow each other need no sort of samples
    columns = zip(COLUMNS, zip(*in_order, strict=True), strict=True)
    return series_of({name: np.concatenate(parts, dtype=np.int64) for name, parts in columns})


def _first_ts(run: Run) -> int:
    return int(run[0][0])
