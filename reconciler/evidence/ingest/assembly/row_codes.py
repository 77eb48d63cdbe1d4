"""Encodes rows as integers by their values in some columns, with Arrow instead of Python loops.

Strings repeat: each distinct one is processed once, and later steps compare integers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

LARGEST: Final = 2**62
"""Upper bound of products of cardinalities; columns are re-encoded densely before it is exceeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCodes:
    """Rows as integers.

    Attributes:
        codes: One per row: 0, 1, … in the order of first appearance.
        firsts: The first row of each code.
    """

    codes: pa.Int64Array
    firsts: pa.Int64Array

    def __len__(self) -> int:
        """Return the number of distinct codes."""
        return len(self.firsts)


def combine_column(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array; strings as dictionaries."""
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if text:
        column = column.dictionary_encode()
    if isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def coded(columns: Sequence[pa.Array]) -> RowCodes:
    """Encode the rows of columns of equal length (integers or strings without nulls).

    Args:
        columns: At least one.
    """
    numbers, size = dense(columns[0])
    for column in columns[1:]:
        more_codes, count = dense(column)
        if size * count >= LARGEST:
            numbers, size = dense(numbers)
        numbers = pc.add(pc.multiply(numbers, pa.scalar(max(1, count))), more_codes)
        size = max(1, size) * max(1, count)
    encoded = numbers.dictionary_encode()
    return RowCodes(
        codes=encoded.indices.cast(pa.int64()),
        firsts=pc.index_in(encoded.dictionary, value_set=numbers).cast(pa.int64()),
    )


def dense(column: pa.Array) -> tuple[pa.Int64Array, int]:
    """Return codes from 0 for the values of a column, and their number."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


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
