"""The job ``plan``: what would change on all clusters, as the core would plan it; makes ``plan_row`` and ``plan_conflict``."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.errors import LakeError, UsageError
from reconciler.lake.lake import Lake
from reconciler.manifest.project import parse
from reconciler.ports import Progress
from reconciler.quota.guards import Guards, nothing_declared, too_many_removals
from reconciler.quota.policy import Rules
from reconciler.spark import (
    bounded,
    fleet_told,
    plan,
    plan_sums,
    reading,
    report_rows,
    results,
)
from reconciler.spark.job import Job, Run, asked
from reconciler.spark.last_looks import last_looks
from reconciler.spark.last_looks import limits as limits_seen
from reconciler.spark.sides import ORDERS, Intended, Sides, order_row, sides
from reconciler.spark.span import Span
from reconciler.usage.fleet import ClusterSum, ConflictRow, FleetReport, PlannedRow
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import (
    DESIRED_DOCUMENT,
    DESIRED_ENTRY,
    OWNED_ENTRY,
    PLAN_CONFLICT,
    PLAN_ROW,
    Table,
)

MOST_PATTERNS: Final = 100_000
"""Far more than there can be of one fleet; each costs the core a comparison of one pair."""

OLDEST_DAYS: Final = 400
"""How far back a look may lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to plan."""

    to_ms: int = asked("limits as of this moment", metavar="MS")
    project: str = asked("project file: clusters, policies, guards", metavar="FILE")
    cluster: tuple[str, ...] = asked(
        "only this cluster id; may be repeated", default=(), metavar="ID"
    )
    most: int = asked("rows of each kind to tell; all are kept", default=200, metavar="N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """What one cluster's plan may do.

    Attributes:
        rules: Policy, drift mode, scope and the rest.
        guards: Those that count are asked.
    """

    rules: Rules
    guards: Guards


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> FleetReport:
    """Plan from the sides that ``kquota spark plan`` or others keep in the lake, by rules of a project file.

    Raises:
        UsageError: The project file cannot be read, or names no cluster of the lake.
        ManifestErrors: It is wrong.
        LakeError: The lake cannot be read or written, or has no side for a cluster.
    """
    try:
        text = Path(settings.project).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{settings.project} cannot be read: {error}") from error
    ordered: dict[str, Ordered] = {}
    for one in parse(text, settings.project).clusters:
        cluster_id = one.cluster.expected_cluster_id
        if cluster_id is not None and (not settings.cluster or cluster_id in settings.cluster):
            ordered[cluster_id] = Ordered(
                rules=one.cluster.rules(complete=True, removals_known=True),
                guards=one.cluster.guards,
            )
    view = _View(spark, lake, tuple(ordered), settings.to_ms)
    days = {name: _kept_days(lake, name, view.span) for name in view.names}
    return _planned(view, _from_lake(view, ordered, days), ordered, settings.most, progress)


def of_fleet(fleet: Mapping[str, Intended], guards: Mapping[str, Guards]) -> Run[Settings]:
    """The same job from sides that were read already; of its settings only the moment and ``most`` count."""

    def work(
        spark: SparkSession, lake: Lake, settings: Settings, progress: Progress
    ) -> FleetReport:
        return planned(
            spark, lake, fleet, guards, to_ms=settings.to_ms, most=settings.most, progress=progress
        )

    return work


def planned(
    spark: SparkSession,
    lake: Lake,
    fleet: Mapping[str, Intended],
    guards: Mapping[str, Guards],
    *,
    to_ms: int,
    most: int,
    progress: Progress,
) -> FleetReport:
    """Plan from sides that were read here, which are kept in the lake, too.

    Args:
        spark: The session.
        lake: Where looks are, and results go.
        fleet: By cluster id.
        guards: By cluster id.
        to_ms: Limits as of this moment.
        most: Rows of each kind to tell.
        progress: Told of each phase.

    Raises:
        UsageError: There is no complete look at any of the clusters.
        LakeError: The lake cannot be read or written.
    """
    view = _View(spark, lake, tuple(fleet), to_ms)
    progress("reading sides", 0, 0)
    given = sides(spark, view.live(), {one: fleet[one] for one in view.names}, now=to_ms / 1000)
    for frame, table in (
        (given.desired, DESIRED_ENTRY), (given.documents, DESIRED_DOCUMENT), (given.owned, OWNED_ENTRY),
    ):  # fmt: skip
        own = frame.withColumn("day", fn.lit(view.span.last_day))
        _ = results.kept(lake, own, table, view.names, span=view.span, progress=progress)
    ordered = {
        one: Ordered(rules=fleet[one].rules, guards=guards.get(one, Guards())) for one in fleet
    }
    return _planned(view, given, ordered, most, progress)


class _View:
    """The clusters that can be planned: those of which the lake has a complete look."""

    def __init__(
        self, spark: SparkSession, lake: Lake, clusters: tuple[str, ...], to_ms: int
    ) -> None:
        if not clusters:
            raise UsageError(
                "no cluster to plan for", hint="clusters of a project need expectedClusterId"
            )
        self.spark, self.lake = spark, lake
        self.span = Span(from_ms=max(0, to_ms - OLDEST_DAYS * DAY_MS), to_ms=to_ms)
        self.seen = last_looks(spark, lake, clusters, to_ms)
        self.looks = {name: one.observed_at_ms for name, one in self.seen.items()}
        self.names, self.notes = fleet_told.looked_at(self.looks, clusters)

    def live(self) -> DataFrame:
        """The limits of the last complete looks."""
        return limits_seen(self.spark, self.lake, {one: self.seen[one] for one in self.names})


def _kept_days(lake: Lake, cluster_id: str, span: Span) -> dt.date:
    """The last day for which documents of a cluster are in the lake."""
    found = lake.manifests(DESIRED_DOCUMENT, [cluster_id], to_day=span.last_day)
    if not found:
        raise LakeError(
            f"nobody kept the documents of {cluster_id}, so everything of ours would look undeclared",
            hint="kquota spark plan reads manifests and records, and keeps them",
        )
    return max(one.unit.day for one in found)


def _from_lake(view: _View, ordered: Mapping[str, Ordered], days: Mapping[str, dt.date]) -> Sides:
    def side(table: Table) -> DataFrame:
        units = [
            unit
            for name, day in days.items()
            for unit in view.lake.manifests(table, [name], day, day)
        ]
        return reading.of(view.spark, view.lake, table, units)

    now = view.span.to_ms / 1000
    orders = [order_row(one, ordered[one].rules, view.span.last_day, now=now) for one in view.names]
    return Sides(
        live=view.live(),
        desired=side(DESIRED_ENTRY),
        documents=side(DESIRED_DOCUMENT),
        owned=side(OWNED_ENTRY),
        orders=view.spark.createDataFrame(orders, ORDERS),
    )


def _planned(
    view: _View, given: Sides, ordered: Mapping[str, Ordered], most: int, progress: Progress
) -> FleetReport:
    progress("comparing", 0, 0)
    day = fn.lit(view.span.last_day)
    given = Sides(
        live=given.live, desired=given.desired, documents=given.documents, owned=given.owned,
        orders=given.orders.withColumn("day", day),
    )  # fmt: skip
    different = plan.differences(given).cache()
    _ = different.count()  # from here on Spark knows how small it is
    laid = plan.laid_out(different, given).cache()
    _ = laid.count()
    found = plan.described(laid, given).cache()
    occurring = bounded.rows(plan.patterns(found), MOST_PATTERNS, "patterns of pairs")
    progress("asking the core", 0, 0)
    decided = plan.decided(found, plan.verdicts(found, (row["pattern"] for row in occurring)))
    decided = decided.cache()
    rows = plan.rows(decided).cache()
    doubted = plan.conflicts(different, given).withColumn("day", day).cache()
    for frame, table in ((rows, PLAN_ROW), (doubted, PLAN_CONFLICT)):
        _ = results.kept(view.lake, frame, table, view.names, span=view.span, progress=progress)
    sums = _sums(given, different, decided)
    report = _told(view, ordered, sums, rows=rows, doubted=doubted, most=most)
    for frame in (rows, doubted, decided, found, laid, different):
        _ = frame.unpersist()
    return report


def _sums(given: Sides, different: DataFrame, decided: DataFrame) -> dict[str, dict[str, int]]:
    """Numbers of each cluster, those of the verdicts by their words."""
    totals = fleet_told.sums(plan_sums.totals(given, different, decided))
    found = {
        name: {total: int(row[total]) for total in plan_sums.TOTALS} for name, row in totals.items()
    }
    most = 200 * fleet_told.MOST_CLUSTERS
    for row in bounded.rows(plan_sums.verdict_counts(decided), most, "sums"):
        word = f"{row['cause']} {row['action']}{' (ignored)' if row['ignored'] else ''}"
        found[row["cluster_id"]][word] = row["pairs"]
    return found


def _told(
    view: _View,
    ordered: Mapping[str, Ordered],
    sums: Mapping[str, Mapping[str, int]],
    *,
    rows: DataFrame,
    doubted: DataFrame,
    most: int,
) -> FleetReport:
    order = ("cluster_id", "level", "entity_json", "quota_key")
    planned_rows, more = report_rows.first(rows, PlannedRow, order, most)
    conflicts, more_conflicts = report_rows.first(
        doubted, ConflictRow, ("cluster_id", "entity_json", "quota_key", "path", "line"), most
    )
    left = {PLAN_ROW.name: more, PLAN_CONFLICT.name: more_conflicts}
    return FleetReport(
        about="plan",
        clusters=tuple(
            ClusterSum(
                cluster_id=one,
                look_ms=view.looks[one],
                counts=sums[one],
                violations=violations(sums[one], ordered[one].guards),
            )
            for one in view.names
        ),
        planned=planned_rows,
        conflicts=conflicts,
        left_out={name: amount for name, amount in left.items() if amount},
        notes=view.notes,
    )


def violations(sums: Mapping[str, int], guards: Guards) -> tuple[str, ...]:
    """What the guards that count say, in the core's own sentences; others need every client's limit (``kquota plan``)."""
    owned = sums["owned_pairs"]
    found = [
        *nothing_declared(sums["documents"], sums["desired_pairs"], owned, guards),
        *too_many_removals(sums["removals"], owned, guards),
    ]
    told = [f"{one.message}; {one.allow_with} allows it" for one in found]
    if guards.protect_defaults and sums["on_defaults"]:
        told.append(
            f"{sums['on_defaults']} changes on default entities reach clients that nobody named;"
            " guards.protectDefaults: false allows it"
        )
    if sums["conflicts"]:
        told.append(f"{sums['conflicts']} pairs are claimed by several documents")
    return tuple(told)


JOB: Final = Job(
    name="plan",
    summary="What would change on all clusters, as kquota plan says of one.",
    settings=Settings,
    run=run,
    example="--to-ms 1796209600000 --project kquota.yaml",
)
