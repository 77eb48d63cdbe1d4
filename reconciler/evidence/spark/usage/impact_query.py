"""The rows that a change of limits affects: ``usage.impact.query`` in one grouped call per cluster over distinct buckets.

Spark collects the distinct buckets that brokers recorded; limits, whose number is bounded, are arguments of the call.
The call gets no samples.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from reconciler.codecs.row_values import row_document
from reconciler.evidence.store import sample_columns
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery, impact_query
from reconciler.usage.impact.recorded_limits import RecordedLimits

BUCKET: Final = ("group_kind", "user", "client_id", "ip")

_TEXT, _LONG, _YES = StringType(), LongType(), BooleanType()

_PART: Final = StructType(
    [*(StructField(name, _TEXT) for name in BUCKET), StructField("limit", _LONG)]
)
ROWS: Final = StructType(
    [
        StructField("cluster_id", _TEXT),
        StructField("item", _TEXT),
        StructField("n", IntegerType()),
        StructField("quota_type", _TEXT),
        *(StructField(name, _TEXT) for name in BUCKET),
        StructField("any_name", _YES),
        StructField("broker_id", _TEXT),
        StructField("answer", _TEXT),
        StructField("before_units", _LONG),
        StructField("after_units", _LONG),
        StructField("source_entity", _TEXT),
        StructField("reason", _TEXT),
        StructField("max_gap_ms", _LONG),
        StructField("parts", ArrayType(_PART)),
    ]
)
"""Schema of the result; ``item`` is :data:`ASKED` or the kind of a remark; ``n`` numbers the rows of a cluster, or is a number of buckets."""

ASKED, FLIPPED, UNEXPLAINED, NOTE = "asked", "flipped", "unexplained", "note"


class ClusterChange(NamedTuple):
    """A change of one cluster's limits, before its samples are read."""

    max_gap_ms: int
    before: QuotaState
    after: QuotaState
    # Limits under which series were recorded; None = the current ones.
    recorded: RecordedLimits | None = None


def seen_buckets(series: DataFrame, clusters: Iterable[str]) -> DataFrame:
    """Add to distinct series a row without a bucket for each cluster, so that clusters without samples have a group."""
    named = series.sparkSession.createDataFrame([(name,) for name in clusters], "cluster_id string")
    return series.unionByName(named, allowMissingColumns=True)


def questions(series: DataFrame, changes: Mapping[str, ClusterChange]) -> DataFrame:
    """Return the rows that each cluster's change affects, as :data:`ROWS`; see ``usage.impact.query.impact_query``.

    The frame is bounded and read by several steps: persist it before use.

    Args:
        series: The distinct recorded series.
        changes: Changes by cluster id; series of other clusters are ignored.
    """
    groups = seen_buckets(series, changes).groupBy("cluster_id")
    return groups.applyInArrow(_answering(dict(changes)), ROWS)


def _answering(changes: Mapping[str, ClusterChange]) -> Callable[[pa.Table], pa.Table]:
    """Return the grouped function that converts one cluster's buckets to its rows."""

    def answered(bucket_rows: pa.Table) -> pa.Table:
        cluster_id: str = bucket_rows.column("cluster_id")[0].as_py()
        change = changes.get(cluster_id)
        if change is None:
            return _table([])
        recorded_rows = bucket_rows.filter(bucket_rows.column("quota_type").is_valid())
        buckets = sample_columns.buckets_by_type(recorded_rows)
        query = impact_query(
            cluster_id,
            change.before,
            change.after,
            buckets,
            set(buckets),
            recorded=change.recorded,
        )
        return _table(list(_rows(query, change.max_gap_ms)))

    return answered


def _rows(query: ImpactQuery, max_gap_ms: int) -> Iterator[dict[str, Any]]:
    cluster = {"cluster_id": query.cluster_id}
    for n, request in enumerate(query.requests):
        row = row_document(request) | {"item": ASKED, "n": n, "max_gap_ms": max_gap_ms}
        yield cluster | row
    yield cluster | {"item": FLIPPED, "n": query.flipped}
    yield cluster | {"item": UNEXPLAINED, "n": query.unexplained}
    for n, text in enumerate(query.notes):
        yield cluster | {"item": NOTE, "n": n, "reason": text}


_ARROW: Final = to_arrow_schema(ROWS)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_ARROW)
