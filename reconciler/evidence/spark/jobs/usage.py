"""The job ``usage``: use against limits in a window of whole days, with curves of the first rows."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.tables import reader, unit_writer
from reconciler.evidence.spark.tables.reader import limits_of_snapshots
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.spark.usage import facts, limit_usage, report_rows
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.evidence.spark.usage.rollup import INTERVAL_MS
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import last_snapshots
from reconciler.usage.reports.usage import UsageCurve, UsageReport, UsageRow
from reconciler.usage.tables import USAGE_HIST_D, USAGE_ROW

MOST_POINTS: Final = 400
"""Maximum number of points of a curve; a picture cannot show more."""

CURVES: Final = 12
"""Number of first rows that get a curve."""


def run(spark: SparkSession, lake: Lake, window: ReportWindow, progress: Progress) -> UsageReport:
    """Update the rollups, profile every bucket on every broker, commit all rows and report the first.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    span = window.whole_days
    clusters = window.cluster or None
    five_minutes = rollup.five_minutes(spark, lake, window.cluster, span, progress)
    progress("limits in force", 0, 0)
    # Profiles are of whole days, but time after the end of the window is no gap.
    seen_span = TimeWindow(from_ms=span.from_ms, to_ms=min(span.to_ms, window.to_ms))
    snapshots = last_snapshots(lake, clusters, span.to_ms)
    notes = facts.evidence(lake, clusters, seen_span, snapshots)
    hist = reader.frame(spark, lake, USAGE_HIST_D, clusters, **facts.days(span))
    entries = limits_of_snapshots(spark, lake, snapshots).cache()
    limits = facts.limits_of(five_minutes.select(*BUCKET).distinct(), entries)
    usage_frame = limit_usage.use(five_minutes, hist, limits, span.last_day)
    unused = limit_usage.unused(
        usage_frame, facts.named_limits(entries), five_minutes, span.last_day
    )
    rows = usage_frame.unionByName(unused).cache()
    progress("profiles", 0, 0)
    # Clusters with limits and without samples are included: their limits were not used.
    names = sorted(snapshots.keys() | {note.cluster_id for note in notes})
    _ = unit_writer.commit_results(lake, rows, USAGE_ROW, names, span=span, progress=progress)
    first, left_out = report_rows.usage_rows(rows, window.most)
    report = UsageReport(
        evidence=notes,
        usage=first,
        curves=curves(spark, five_minutes, limits_of_rows(first), span),
        left_out={USAGE_ROW.name: left_out} if left_out else {},
    )
    _ = rows.unpersist()
    _ = entries.unpersist()
    return report


def curves(
    spark: SparkSession, five_minutes: DataFrame, limits: report_rows.Limits, span: TimeWindow
) -> tuple[UsageCurve, ...]:
    """Return the curves of some buckets on brokers.

    Args:
        five_minutes: ``usage_5m`` of the window.
        limits: The limits of each curve.
    """
    if not limits:
        return ()
    # A multiple of five minutes that keeps a curve within MOST_POINTS points.
    length_ms = -(-(span.to_ms - span.from_ms) // (MOST_POINTS - 1) // INTERVAL_MS) * INTERVAL_MS
    names = [
        (cluster, str(kind), str(bucket.kind), bucket.user, bucket.client_id, bucket.ip, broker)
        for cluster, kind, bucket, broker in limits
    ]
    drawn = spark.createDataFrame(names, ", ".join(f"{name} string" for name in limit_usage.SERIES))
    points = limit_usage.curves(five_minutes, drawn, length_ms)
    return report_rows.curves(points, limits, length_ms, MOST_POINTS * len(limits))


def limits_of_rows(rows: Sequence[UsageRow]) -> report_rows.Limits:
    """Return the limits of the first rows that have a broker, which get a curve."""
    return {
        (row.cluster_id, row.quota_type, row.bucket, row.broker_id): (
            row.limit_units,
            row.limit_units,
        )
        for row in [row for row in rows if row.broker_id][:CURVES]
    }
