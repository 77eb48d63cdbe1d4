"""Runs of samples as bytes, the form in which Spark moves the samples of a series."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from reconciler.usage.kernel.series import COLUMNS, IntColumn, SampleSeries, series_of

TYPES: Final = dict(zip(COLUMNS, ("<i8", "<i4", "<i8", "<i8", "<i1"), strict=True))
"""Binary types of the columns: little-endian, each the smallest that fits all values."""


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


def written(name: str, values: Any, begins: IntColumn) -> tuple[Any, Any]:  # noqa: ANN401 - any array that NumPy reads
    """Return the values of a column as bytes, and the 32-bit offsets of its runs: one more than there are runs."""
    column = np.ascontiguousarray(values, dtype=TYPES[name])
    ends = np.append(begins, column.size)
    return column, (ends * column.itemsize).astype(np.int32)


def read(runs: Iterable[Sequence[Any]]) -> SampleSeries:
    """Read a series.

    Args:
        runs: Runs in any order, each with the bytes of every column.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    arrays = [
        [np.frombuffer(values, TYPES[name]) for name, values in zip(COLUMNS, run, strict=True)]
        for run in runs
    ]
    arrays.sort(key=_first_ts)  # runs that follow each other need no sort of samples
    columns = zip(COLUMNS, zip(*arrays, strict=True), strict=True)
    return series_of({name: np.concatenate(parts, dtype=np.int64) for name, parts in columns})


def _first_ts(run: Sequence[Any]) -> int:
    return int(run[0][0])
