"""The job ``report``: one report of a window: use, capacity, and the newest what-if and recommendations that the lake holds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Manifest
from reconciler.ports import Progress
from reconciler.render.units import count
from reconciler.spark import facts, reading, report_rows, use
from reconciler.spark.job import Job, asked
from reconciler.spark.jobs import capacity, usage
from reconciler.spark.span import Span
from reconciler.usage.findings import Evidence, ImpactRow, Simulation
from reconciler.usage.reports import Curve, Origin, UsageReport
from reconciler.usage.tables import IMPACT_ROW, RECOMMENDATION, USAGE_5M, Table

MOST_CURVES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to look at; as for ``usage`` and ``capacity``."""

    from_ms: int = asked("begin of the window", metavar="MS")
    to_ms: int = asked("end of the window, not included", metavar="MS")
    capacity: tuple[str, ...] = asked(
        "bytes/s that a broker of a cluster can take and give; may be repeated", default=(), metavar=capacity.FORM
    )  # fmt: skip
    replication_factor: int | None = asked(
        "stands for replication where it was not recorded", default=None, metavar="N"
    )
    cluster: tuple[str, ...] = asked(
        "only this cluster id; may be repeated", default=(), metavar="ID"
    )
    most: int = asked("rows of each table to tell", default=100, metavar="N")
    curves: int = asked("curves", default=12, metavar="N")

    def __post_init__(self) -> None:
        _ = capacity.capacity_rows(self.capacity, self.replication_factor)


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> UsageReport:
    """Run both jobs and add what ``simulate`` and ``recommend`` left in the lake.

    Raises:
        UsageError: A capacity is not of its form.
        LakeError: The lake cannot be read or written.
    """
    span = Span(from_ms=settings.from_ms, to_ms=settings.to_ms)
    window = {"from_ms": settings.from_ms, "to_ms": settings.to_ms, "most": settings.most}
    used = usage.run(
        spark, lake, usage.Settings(**window, cluster=settings.cluster, curves=settings.curves), progress
    )  # fmt: skip
    carried = capacity.run(
        spark,
        lake,
        capacity.Settings(
            **window,
            cluster=settings.cluster,
            capacity=settings.capacity,
            replication_factor=settings.replication_factor,
        ),
        progress,
    )
    progress("what-if and recommendations", 0, 0)
    left_out = {**used.left_out, **carried.left_out}
    newest = {one: _newest(lake, one, settings, span) for one in (IMPACT_ROW, RECOMMENDATION)}
    simulation = _simulation(
        reading.of(spark, lake, IMPACT_ROW, newest[IMPACT_ROW]), used.evidence, settings.most
    )
    impacts = simulation.rows if simulation else ()
    advice, further = report_rows.recommendation_rows(
        reading.of(spark, lake, RECOMMENDATION, newest[RECOMMENDATION]), settings.most
    )
    origins = _origins(newest, span)
    left_out |= {
        name: amount
        for name, amount in (
            (RECOMMENDATION.name, further),
            ("origins", max(0, len(origins) - settings.most)),
        )
        if amount
    }
    drawn = _curves(spark, lake, settings, span, impacts)
    shown = {(one.cluster_id, one.quota_type, one.bucket, one.broker_id) for one in drawn}
    others = tuple(
        one
        for one in used.curves
        if (one.cluster_id, one.quota_type, one.bucket, one.broker_id) not in shown
    )
    return replace(
        used,
        simulation=simulation,
        origins=origins[: settings.most],
        recommendations=advice,
        capacity=carried.capacity,
        noisy=carried.noisy,
        curves=(*drawn, *others)[:MOST_CURVES],
        left_out=left_out,
        notes=(*used.notes, *carried.notes, *_other_windows(origins)),
    )  # fmt: skip


def _simulation(rows: DataFrame, evidence: tuple[Evidence, ...], most: int) -> Simulation | None:
    """What the newest simulations say; what a policy refuses of them is not kept in the lake."""
    shown, more = report_rows.impact_rows(rows, most)
    if not shown:
        return None
    counted = report_rows.tally(rows)
    return Simulation(
        evidence=evidence,
        rows=shown,
        left_out=more,
        left_blind=counted.blind - sum(not one.judged for one in shown),
        verdicts=counted.verdicts,
    )


def _origins(newest: Mapping[Table, Sequence[Manifest]], span: Span) -> tuple[Origin, ...]:
    """Where results come from that have rows; those of another window first."""
    found = [
        _origin(one, span)
        for made in newest.values()
        for one in made
        if one.rows
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (not one.other_window, one.cluster_id, one.table)))


def _origin(made: Manifest, span: Span) -> Origin:
    begin, end = (_moment(made.inputs.get(name, "")) for name in ("from_ms", "to_ms"))
    told = begin is not None and end is not None and begin < end
    its = Span(from_ms=begin or 0, to_ms=end or 1) if told else None
    return Origin(
        table=made.unit.table.name,
        cluster_id=made.unit.cluster_id,
        from_ms=begin,
        to_ms=end,
        snapshot_id=made.inputs.get("snapshot_id", ""),
        made_ms=made.made_ms,
        other_window=its is None
        or (its.first_day, its.last_day) != (span.first_day, span.last_day),
    )


def _moment(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


_RESULTS: Final = {IMPACT_ROW.name: "what-if", RECOMMENDATION.name: "recommendations"}


def _other_windows(origins: Iterable[Origin]) -> list[str]:
    """What is told of another window than the rest of the report."""
    amounts = Counter(one.table for one in origins if one.other_window)
    return [
        f"the {word} of {count(amounts[name], 'cluster')} in this report speaks of another window than the rest"
        for name, word in _RESULTS.items()
        if amounts[name]
    ]


def _newest(lake: Lake, table: Table, settings: Settings, span: Span) -> tuple[Manifest, ...]:
    """The newest result of each cluster that is not about a later window; it may be of a much earlier one."""
    found: dict[str, Manifest] = {}
    for one in lake.manifests(table, settings.cluster or None, to_day=span.last_day):
        before = found.get(one.unit.cluster_id)
        if before is None or before.unit.day < one.unit.day:
            found[one.unit.cluster_id] = one
    return tuple(found[one] for one in sorted(found))


def _curves(
    spark: SparkSession, lake: Lake, settings: Settings, span: Span, rows: Sequence[ImpactRow]
) -> tuple[Curve, ...]:
    """Curves of the buckets that a change moves most, each with both limits."""
    chosen = [one for one in rows if one.broker_id and not one.any_name][: settings.curves]
    if not chosen:
        return ()
    limits: report_rows.Limits = {
        (one.cluster_id, one.quota_type, one.bucket, one.broker_id): (one.before_units, one.after_units)
        for one in chosen
    }  # fmt: skip
    five = reading.frame(
        spark, lake, USAGE_5M, sorted({one.cluster_id for one in chosen}), **facts.days(span)
    )
    length = usage.span_of(span)
    inside = (fn.col("bucket_ms") >= span.from_ms) & (fn.col("bucket_ms") < span.to_ms)
    spans = use.curves(five.where(inside), usage.series_frame(spark, limits), length)
    return report_rows.curves(spans, limits, length, usage.MOST_POINTS * len(limits))


JOB: Final = Job(
    name="report",
    summary="One page: use, capacity, and the newest what-if and recommendations.",
    settings=Settings,
    run=run,
    example="--from-ms 1795000000000 --to-ms 1796209600000",
)
