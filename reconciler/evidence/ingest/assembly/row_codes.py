"""Columns as whole numbers: rows that agree in some columns get one number. Arrow does the work, not Python loops.

Texts repeat a lot, so they are looked at once per distinct value, and everything after that compares integers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

LARGEST: Final = 2**62
"""Products of cardinalities stay below this; larger ones are made dense in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCodes:
    """Rows by number.

    Attributes:
        codes: One per row, from 0 on without holes, in the order of first appearance.
        firsts: For each number the first row that has it.
    """

    codes: pa.Int64Array
    firsts: pa.Int64Array

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self.firsts)


def combine_column(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece; texts as dictionaries, because they repeat."""
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
    """Numbers for the rows of these columns (integers or texts without nulls), which are equally long.

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
    """Numbers from 0 on for the values of a column, and how many there are."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


def paired(high: pa.Array, low: pa.Array, size: int) -> pa.Int64Array:
    """Two numbers as one: ``high * size + low``, where ``low < size``."""
    return pc.add(pc.multiply(high.cast(pa.int64()), pa.scalar(size)), low.cast(pa.int64()))


def integers(values: Sequence[int]) -> pa.Int64Array:
    """Whole numbers as a column."""
    return pa.array(values, pa.int64())


def shifted(column: pa.Array, first: object = None) -> pa.Array:
    """The value of the row before; ``first`` for the first row."""
    head = pa.array([first], column.type)
    return pa.concat_arrays([head, column.slice(0, max(0, len(column) - 1))]).slice(0, len(column))


def sure(mask: pa.Array) -> pa.BooleanArray:
    """A mask in which what is not known is not so."""
    return pc.fill_null(mask, fill_value=False)


def count(mask: pa.Array) -> int:
    """How many rows are true."""
    return int(pc.sum(mask).as_py() or 0)


def half_up(values: pa.Array) -> pa.Int64Array:
    """Column form of :func:`reconciler.usage.samples.half_up`; values must fit 64 bits."""
    return pc.floor(pc.add(values, pa.scalar(0.5))).cast(pa.int64())


def units(rates: pa.Array, scales: pa.Array, max_units: int) -> pa.Int64Array:
    """Column form of a recorded rate in units, cut to 0 and ``max_units``; null where a rate is not a number."""
    scaled = pc.multiply(rates, scales)
    numbers = pc.if_else(pc.is_nan(scaled), pa.scalar(None, pa.float64()), scaled)
    cut = pc.min_element_wise(numbers, pa.scalar(float(max_units)), skip_nulls=False)
    return half_up(pc.max_element_wise(cut, pa.scalar(0.0), skip_nulls=False))


def is_whole(value: float, below: int) -> bool:
    """Whether a value is a whole number from 0 on and below a bound."""
    return math.isfinite(value) and value.is_integer() and 0 <= value < below
