"""The job ``capacity``: budgets of brokers, promised and served rates, and use beyond a fair share."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.tables import bounded_rows, reader, unit_writer
from reconciler.evidence.spark.tables.bounded_rows import MOST_CLUSTERS
from reconciler.evidence.spark.tables.reader import limits_of_snapshots
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.spark.usage import broker_load, facts, report_rows
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.evidence.spark.usage.limit_usage import SERIES
from reconciler.evidence.spark.usage.rollup import INTERVAL_MS
from reconciler.evidence.spark.usage.series_blocks import SampleFiles
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import last_snapshots
from reconciler.usage.capacity import CapacityOfCluster
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.samples import MAX_GAP_MS
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    CAPACITY_ROW,
    NOISY_ROW,
    USAGE_SAMPLE,
)

HOT: Final = 500
"""Number of hot intervals of each cluster for which fair shares are computed."""


def run(spark: SparkSession, lake: Lake, span: ReportWindow, progress: Progress) -> UsageReport:
    """Compute both tables, commit all rows and report the first.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    clusters = span.cluster or None
    capacities = broker_load.capacities_of(span.capacity)
    five_minutes = rollup.five_minutes(spark, lake, span.cluster, span, progress).where(
        _inside(span, "bucket_ms")
    )
    snapshots = last_snapshots(lake, clusters, span.to_ms)
    notes = facts.evidence(lake, clusters, span, snapshots)
    units = lake.manifests(USAGE_SAMPLE, clusters, **facts.days(span))
    samples = SampleFiles(
        spark=spark, lake=lake, units=units, from_ms=span.from_ms, to_ms=span.to_ms
    )
    brokers = reader.frame(spark, lake, BROKER_SAMPLE, clusters, **facts.days(span)).where(
        _inside(span, "ts_ms")
    )
    entries = limits_of_snapshots(spark, lake, snapshots)
    limits = facts.limits_of(five_minutes.select(*BUCKET).distinct(), entries).cache()
    gaps = spark.createDataFrame(
        [
            (cluster_id, cadence.max_gap_ms)
            for cluster_id, cadence in scrape_interval.of(units).items()
        ],
        "cluster_id string, max_gap_ms bigint",
    )
    runs_with_gaps = samples.runs().join(fn.broadcast(gaps), "cluster_id", "left")
    longest = fn.coalesce(fn.col("max_gap_ms"), fn.lit(MAX_GAP_MS))
    # A broker may have samples although no bucket has: its rows are reported, so they are committed.
    answered = lake.manifests(BROKER_SAMPLE, clusters, **facts.days(span))
    names = sorted(
        {note.cluster_id for note in notes} | {manifest.unit.cluster_id for manifest in answered}
    )

    progress("served at each moment", 0, 0)
    at = broker_load.moments(runs_with_gaps, limits, brokers, longest).cache()
    capacity_frame = broker_load.capacity(
        at, limits, five_minutes.select(*SERIES), capacities, span.last_day
    ).cache()
    budgets = broker_load.interval_budgets(at, capacities, INTERVAL_MS)
    over = broker_load.beyond(five_minutes, budgets).cache()
    noisy = broker_load.noisy(
        broker_load.hot(five_minutes, over, HOT), limits, span.last_day
    ).cache()
    try:
        _ = unit_writer.commit_results(
            lake, capacity_frame, CAPACITY_ROW, names, span=span, progress=progress
        )
        progress("fair shares", 0, 0)
        omitted_rows = bounded_rows.rows(broker_load.left_out(over, HOT), MOST_CLUSTERS, "clusters")
        _ = unit_writer.commit_results(lake, noisy, NOISY_ROW, names, span=span, progress=progress)
        capacity, more_capacity = report_rows.capacity_rows(capacity_frame, span.most)
        excess, more_excess = report_rows.noisy_rows(noisy, span.most)
    finally:
        for frame in (at, capacity_frame, over, noisy, limits):
            _ = frame.unpersist()
    remaining_rows = {CAPACITY_ROW.name: more_capacity, NOISY_ROW.name: more_excess}
    return UsageReport(
        evidence=notes,
        capacity=capacity,
        noisy=excess,
        left_out={name: amount for name, amount in remaining_rows.items() if amount},
        notes=(
            *_notes(names, span.capacity),
            *_left_out({row["cluster_id"]: row["intervals"] for row in omitted_rows}),
        ),
    )


def _inside(span: TimeWindow, name: str) -> Column:
    return (fn.col(name) >= span.from_ms) & (fn.col(name) < span.to_ms)


def _notes(names: Iterable[str], capacities: Iterable[CapacityOfCluster]) -> tuple[str, ...]:
    configured = {of_cluster.cluster_id for of_cluster in capacities}
    return tuple(
        f"{cluster_id}: no capacity is configured (spec.brokerCapacity), so there is no budget"
        for cluster_id in names
        if cluster_id not in configured
    )


def _left_out(intervals: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        f"{cluster_id}: fair shares are those of the {HOT} intervals furthest beyond the budget; {amount} more are left out"
        for cluster_id, amount in sorted(intervals.items())
    )
