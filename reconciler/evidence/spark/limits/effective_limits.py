"""Effective limits of clients (all keys, ten levels) and of the tags of buckets, batch by batch in Python workers.

The order of the levels is that of ``quota.precedence`` and ``usage.tags``. Limits are those of one snapshot per cluster
(:func:`reconciler.evidence.spark.tables.reader.limits_of_snapshots`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.limits.limit_index import LimitIndex, LiveLimit, limits_of_client
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.usage.samples import KEY_OF, QuotaType
from reconciler.usage.tables import EFFECTIVE_QUOTA
from reconciler.usage.tags import bucket_of_row, entities_of

CLIENT: Final = ("cluster_id", "user", "client_id", "ip")
"""The columns that identify a client; absent names are ""."""

BUCKET: Final = ("cluster_id", "quota_type", "group_kind", "user", "client_id", "ip")
"""The columns that identify a bucket."""

_LIMIT: Final = (
    StructField("value", DoubleType()),
    StructField("quota_units", LongType()),
    StructField("value_state", StringType()),
    StructField("level", IntegerType()),
    StructField("source_entity", StringType()),
)
"""The columns of :class:`LiveLimit`."""

_NONE: Final = (None, None, None, None, "")

Batches = Iterator[pa.RecordBatch]


def principals(clients: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the limit of each client, per key: rows of ``effective_quota``.

    Keys of users and client ids get a row if a user or a client id is present, the connection rate if an ip is.

    Args:
        clients: :data:`CLIENT` and ``day``, each client once.
        limits: ``quota_entry`` of one snapshot per cluster; two values for one pair end the job.
    """
    return clients.select(*CLIENT, "day").mapInArrow(
        _resolving(LimitIndex(limits)), struct(EFFECTIVE_QUOTA)
    )


def _resolving(index: LimitIndex) -> Callable[[Batches], Batches]:
    schema = to_arrow_schema(struct(EFFECTIVE_QUOTA))

    def resolved(batches: Batches) -> Batches:
        for batch in batches:
            rows: list[tuple[object, ...]] = []
            for cluster_id, user, client_id, ip, day in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                limits = index.of(cluster_id)
                for key, candidates in limits_of_client(limits, user, client_id, ip):
                    value, units, _, level, source = candidates[0] if candidates else _NONE
                    rows.append(
                        (cluster_id, user, client_id, ip, key, value, units, level, source, day)
                    )
            columns = (
                pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)
            )
            yield pa.RecordBatch.from_arrays(list(columns), schema=schema)

    return resolved


def tags(buckets: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the buckets with their limit (``usage.tags.limit_of``).

    Args:
        buckets: :data:`BUCKET`, each bucket once; other columns are kept.
        limits: ``quota_entry`` of one snapshot per cluster.

    Returns:
        The columns of ``buckets`` with ``value``, ``quota_units``, ``value_state``, ``level`` (null = no limit) and
        ``source_entity`` ("" = none).
    """
    schema = StructType([*buckets.schema.fields, *_LIMIT])
    return buckets.mapInArrow(_tagging(LimitIndex(limits), to_arrow_schema(schema)), schema)


def _tagging(index: LimitIndex, schema: pa.Schema) -> Callable[[Batches], Batches]:
    def tagged(batches: Batches) -> Batches:
        for batch in batches:
            found_limits = [
                limit_of_tags(index, row) or _NONE for row in batch.select(BUCKET).to_pylist()
            ]
            columns = (
                pa.array([limit[at] for limit in found_limits], schema.field(field.name).type)
                for at, field in enumerate(_LIMIT)
            )
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)

    return tagged


def limit_of_tags(index: LimitIndex, row: Mapping[str, Any]) -> LiveLimit | None:
    """Return the limit of a bucket (:data:`BUCKET`); ``None`` = unlimited."""
    limits, key = index.of(row["cluster_id"]), str(KEY_OF[QuotaType(row["quota_type"])])
    for entity in entities_of(bucket_of_row(row)):
        if key in limits.get(entity, ()):
            return limits[entity][key]
    return None


def key_of(quota_type: Column) -> Column:
    """Return ``samples.KEY_OF`` as a column."""
    cases = [(str(kind), str(key)) for kind, key in KEY_OF.items()]
    return fn.coalesce(*(fn.when(quota_type == kind, fn.lit(key)) for kind, key in cases))
