"""Runs of samples: adjacent samples of a series in a file, each column in the smallest type that fits all values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from reconciler.usage.kernel.series import COLUMNS, IntColumn, SampleSeries, series_of

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
