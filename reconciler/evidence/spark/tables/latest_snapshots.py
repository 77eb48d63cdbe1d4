"""The last complete snapshot of each cluster before a moment, and its limits; reads only days that may contain it."""

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import bounded_rows, reader
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.samples import day_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT

MOST_CLUSTERS: Final = 100_000

_FASTER: Final = 8
"""Growth of the number of days read at once: 1, 8, 64."""


class LatestSnapshot(NamedTuple):
    """A complete snapshot of a cluster."""

    observed_at_ms: int
    snapshot_id: str
    day: dt.date


def last_snapshots(
    spark: SparkSession, lake: Lake, clusters: Collection[str] | None, to_ms: int
) -> dict[str, LatestSnapshot]:
    """Return the last complete snapshot of each cluster before a moment, by cluster id, sorted.

    Snapshots are kept for 25 months. They are read from the newest day backwards: one day for a cluster with daily snapshots.

    Args:
        spark: The session.
        lake: The lake with the snapshots.
        clusters: Cluster ids; all by default.
        to_ms: The moment, exclusive.

    Raises:
        LakeError: The lake cannot be read.
    """
    remaining_by_cluster: defaultdict[str, list[Manifest]] = defaultdict(list)
    last_day = day_of(max(to_ms - 1, 0))
    for manifest in lake.manifests(SNAPSHOT, clusters, to_day=last_day):
        remaining_by_cluster[manifest.unit.cluster_id].append(manifest)  # ascending by day
    snapshots_by_cluster: dict[str, LatestSnapshot] = {}
    days = 1
    while remaining_by_cluster:
        newest = [unit for units in remaining_by_cluster.values() for unit in units[-days:]]
        snapshots_by_cluster |= _last(reader.of(spark, lake, SNAPSHOT, newest), to_ms)
        undecided = {
            cluster_id: units[:-days]
            for cluster_id, units in remaining_by_cluster.items()
            if cluster_id not in snapshots_by_cluster
        }
        remaining_by_cluster = defaultdict(
            list, {cluster_id: units for cluster_id, units in undecided.items() if units}
        )
        days *= _FASTER
    return dict(sorted(snapshots_by_cluster.items()))


def _last(snapshot_rows: DataFrame, to_ms: int) -> dict[str, LatestSnapshot]:
    complete_snapshots = snapshot_rows.where(
        fn.col("complete") & (fn.col("observed_at_ms") < to_ms)
    )
    last = complete_snapshots.groupBy("cluster_id").agg(
        fn.max(fn.struct("observed_at_ms", "snapshot_id", "day")).alias("last")
    )
    rows = bounded_rows.rows(last, MOST_CLUSTERS, "clusters")
    return {row["cluster_id"]: LatestSnapshot(*row["last"]) for row in rows}


def limits(spark: SparkSession, lake: Lake, snapshots: Mapping[str, LatestSnapshot]) -> DataFrame:
    """Return the limits of these snapshots: rows of ``quota_entry``, from one day of each cluster.

    Raises:
        LakeError: The lake cannot be read.
    """
    if not snapshots:
        return reader.of(spark, lake, QUOTA_ENTRY, ())
    days = [snapshot.day for snapshot in snapshots.values()]
    units = lake.manifests(QUOTA_ENTRY, snapshots, min(days), max(days))
    entries = reader.of(
        spark,
        lake,
        QUOTA_ENTRY,
        [
            manifest
            for manifest in units
            if manifest.unit.day == snapshots[manifest.unit.cluster_id].day
        ],
    )
    snapshot_keys = spark.createDataFrame(
        [(name, snapshot.snapshot_id) for name, snapshot in snapshots.items()],
        "cluster_id string, snapshot_id string",
    )
    return entries.join(fn.broadcast(snapshot_keys), ["cluster_id", "snapshot_id"], "left_semi")
