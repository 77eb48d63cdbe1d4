"""The job ``resolve``: which limit each client (or bucket) gets, and which limits hold for nobody; makes ``effective_quota`` and ``dead_quota``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.lake.lake import Lake
from reconciler.ports import Progress
from reconciler.quota.precedence import Principal
from reconciler.spark import bounded, clients, fleet_told, reading, report_rows, resolve, results
from reconciler.spark.dead import Seen, dated, dead
from reconciler.spark.job import Job, asked
from reconciler.spark.jobs import rollup
from reconciler.spark.last_looks import MOST_CLUSTERS, last_looks
from reconciler.spark.last_looks import limits as limits_seen
from reconciler.spark.resolve import CLIENT
from reconciler.spark.schemas import conforming
from reconciler.spark.span import Span
from reconciler.usage.fleet import ClusterSum, DeadRow, EffectiveRow, FleetReport
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import DEAD_QUOTA, EFFECTIVE_QUOTA, USAGE_5M, USAGE_HIST_D

LOOK_BACK_DAYS: Final = 35
"""Clients of a monthly job have to have been there once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whom to ask about."""

    to_ms: int = asked("limits as of this moment, and end of the look-back", metavar="MS")
    days: int = asked("length of the look-back", default=LOOK_BACK_DAYS, metavar="N")
    cluster: tuple[str, ...] = asked(
        "only this cluster id; may be repeated", default=(), metavar="ID"
    )
    principals: str | None = asked(
        "a CSV of clients (cluster_id, user, client_id, ip); without it, the tags of recorded use",
        default=None,
        metavar="URI",
    )
    most: int = asked("rows of each kind to tell; all are kept", default=200, metavar="N")


NO_LIST: Final = (
    "no list of clients was given: what is told is of the tags that use was recorded under, and a limit that closer"
    " ones may hide is told as no_data"
)

Listed = Callable[[SparkSession, tuple[str, ...]], DataFrame]
"""Makes the clients of some clusters."""


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> FleetReport:
    """The job as words ask for it."""
    path = settings.principals
    listed: Listed | None = None
    if path is not None:

        def listed(session: SparkSession, names: tuple[str, ...]) -> DataFrame:
            return clients.of_file(session, path, names)

    return resolved(spark, lake, settings, listed, progress)


def of_principals(known: tuple[Principal, ...]) -> Listed:
    """Clients that were read already, in every cluster."""
    return lambda spark, names: clients.of_list(spark, known, names)


def resolved(
    spark: SparkSession, lake: Lake, settings: Settings, listed: Listed | None, progress: Progress
) -> FleetReport:
    """Resolve, keep all rows, tell the first.

    Raises:
        UsageError: There is no complete look at any cluster, or the list cannot be used.
        LakeError: The lake cannot be read or written.
    """
    span = Span(from_ms=max(0, settings.to_ms - settings.days * DAY_MS), to_ms=settings.to_ms)
    last = last_looks(spark, lake, settings.cluster or None, span.to_ms)
    looks = {name: one.observed_at_ms for name, one in last.items()}
    names, notes = fleet_told.looked_at(looks, settings.cluster)
    limits = limits_seen(spark, lake, {name: last[name] for name in names}).cache()
    five = _five(spark, lake, names, span, progress)
    progress("resolving", 0, 0)
    day = fn.lit(span.last_day)
    buckets = clients.tags_seen(five)
    if listed is not None:
        who = listed(spark, names).cache()
        made = resolve.principals(who.withColumn("day", day), limits)
        seen = who.withColumn("last_seen_ms", fn.lit(None).cast("bigint"))
    else:
        who, seen = buckets.cache(), None
        made = of_tags(who, limits, day)
        notes += (NO_LIST,)
        buckets = who
    found = dead(
        limits,
        Seen(clients=seen, buckets=buckets, measured=clients.types_heard(five), since_ms=span.from_ms),
    )  # fmt: skip
    effective, begun = made.cache(), found.withColumn("day", day).cache()
    unheld = _dated(spark, lake, begun, limits, span).cache()
    for frame, table in ((effective, EFFECTIVE_QUOTA), (unheld, DEAD_QUOTA)):
        _ = results.kept(lake, frame, table, names, span=span, progress=progress)
    report = _told(effective, unheld, {one: looks[one] for one in names}, notes, most=settings.most)
    for frame in (effective, unheld, begun, who, limits):
        _ = frame.unpersist()
    return report


def of_tags(buckets: DataFrame, limits: DataFrame, day: object) -> DataFrame:
    """``effective_quota`` of tags: what a bucket is held to."""
    held = resolve.tags(buckets, limits).withColumn(
        "quota_key", resolve.key_of(fn.col("quota_type"))
    )
    return conforming(held.withColumn("day", day), EFFECTIVE_QUOTA)  # type: ignore[arg-type]  # a column


def _five(
    spark: SparkSession, lake: Lake, names: tuple[str, ...], span: Span, progress: Progress
) -> DataFrame:
    """Five minutes of the look-back; days that are not rolled up yet are, so that each is read once."""
    _ = rollup.run(
        spark,
        lake,
        rollup.Settings(cluster=names, from_day=span.first_day, to_day=span.last_day),
        progress,
    )
    return reading.frame(
        spark, lake, USAGE_5M, names, from_day=span.first_day, to_day=span.last_day
    ).where(fn.col("bucket_ms") < span.to_ms)


def _dated(
    spark: SparkSession, lake: Lake, unheld: DataFrame, limits: DataFrame, span: Span
) -> DataFrame:
    """With the last day of use of limits that nobody was held by in the look-back.

    Histograms of days are kept longest (25 months) and say whether anything was used at all. They are read of clusters
    that have such limits, and of each day only its tags, which are grouped before they are exchanged.
    """
    asked_of = unheld.where(fn.col("last_effective_ms").isNull()).select("cluster_id").distinct()
    names = [row["cluster_id"] for row in bounded.rows(asked_of, MOST_CLUSTERS, "clusters")]
    if not names:
        return unheld
    days = reading.frame(spark, lake, USAGE_HIST_D, names, to_day=span.last_day)
    return dated(unheld, clients.tags_used(days), limits)


def _told(
    effective: DataFrame,
    unheld: DataFrame,
    looks: dict[str, int],
    notes: tuple[str, ...],
    *,
    most: int,
) -> FleetReport:
    reasons = fleet_told.counted(unheld, "reason")
    limited = effective.groupBy("cluster_id").agg(
        fn.count(fn.lit(1)).alias("resolved"), fn.count("level").alias("limited")
    )
    sums = fleet_told.sums(limited)
    rows, more = report_rows.first(effective, EffectiveRow, (*CLIENT, "quota_key"), most)
    gone, more_gone = report_rows.first(
        unheld, DeadRow, ("cluster_id", "reason", "entity_json", "quota_key"), most
    )
    left = {EFFECTIVE_QUOTA.name: more, DEAD_QUOTA.name: more_gone}
    return FleetReport(
        about="resolve",
        clusters=tuple(
            ClusterSum(
                cluster_id=one,
                look_ms=looks[one],
                counts={
                    **{name: int(sums.get(one, {}).get(name, 0)) for name in ("resolved", "limited")},
                    **dict(sorted(reasons.get(one, {}).items())),
                },
            )
            for one in looks
        ),
        effective=rows,
        dead=gone,
        left_out={name: amount for name, amount in left.items() if amount},
        notes=notes,
    )  # fmt: skip


JOB: Final = Job(
    name="resolve",
    summary="Which limit each client gets, and which limits hold for nobody.",
    settings=Settings,
    run=run,
    example="--to-ms 1796209600000 --principals s3://metrics/clients.csv",
)
