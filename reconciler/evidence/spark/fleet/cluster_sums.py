"""Sums by cluster for fleet reports, and the clusters that have a complete snapshot."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.errors import UsageError
from reconciler.evidence.spark.tables import bounded_rows

MOST_CLUSTERS: Final = 10_000


def sums(frame: DataFrame) -> dict[str, Mapping[str, Any]]:
    """Return one row per cluster as a mapping, by cluster id."""
    rows = bounded_rows.rows(frame, MOST_CLUSTERS, "clusters")
    return {row["cluster_id"]: row.asDict() for row in rows}


def count_by_cluster(rows: DataFrame, by: str) -> dict[str, dict[str, int]]:
    """Return the number of rows by cluster id and value of a column that has few distinct values."""
    counts_by_cluster: dict[str, dict[str, int]] = {}
    grouped = rows.groupBy("cluster_id", by).agg(fn.count(fn.lit(1)).alias("amount"))
    for row in bounded_rows.rows(grouped, 20 * MOST_CLUSTERS, "sums"):
        counts_by_cluster.setdefault(row["cluster_id"], {})[row[by]] = row["amount"]
    return counts_by_cluster


def clusters_with_snapshot(
    snapshot_times_ms: Mapping[str, int], cluster_names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the clusters that have a complete snapshot, and a sentence for each cluster that has none.

    Raises:
        UsageError: No cluster has one.
    """
    names = tuple(sorted(snapshot_times_ms.keys() & set(cluster_names or snapshot_times_ms)))
    if not names:
        raise UsageError(
            "the lake has no complete snapshot of any of these clusters",
            hint="kquota snapshot --taken-at --out prod.json, then kquota spark ingest --snapshot prod.json",
        )
    missing = sorted(set(cluster_names) - set(names))
    return names, tuple(
        f"{cluster_id}: no complete snapshot in the lake, so it is not in this report"
        for cluster_id in missing
    )
