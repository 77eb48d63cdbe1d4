"""Samples in Arrow tables as series of columns, which is what the kernel computes with."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.usage.kernel.series import (
    CENSORED,
    COLUMNS,
    NOT_RECORDED,
    UNKNOWN,
    SampleSeries,
    series_of,
)

_WORDS: Final = pa.array([str(word) for word in CENSORED])


def series_by(
    rows: pa.Table, names: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], SampleSeries]]:
    """The series of a table, each with its values of some columns.

    Args:
        rows: Columns of ``usage_sample``; rows in any order.
        names: The columns that distinguish series.

    Raises:
        QuotaValueError: A sample is there twice or out of range.
    """
    columns = {name: rows.column(name) for name in (*names, *COLUMNS)}
    columns["throttle_ms"] = pc.fill_null(columns["throttle_ms"], NOT_RECORDED)
    columns["censored"] = _codes(columns["censored"])
    lists = pa.table(columns).group_by(list(names), use_threads=False)
    groups = lists.aggregate([(name, "list") for name in COLUMNS]).combine_chunks()
    keys = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
    values = {name: groups.column(f"{name}_list").combine_chunks() for name in COLUMNS}
    for at, key in enumerate(keys):
        yield key, series_of({name: column[at].values for name, column in values.items()})


def _codes(words: pa.ChunkedArray) -> pa.ChunkedArray:
    """The places of words in :data:`CENSORED`; a word that is not known says nothing."""
    return pc.fill_null(pc.index_in(words, _WORDS), UNKNOWN)
