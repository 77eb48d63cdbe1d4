"""Effective limits of the tags of buckets, batch by batch in Python workers.

The order of the levels is that of ``quota.precedence`` and ``usage.tags``. Limits are those of one snapshot per cluster
(:func:`reconciler.evidence.spark.tables.reader.limits_of_snapshots`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.limits.limit_index import LimitIndex, LiveLimit
from reconciler.usage.samples import KEY_OF, QuotaType
from reconciler.usage.tags import bucket_of_row, entities_of

BUCKET: Final = ("cluster_id", "quota_type", "group_kind", "user", "client_id", "ip")
"""The columns that identify a bucket."""

_LIMIT: Final = (
    StructField("value", DoubleType()),
    StructField("quota_units", LongType()),
    StructField("value_state", StringType()),
    StructField("source_entity", StringType()),
)
"""The columns of :class:`LiveLimit`."""

_NONE: Final = (None, None, None, "")

Batches = Iterator[pa.RecordBatch]


def tags(buckets: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the buckets with their limit (``usage.tags.limit_of``).

    Args:
        buckets: :data:`BUCKET`, each bucket once; other columns are kept.
        limits: ``quota_entry`` of one snapshot per cluster.

    Returns:
        The columns of ``buckets`` with ``value``, ``quota_units``, ``value_state`` (null = no limit) and
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
