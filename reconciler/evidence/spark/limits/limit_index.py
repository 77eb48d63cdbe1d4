"""The limits of a fleet in Python workers: sent as columns, with the job, and looked up there by entity."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from reconciler.errors import LakeDamaged
from reconciler.evidence.spark.limits.entities import is_known
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot

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
            entries.where(is_known()).select(*_READ), MOST_LIMITS, "limits"
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
