"""Effective limits of the tags of buckets: limits are sent to Python workers once, and looked up there by entity.

The order of the levels is that of ``quota.precedence`` and ``usage.tags``. Limits are those of one snapshot per cluster
(:func:`reconciler.evidence.spark.tables.reader.limits_of_snapshots`).
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from reconciler.errors import LakeDamaged
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot
from reconciler.quota.keys import COLUMNS
from reconciler.quota.patterns import FORMS
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

MOST_LIMITS: Final = 2_000_000
"""Maximum number of limits of all clusters of a job; a worker needs about 500 bytes for each."""

_SLOTS: Final = (("user_kind", "user"), ("client_kind", "client_id"), ("ip_kind", "ip"))
_OTHERS: Final = ("cluster_id", "quota_key", "value", "quota_units", "value_state", "entity_json")
_READ: Final = (*(name for slot in _SLOTS for name in slot), *_OTHERS)
_WITHOUT_NAME: Final[dict[str, Slot]] = {"default": DEFAULT, "absent": ABSENT}


class LiveLimit(NamedTuple):
    """The value of one pair as stored, with the canonical text of its entity."""

    value: float
    quota_units: int | None
    value_state: str
    source_entity: str


ClusterLimits = Mapping[Entity, Mapping[str, LiveLimit]]
"""Limits by entity and key."""


_Clusters = Mapping[str, ClusterLimits]

_index_of_process: dict[str, _Clusters] = {}
"""The last index of this process, by the digest of its rows: Spark reuses a Python worker for many tasks."""


class LimitIndex:
    """The limits that can apply to a client, by cluster.

    A worker process indexes equal rows once, when it looks for the first limit; it keeps the last index only.

    Args:
        entries: ``quota_entry`` of one snapshot per cluster; foreign types and keys, and live entities with an empty
            name, apply to no client.

    Raises:
        SparkError: There are more than :data:`MOST_LIMITS` limits.
    """

    def __init__(self, entries: DataFrame) -> None:
        self._rows = bounded_rows.table(
            entries.where(_is_known()).select(*_READ), MOST_LIMITS, "limits"
        )
        self._digest = _digest(self._rows)
        self._clusters: _Clusters | None = None

    def of(self, cluster_id: str) -> ClusterLimits:
        """Return the limits of a cluster.

        Raises:
            LakeDamaged: Two rows are of one pair.
        """
        if self._clusters is None:
            self._clusters = self._shared_index()
        return self._clusters.get(cluster_id, {})

    def _shared_index(self) -> _Clusters:
        clusters = _index_of_process.get(self._digest)
        if clusters is None:
            _index_of_process.clear()
            clusters = _index_of_process[self._digest] = _by_cluster(self._rows)
        return clusters


def _digest(rows: pa.Table) -> str:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    return hashlib.sha256(stream.getvalue()).hexdigest()


def _by_cluster(rows: pa.Table) -> dict[str, dict[Entity, dict[str, LiveLimit]]]:
    columns = {name: rows.column(name).to_pylist() for name in _READ}
    slots = [
        [
            name if kind == "named" else _WITHOUT_NAME[kind]
            for kind, name in zip(columns[kind_column], columns[name_column], strict=True)
        ]
        for kind_column, name_column in _SLOTS
    ]
    clusters: dict[str, dict[Entity, dict[str, LiveLimit]]] = defaultdict(lambda: defaultdict(dict))
    for cluster_id, key, value, units, state, text, *subject in zip(
        *(columns[name] for name in _OTHERS), *slots, strict=True
    ):
        entity = Entity(tuple(subject))
        if "" in entity:
            continue
        values = clusters[cluster_id][entity]
        if key in values:
            raise LakeDamaged(f"a limit is given twice: {cluster_id} {text} {key}")
        values[key] = LiveLimit(value, units, state, text)
    return clusters


def _is_known() -> Column:
    """Whether a row of ``quota_entry`` has a known key and a form of entity that Kafka's quota managers support."""
    kinds = fn.concat_ws(" ", "user_kind", "client_kind", "ip_kind")
    is_known_key = fn.col("quota_key").isin([str(key) for key in COLUMNS])
    return is_known_key & kinds.isin([" ".join(form) for form in FORMS])


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
                _limit_of_tags(index, row) or _NONE for row in batch.select(BUCKET).to_pylist()
            ]
            columns = (
                pa.array([limit[at] for limit in found_limits], schema.field(field.name).type)
                for at, field in enumerate(_LIMIT)
            )
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)

    return tagged


def _limit_of_tags(index: LimitIndex, row: Mapping[str, Any]) -> LiveLimit | None:
    """Return the limit of a bucket (:data:`BUCKET`); ``None`` = unlimited."""
    limits, key = index.of(row["cluster_id"]), str(KEY_OF[QuotaType(row["quota_type"])])
    for entity in entities_of(bucket_of_row(row)):
        if key in limits.get(entity, ()):
            return limits[entity][key]
    return None
