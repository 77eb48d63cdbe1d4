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


def read(runs: Sequence[Sequence[bytes]]) -> SampleSeries:
    """Return the series of some runs, each with the bytes of every column.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    return series_of(
        {
            name: np.frombuffer(b"".join(parts), dtype=TYPES[name])
            for name, parts in zip(COLUMNS, zip(*runs, strict=True), strict=True)
        }
    )
