"""Converts samples in Arrow tables to the column series that the kernel computes with, and to their buckets."""

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
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, bucket_of_row

BUCKET: Final = ("group_kind", "user", "client_id", "ip")
"""The columns of a bucket besides its quota type."""

BucketsByType = dict[QuotaType, dict[str, set[Bucket]]]
"""Buckets by quota type and broker id."""

_WORDS: Final = pa.array([str(word) for word in CENSORED])


def series_by(
    rows: pa.Table, names: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], SampleSeries]]:
    """Yield the series of a table with its values of the columns ``names``.

    Args:
        rows: Columns of ``usage_sample``; rows in any order.
        names: Columns that identify a series.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    columns = {name: rows.column(name) for name in (*names, *COLUMNS)}
    columns["throttle_ms"] = pc.fill_null(columns["throttle_ms"], NOT_RECORDED)
    columns["censored"] = codes(columns["censored"])
    lists = pa.table(columns).group_by(list(names), use_threads=False)
    groups = lists.aggregate([(name, "list") for name in COLUMNS]).combine_chunks()
    keys = zip(*(groups.column(name).to_pylist() for name in names), strict=True)
    values = {name: groups.column(f"{name}_list").combine_chunks() for name in COLUMNS}
    for at, key in enumerate(keys):
        yield key, series_of({name: column[at].values for name, column in values.items()})


def buckets_by_type(rows: pa.Table) -> BucketsByType:
    """Return the buckets of rows with the columns of a series; each bucket is created once, brokers are sorted.

    Raises:
        ValueError: A quota type or a kind of bucket is unknown.
    """
    names = ("broker_id", "quota_type", *BUCKET)
    once = rows.group_by(list(names)).aggregate([]).sort_by("broker_id").select(names)
    buckets_by_columns: dict[tuple[str, ...], Bucket] = {}
    buckets: BucketsByType = {}
    for broker, kind, *columns in zip(*once.to_pydict().values(), strict=True):
        key = tuple(columns)
        bucket = buckets_by_columns.get(key)
        if bucket is None:
            bucket = bucket_of_row(dict(zip(BUCKET, key, strict=True)))
            buckets_by_columns[key] = bucket
        buckets.setdefault(QuotaType(kind), {}).setdefault(broker, set()).add(bucket)
    return buckets


def codes(words: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the index of each word in :data:`CENSORED`; unknown words become :data:`UNKNOWN`."""
    if not pa.types.is_dictionary(words.type):
        return pc.fill_null(pc.index_in(words, _WORDS), UNKNOWN)
    places = [pc.index_in(chunk.dictionary, _WORDS).take(chunk.indices) for chunk in words.chunks]
    return pc.fill_null(pa.chunked_array(places, pa.int32()), UNKNOWN)
