"""The job ``history``: changes of each limit and their causes; writes ``quota_change``."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.fleet import history
from reconciler.evidence.spark.tables import reader, unit_writer
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.spark.usage import report_rows
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import clusters_with_snapshot, last_snapshots
from reconciler.usage.reports.fleet import (
    ClusterTotals,
    FleetReport,
    LimitChangeRow,
)
from reconciler.usage.tables import APPLY_LOG, DESIRED_ENTRY, QUOTA_CHANGE, QUOTA_ENTRY, SNAPSHOT


def run(spark: SparkSession, lake: Lake, span: ReportWindow, progress: Progress) -> FleetReport:
    """Read every snapshot up to the end, commit the changes of the window, report the newest.

    Snapshots before the window are read too: a change follows from the snapshot before it; "first seen" means there is none.

    Raises:
        UsageError: No cluster has a complete snapshot, or the window is empty.
        LakeError: The lake cannot be read or written.
    """
    last_observed = last_snapshots(lake, span.cluster or None, span.to_ms)
    names, notes = clusters_with_snapshot(last_observed, span.cluster)
    progress("reading snapshots", 0, 0)
    before = fn.col("observed_at_ms") < span.to_ms
    entries, snapshots = (
        reader.frame(spark, lake, table, names, to_day=span.last_day)
        for table in (QUOTA_ENTRY, SNAPSHOT)
    )
    steps = history.limit_steps(
        entries.where(before), snapshots.where(before & fn.col("complete"))
    ).cache()
    log = reader.frame(spark, lake, APPLY_LOG, names, to_day=span.last_day)
    changed = history.changes(steps, log).where(
        (fn.col("from_ms") >= span.from_ms) & (fn.col("from_ms") < span.to_ms)
    )
    last = spark.createDataFrame(
        [(cluster_id, last_observed[cluster_id].observed_at_ms) for cluster_id in names],
        "cluster_id string, look_ms bigint",
    )
    pending_changes = history.unapplied_changes(steps, _desired(spark, lake, names, span), last)
    # The result is committed under the last day of the window.
    rows = changed.unionByName(pending_changes).withColumn("day", fn.lit(span.last_day)).cache()
    _ = unit_writer.commit_results(lake, rows, QUOTA_CHANGE, names, span=span, progress=progress)
    causes = report_rows.count_by_cluster(rows, "cause")
    newest = (fn.col("from_ms").desc(), "cluster_id", "entity_json", "quota_key", "cause")
    shown_changes, remaining_rows = report_rows.first(rows, LimitChangeRow, newest, span.most)
    for frame in (rows, steps):
        _ = frame.unpersist()
    return FleetReport(
        about="history",
        clusters=tuple(
            ClusterTotals(
                cluster_id=cluster_id,
                look_ms=last_observed[cluster_id].observed_at_ms,
                counts=causes.get(cluster_id, {}),
            )
            for cluster_id in names
        ),
        changed=shown_changes,
        left_out={QUOTA_CHANGE.name: remaining_rows} if remaining_rows else {},
        notes=notes,
    )


def _desired(
    spark: SparkSession, lake: Lake, names: tuple[str, ...], span: TimeWindow
) -> DataFrame:
    """Return what documents declared at the end of the window, as committed by ``kquota spark plan``; empty if it never ran."""
    newest = {
        manifest.unit.cluster_id: manifest
        for manifest in lake.manifests(DESIRED_ENTRY, names, to_day=span.last_day)
    }
    return reader.of(spark, lake, DESIRED_ENTRY, newest.values())
