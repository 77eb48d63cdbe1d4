"""One report: use, capacity, and the newest what-if and recommendations of the lake."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from reconciler.base.protocols import Progress
from reconciler.evidence.analysis import capacity, results, usage
from reconciler.evidence.analysis.engine import Engine
from reconciler.evidence.analysis.recommendation import first_recommendations
from reconciler.evidence.analysis.results import ReportWindow, TimeWindow
from reconciler.evidence.store import samples
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import StoredDay
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
from reconciler.usage.impact.tier_policy import WhatIfPolicy
from reconciler.usage.impact.what_if import summarize
from reconciler.usage.reports.usage import ResultOrigin, UsageCurve, UsageReport
from reconciler.usage.samples import day_of
from reconciler.usage.tables import IMPACT_ROW, RECOMMENDATION

MOST_CURVES: Final = 24


def reported(engine: Engine, lake: Lake, window: ReportWindow, progress: Progress) -> UsageReport:
    """Compute use and capacity, and add the results of ``simulate`` and ``recommend`` in the lake.

    Raises:
        LakeError: The lake cannot be read or written.
        QuotaValueError: Samples are duplicated or out of range.
    """
    used = usage.profiled(engine, lake, window, progress)
    carried = capacity.carried(engine, lake, window, progress)
    impacts = results.newest(lake, IMPACT_ROW, window.clusters, window)
    advice = results.newest(lake, RECOMMENDATION, window.clusters, window)
    simulation = _simulation(lake.read(impacts, table=IMPACT_ROW), used.evidence, window.most)
    recommendations, further = first_recommendations(
        lake.read(advice, table=RECOMMENDATION), window.most
    )
    origins = _origins([*impacts, *advice], window)
    left_out = {
        **used.left_out,
        **carried.left_out,
        RECOMMENDATION.name: further,
        "origins": max(0, len(origins) - window.most),
    }
    drawn = {_series(curve): curve for curve in _curves(lake, window, simulation)}
    drawn |= {_series(curve): curve for curve in used.curves if _series(curve) not in drawn}
    return replace(
        used,
        simulation=simulation,
        origins=origins[: window.most],
        recommendations=recommendations,
        capacity=carried.capacity,
        noisy=carried.noisy,
        curves=tuple(drawn.values())[:MOST_CURVES],
        left_out={name: amount for name, amount in left_out.items() if amount},
        notes=(*used.notes, *carried.notes),
    )


def _simulation(rows: pa.Table, evidence: tuple[EvidenceNote, ...], most: int) -> Simulation | None:
    """Return the newest simulations; the lake does not contain the refusals of a policy."""
    impacts = results.values_of(rows, ImpactRow)
    return summarize(impacts, evidence, WhatIfPolicy(), max_rows=most) if impacts else None


def _origins(days: Sequence[StoredDay], window: TimeWindow) -> tuple[ResultOrigin, ...]:
    """Return the origins of results that have rows; those of another window first."""
    origins = (_origin(day, window) for day in days if day.rows)
    return tuple(
        sorted(
            origins, key=lambda origin: (not origin.other_window, origin.cluster_id, origin.table)
        )
    )


def _origin(day: StoredDay, window: TimeWindow) -> ResultOrigin:
    from_ms, to_ms = (int(day.inputs[name]) for name in ("from_ms", "to_ms"))
    return ResultOrigin(
        table=day.unit.table.name,
        cluster_id=day.unit.cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        snapshot_id=day.inputs["snapshot_id"],
        made_ms=day.facts.made_ms,
        other_window=(day_of(from_ms), day_of(to_ms - 1)) != (window.first_day, window.last_day),
    )


def _series(curve: UsageCurve) -> tuple[object, ...]:
    return curve.cluster_id, curve.quota_type, curve.bucket, curve.broker_id


def _curves(
    lake: Lake, window: TimeWindow, simulation: Simulation | None
) -> tuple[UsageCurve, ...]:
    """Return curves of the first impact rows, each with the limits before and after."""
    rows = simulation.rows if simulation else ()
    drawn = [row for row in rows if row.broker_id and not row.any_name][: usage.CURVES]
    limits = {
        (row.cluster_id, samples.key_of(row.quota_type, row.bucket, row.broker_id)): (
            row.before_units,
            row.after_units,
        )
        for row in drawn
    }
    return usage.curves(lake, limits, window)
