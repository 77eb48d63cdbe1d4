"""Writes rows of a result to the lake: one unit per cluster, on the last day of the window; the newest result of a day replaces others."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from reconciler.base.protocols import Progress
from reconciler.errors import LakeConflict
from reconciler.evidence.spark.tables import unit_writer
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.tables import Table

TRIES: Final = 5


def commit_results(
    lake: Lake,
    frame: DataFrame,
    table: Table,
    clusters: Iterable[str],
    *,
    span: TimeWindow,
    progress: Progress,
    snapshots: Mapping[str, str] | None = None,
) -> tuple[Manifest, ...]:
    """Commit the rows of a result for each cluster; a cluster without rows gets an empty unit, which is a result too.

    Args:
        frame: Rows of these clusters and of the last day of the window.
        clusters: Cluster ids.
        progress: Called after each unit.
        snapshots: Ids of the snapshots that the rows rely on, by cluster, for the manifests.

    Raises:
        LakeConflict: Other writers committed first :data:`TRIES` times.
        LakeError: The lake cannot be read or written.
    """
    window = {"from_ms": str(span.from_ms), "to_ms": str(span.to_ms)}
    units = [
        Unit(table=table, cluster_id=cluster_id, day=span.last_day)
        for cluster_id in sorted(set(clusters))
    ]
    manifests: list[Manifest] = []
    for _ in range(TRIES):
        generations = [
            unit_writer.NextGeneration(
                unit=unit,
                after=lake.manifest(unit),
                inputs=window
                if snapshots is None
                else {**window, "snapshot_id": snapshots[unit.cluster_id]},
            )
            for unit in units
        ]
        names = [unit.cluster_id for unit in units]
        commit_result = unit_writer.committed(
            lake, frame.where(frame.cluster_id.isin(names)), generations, progress
        )
        manifests += commit_result.manifests
        if not commit_result.conflicts:
            return tuple(manifests)
        units = list(
            commit_result.conflicts
        )  # a result does not depend on the unit that it replaces
    raise LakeConflict(f"{table.name}: another writer committed first {TRIES} times")
