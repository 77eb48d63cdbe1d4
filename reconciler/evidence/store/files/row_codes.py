"""Arithmetic over whole columns that Arrow does not have as one function: pairs of codes, the previous row, units."""

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def combine_column(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def paired(high: pa.Array, low: pa.Array, size: int) -> pa.Int64Array:
    """Return ``high * size + low``, where ``low < size``."""
    return pc.add(pc.multiply(high.cast(pa.int64()), pa.scalar(size)), low.cast(pa.int64()))


def integers(values: Sequence[int]) -> pa.Int64Array:
    """Return integers as a column."""
    return pa.array(values, pa.int64())


def shifted(column: pa.Array) -> pa.Array:
    """Return the value of the previous row; null for the first row."""
    head = pa.nulls(1, column.type)
    return pa.concat_arrays([head, column.slice(0, max(0, len(column) - 1))]).slice(0, len(column))


def sure(mask: pa.Array) -> pa.BooleanArray:
    """Return the mask with nulls as false."""
    return pc.fill_null(mask, fill_value=False)


def count(mask: pa.Array) -> int:
    """Return the number of true rows."""
    return int(pc.sum(mask).as_py() or 0)


def half_up(values: pa.Array) -> pa.Int64Array:
    """Column form of :func:`reconciler.usage.samples.half_up`; values must fit 64 bits."""
    return pc.floor(pc.add(values, pa.scalar(0.5))).cast(pa.int64())


def units(rates: pa.Array, scales: pa.Array, max_units: int) -> pa.Int64Array:
    """Return recorded rates in units, clamped to 0 and ``max_units``; null where a rate is NaN."""
    scaled = pc.multiply(rates, scales)
    numbers = pc.if_else(pc.is_nan(scaled), pa.scalar(None, pa.float64()), scaled)
    cut = pc.min_element_wise(numbers, pa.scalar(float(max_units)), skip_nulls=False)
    return half_up(pc.max_element_wise(cut, pa.scalar(0.0), skip_nulls=False))


def is_whole(value: float, below: int) -> bool:
    """Whether a value is an integer from 0 to ``below - 1``."""
    return math.isfinite(value) and value.is_integer() and 0 <= value < below
