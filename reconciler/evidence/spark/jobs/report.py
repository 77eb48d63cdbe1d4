"""The job ``report``: use, capacity, and the newest what-if and recommendations of the lake in one report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.jobs import capacity, usage
from reconciler.evidence.spark.tables import reader
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.spark.usage import facts, report_rows
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
from reconciler.usage.reports.usage import ResultOrigin, UsageCurve, UsageReport
from reconciler.usage.samples import day_of
from reconciler.usage.tables import IMPACT_ROW, RECOMMENDATION, USAGE_5M, Table

MOST_CURVES: Final = 24


def run(spark: SparkSession, lake: Lake, span: ReportWindow, progress: Progress) -> UsageReport:
    """Run both jobs and add the results of ``simulate`` and ``recommend`` in the lake.

    Raises:
        UsageError: The window is empty.
        LakeError: The lake cannot be read or written.
    """
    used = usage.run(spark, lake, span, progress)
    carried = capacity.run(spark, lake, span, progress)
    progress("what-if and recommendations", 0, 0)
    left_out = {**used.left_out, **carried.left_out}
    newest = {table: _newest(lake, table, span) for table in (IMPACT_ROW, RECOMMENDATION)}
    simulation = _simulation(
        reader.of(spark, lake, IMPACT_ROW, newest[IMPACT_ROW]), used.evidence, span.most
    )
    impacts = simulation.rows if simulation else ()
    advice, further = report_rows.recommendation_rows(
        reader.of(spark, lake, RECOMMENDATION, newest[RECOMMENDATION]), span.most
    )
    origins = _origins(newest, span)
    left_out |= {
        name: amount
        for name, amount in (
            (RECOMMENDATION.name, further),
            ("origins", max(0, len(origins) - span.most)),
        )
        if amount
    }
    drawn = {_series(curve): curve for curve in _curves(spark, lake, span, impacts)}
    drawn |= {_series(curve): curve for curve in used.curves if _series(curve) not in drawn}
    return replace(
        used,
        simulation=simulation,
        origins=origins[: span.most],
        recommendations=advice,
        capacity=carried.capacity,
        noisy=carried.noisy,
        curves=tuple(drawn.values())[:MOST_CURVES],
        left_out=left_out,
        notes=(*used.notes, *carried.notes),
    )


def _simulation(
    rows: DataFrame, evidence: tuple[EvidenceNote, ...], max_rows: int
) -> Simulation | None:
    """Return the newest simulations; the lake does not contain the refusals of a policy."""
    shown_rows, remaining_count = report_rows.impact_rows(rows, max_rows)
    if not shown_rows:
        return None
    verdict_counts = report_rows.tally(rows)
    return Simulation(
        evidence=evidence,
        rows=shown_rows,
        left_out=remaining_count,
        left_blind=verdict_counts.blind - sum(not impact_row.judged for impact_row in shown_rows),
        verdicts=verdict_counts.verdicts,
    )


def _origins(
    newest: Mapping[Table, Sequence[Manifest]], span: TimeWindow
) -> tuple[ResultOrigin, ...]:
    """Return the origins of results that have rows; those of another window first."""
    origins = [
        _origin(manifest, span)
        for manifests in newest.values()
        for manifest in manifests
        if manifest.rows
    ]
    return tuple(
        sorted(
            origins, key=lambda origin: (not origin.other_window, origin.cluster_id, origin.table)
        )
    )


def _origin(manifest: Manifest, span: TimeWindow) -> ResultOrigin:
    from_ms, to_ms = (int(manifest.inputs[name]) for name in ("from_ms", "to_ms"))
    return ResultOrigin(
        table=manifest.unit.table.name,
        cluster_id=manifest.unit.cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        snapshot_id=manifest.inputs["snapshot_id"],
        made_ms=manifest.made_ms,
        other_window=(day_of(from_ms), day_of(to_ms - 1)) != (span.first_day, span.last_day),
    )


def _newest(lake: Lake, table: Table, span: ReportWindow) -> tuple[Manifest, ...]:
    """Return the newest result of each cluster up to the last day of the window; it may be of a much earlier one."""
    manifests_by_cluster: dict[str, Manifest] = {}
    for manifest in lake.manifests(table, span.cluster or None, to_day=span.last_day):
        before = manifests_by_cluster.get(manifest.unit.cluster_id)
        if before is None or before.unit.day < manifest.unit.day:
            manifests_by_cluster[manifest.unit.cluster_id] = manifest
    return tuple(manifests_by_cluster[cluster_id] for cluster_id in sorted(manifests_by_cluster))


def _series(curve: UsageCurve) -> tuple[object, ...]:
    return curve.cluster_id, curve.quota_type, curve.bucket, curve.broker_id


def _curves(
    spark: SparkSession,
    lake: Lake,
    span: TimeWindow,
    rows: Sequence[ImpactRow],
) -> tuple[UsageCurve, ...]:
    """Return curves of the first impact rows, each with the limits before and after."""
    drawn_rows = [row for row in rows if row.broker_id and not row.any_name][: usage.CURVES]
    limits: report_rows.Limits = {
        (row.cluster_id, row.quota_type, row.bucket, row.broker_id): (
            row.before_units,
            row.after_units,
        )
        for row in drawn_rows
    }
    clusters = sorted({row.cluster_id for row in drawn_rows})
    five_minutes = reader.frame(spark, lake, USAGE_5M, clusters, **facts.days(span))
    in_window = (fn.col("bucket_ms") >= span.from_ms) & (fn.col("bucket_ms") < span.to_ms)
    return usage.curves(spark, five_minutes.where(in_window), limits, span)
