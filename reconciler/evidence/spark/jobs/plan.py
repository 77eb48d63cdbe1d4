"""The job ``plan``: the changes of all clusters as ``quota.planner.comparison.compare`` plans them; writes ``plan_row`` and ``plan_conflict``."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.errors import UsageError
from reconciler.evidence.spark.fleet import plan
from reconciler.evidence.spark.fleet.plan_inputs import ClusterPlanInput, PlanFrames, sides
from reconciler.evidence.spark.tables import bounded_rows, unit_writer
from reconciler.evidence.spark.tables.reader import limits_of_snapshots
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import report_rows
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import clusters_with_snapshot, last_snapshots
from reconciler.quota.planner.guards import (
    Guards,
    nothing_declared,
    too_many_removals,
)
from reconciler.usage.reports.fleet import (
    ClusterTotals,
    ConflictRow,
    FleetReport,
    PlannedRow,
)
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import (
    DESIRED_ENTRY,
    PLAN_CONFLICT,
    PLAN_ROW,
)

OLDEST_DAYS: Final = 400
"""Maximum age of a snapshot in days."""


def planned(
    spark: SparkSession,
    lake: Lake,
    fleet: Mapping[str, ClusterPlanInput],
    *,
    to_ms: int,
    max_rows: int,
    progress: Progress,
) -> FleetReport:
    """Plan from inputs that were read in this process, and commit what documents declare to the lake, for ``history``.

    Raises:
        UsageError: None of the clusters has a complete snapshot.
        LakeError: The lake cannot be read or written.
    """
    view = _ObservedFleet(spark, lake, tuple(fleet), to_ms)
    progress("reading sides", 0, 0)
    frames = sides(spark, view.live(), {cluster_id: fleet[cluster_id] for cluster_id in view.names})
    declared = frames.desired.withColumn("day", fn.lit(view.span.last_day))
    _ = unit_writer.commit_results(
        lake, declared, DESIRED_ENTRY, view.names, span=view.span, progress=progress
    )
    return _planned(view, frames, fleet, max_rows, progress)


class _ObservedFleet:
    """The clusters of which the lake has a complete snapshot."""

    def __init__(
        self, spark: SparkSession, lake: Lake, clusters: tuple[str, ...], to_ms: int
    ) -> None:
        if not clusters:
            raise UsageError(
                "no cluster to plan for", hint="clusters of a project need expectedClusterId"
            )
        self.spark, self.lake = spark, lake
        self.span = TimeWindow(from_ms=max(0, to_ms - OLDEST_DAYS * DAY_MS), to_ms=to_ms)
        self.snapshots = last_snapshots(lake, clusters, to_ms)
        self.names, self.notes = clusters_with_snapshot(self.snapshots, clusters)

    def live(self) -> DataFrame:
        """Return the limits of the last complete snapshots."""
        return limits_of_snapshots(
            self.spark,
            self.lake,
            {cluster_id: self.snapshots[cluster_id] for cluster_id in self.names},
        )


def _planned(
    view: _ObservedFleet,
    frames: PlanFrames,
    fleet: Mapping[str, ClusterPlanInput],
    max_rows: int,
    progress: Progress,
) -> FleetReport:
    progress("comparing", 0, 0)
    day = view.span.last_day
    different = plan.differences(frames).cache()
    _ = different.count()  # computes the persisted frame, so that Spark knows its size
    rules = {cluster_id: of_cluster.rules for cluster_id, of_cluster in fleet.items()}
    joined_pairs = plan.laid_out(different, frames)
    decided = plan.decided(joined_pairs, rules, now=view.span.to_ms / 1000, day=day).cache()
    rows = plan.rows(decided).cache()
    conflict_rows = plan.conflicts(different, frames).withColumn("day", fn.lit(day)).cache()
    for frame, table in ((rows, PLAN_ROW), (conflict_rows, PLAN_CONFLICT)):
        _ = unit_writer.commit_results(
            view.lake, frame, table, view.names, span=view.span, progress=progress
        )
    sums = _sums(view.names, frames, different, decided)
    report = _build_report(
        view, fleet, sums, rows=rows, conflict_rows=conflict_rows, max_rows=max_rows
    )
    for frame in (rows, conflict_rows, decided, different):
        _ = frame.unpersist()
    return report


def _sums(
    names: Iterable[str], frames: PlanFrames, different: DataFrame, decided: DataFrame
) -> dict[str, dict[str, int]]:
    """Return the counts of each cluster: totals by name, verdicts by cause and action."""
    totals_by_cluster = {name: dict.fromkeys(plan.TOTALS, 0) for name in names}
    totals = plan.totals(frames, different, decided)
    for row in bounded_rows.rows(totals, bounded_rows.MOST_CLUSTERS, "clusters"):
        totals_by_cluster[row["cluster_id"]] = {total: row[total] for total in plan.TOTALS}
    for row in bounded_rows.rows(plan.verdict_counts(decided), report_rows.MOST_SUMS, "sums"):
        word = f"{row['cause']} {row['action']}{' (ignored)' if row['ignored'] else ''}"
        totals_by_cluster[row["cluster_id"]][word] = row["pairs"]
    return totals_by_cluster


def _build_report(
    view: _ObservedFleet,
    fleet: Mapping[str, ClusterPlanInput],
    sums: Mapping[str, Mapping[str, int]],
    *,
    rows: DataFrame,
    conflict_rows: DataFrame,
    max_rows: int,
) -> FleetReport:
    order = ("cluster_id", "level", "entity_json", "quota_key")
    planned_rows, remaining_rows = report_rows.first(rows, PlannedRow, order, max_rows)
    conflicts, more_conflicts = report_rows.first(
        conflict_rows,
        ConflictRow,
        ("cluster_id", "entity_json", "quota_key", "path", "line"),
        max_rows,
    )
    remaining_by_table = {PLAN_ROW.name: remaining_rows, PLAN_CONFLICT.name: more_conflicts}
    return FleetReport(
        about="plan",
        clusters=tuple(
            ClusterTotals(
                cluster_id=cluster_id,
                look_ms=view.snapshots[cluster_id].observed_at_ms,
                counts=sums[cluster_id],
                violations=violations(sums[cluster_id], fleet[cluster_id].guards),
            )
            for cluster_id in view.names
        ),
        planned=planned_rows,
        conflicts=conflicts,
        left_out={name: amount for name, amount in remaining_by_table.items() if amount},
        notes=view.notes,
    )


def violations(sums: Mapping[str, int], guards: Guards) -> tuple[str, ...]:
    """Return the messages of violated guards on counts; the other guards need every client's limit (``kquota plan``)."""
    owned = sums["owned_pairs"]
    guard_violations = [
        *nothing_declared(sums["documents"], sums["desired_pairs"], owned, guards),
        *too_many_removals(sums["removals"], owned, guards),
    ]
    sentences = [
        f"{violation.message}; {violation.allow_with} allows it" for violation in guard_violations
    ]
    if guards.protect_defaults and sums["on_defaults"]:
        sentences.append(
            f"{sums['on_defaults']} changes on default entities affect every client without a more specific quota;"
            " guards.protectDefaults: false allows it"
        )
    if sums["conflicts"]:
        sentences.append(f"{sums['conflicts']} quota keys are declared by several documents")
    return tuple(sentences)
