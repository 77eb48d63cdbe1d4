"""The job ``recommend``: a limit for every bucket that was recorded, with its evidence; makes ``recommendation``. Applies nothing."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

from reconciler.errors import LakeConflict, UsageError
from reconciler.lake import replay
from reconciler.lake.lake import Lake
from reconciler.lake.looks import day_of, state_of
from reconciler.lake.manifest import Unit
from reconciler.lake.replay import Replay
from reconciler.manifest.project import parse
from reconciler.manifest.whatif_policy import policy_of
from reconciler.ports import Progress
from reconciler.quota.entity import Entity
from reconciler.spark import bounded, question, reading, recommend, windows, writing
from reconciler.spark.candidates import inputs_of, text_of
from reconciler.spark.job import Job, asked
from reconciler.spark.question import BUCKET, bucket_of_row
from reconciler.spark.recommend import BUMPED, CASES, PINNED, Sizing
from reconciler.spark.wide import tried
from reconciler.usage.findings import RecommendationRow
from reconciler.usage.reports import Direction, UsageReport
from reconciler.usage.samples import (
    DAY_MS,
    KEY_OF,
    QuotaType,
    ValueState,
    limit_state,
    limit_units,
)
from reconciler.usage.sizing import Advice, Rule
from reconciler.usage.tables import CAPACITY_ROW, RECOMMENDATION, entity_text
from reconciler.usage.tags import book, limit_of
from reconciler.usage.tiers import WhatIfPolicy, own_entity

DAYS: Final = 30
"""The window unless another is asked for: three weeks to size by, one to prove it."""

MOST_BROADCAST: Final = 200_000
"""More buckets times spans of time than this are joined by a shuffle: each has an array of limits to try."""

MOST_CHANGES: Final = 100_000
"""So many changes may come to the driver, to be written as documents."""

NO_LABELS: Final = (
    "labels of documents (tiers, sizing: pinned) were not read: tiers are those of the project file alone and nothing is"
    " pinned; kquota spark recommend reads both"
)
"""Told by spark-submit, where there are no documents."""

_DIRECTION: Final = {QuotaType.PRODUCE: Direction.INGRESS, QuotaType.FETCH: Direction.EGRESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job, understood.

    Attributes:
        clusters: Which clusters.
        from_ms: Begin of the window.
        to_ms: Its end, not included; the last week is held out.
        policy: The tiers, by which limits are sized.
        pinned: Cluster id and entity whose limits are only reported.
        most: So many rows are shown.
        documents: Whether every change is wanted, to be written as a document; else only what is shown.
        source: The lake, without secrets.
        now_ms: Now.
    """

    clusters: tuple[str, ...]
    from_ms: int
    to_ms: int
    policy: WhatIfPolicy = field(default_factory=WhatIfPolicy)
    pinned: frozenset[tuple[str, Entity]] = frozenset()
    most: int = 200
    documents: bool = False
    source: str = ""
    now_ms: int = 0

    @property
    def sizing(self) -> Sizing:
        """Window and tiers as the transform wants them."""
        tiers = {
            f"{rule.name}:{kind}": rule.sized(kind)
            for rule in (*self.policy.rules, self.policy.usual)
            for kind in QuotaType
        }
        return Sizing(from_ms=self.from_ms, to_ms=self.to_ms, tiers=tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """What came of it.

    Attributes:
        report: Evidence and the most telling rows.
        changes: Every change that may be proposed, by cluster and bucket: what documents are made of. Empty where none
            were asked for.
    """

    report: UsageReport
    changes: tuple[RecommendationRow, ...]


def advised(spark: SparkSession, lake: Lake, settings: Work, progress: Progress) -> Advised:
    """Size every bucket, commit all rows, and tell the most telling.

    Raises:
        LakeError: The lake cannot be read or written.
        LakeConflict: Another run committed the same day of the same cluster meanwhile.
    """
    work = settings
    progress("looking at the lake", 0, 0)
    seen = [replay.opened(lake, one, work.from_ms, work.to_ms) for one in work.clusters]
    notes = windows.evidence(spark, lake, seen, source=work.source, now_ms=work.now_ms)
    counting = [one for one in seen if not one.why]
    if not counting:
        return Advised(report=UsageReport(evidence=notes), changes=())
    samples = windows.samples(spark, lake, counting)
    cases = _cases(spark, lake, samples, counting, work).persist()
    try:
        done = _committed(lake, samples, cases, counting, work, progress=progress)
        if done.lost:
            raise LakeConflict(
                f"another run wrote {RECOMMENDATION.name} of {work.sizing.day} meanwhile",
                hint="run it again",
            )
        return _told(reading.of(spark, lake, RECOMMENDATION, done.made), notes, work)
    finally:
        cases.unpersist()


def _cases(
    spark: SparkSession, lake: Lake, samples: DataFrame, seen: Sequence[Replay], work: Work
) -> DataFrame:
    """What is to be sized: distinct buckets with limit, tier and marks."""
    told = [
        row
        for one in seen
        for row in question.told(one.cluster_id, one.cadence, states={question.BEFORE: one.state})
    ]
    facts = question.seen(samples).unionByName(spark.createDataFrame(told, question.FACTS))
    budgets = {one.cluster_id: _budgets(lake, one) for one in seen}
    made = facts.groupBy("cluster_id").applyInArrow(
        _sizable(work.policy, work.pinned, budgets), CASES
    )
    clusters = [one.cluster_id for one in seen]
    bumped = _bumped(spark, lake, clusters, work)
    key = ["cluster_id", "quota_type", *BUCKET]
    # A proposal that nobody merged raised nothing, and is made again.
    taken = fn.col("current_units") >= fn.col("raised_units")
    marks = fn.when(taken, fn.array_append("marks", fn.lit(BUMPED)))
    return (
        made.join(bumped, key, "left")
        .withColumn("marks", marks.otherwise(fn.col("marks")))
        .select(*CASES.names)
    )


def _bumped(spark: SparkSession, lake: Lake, clusters: Sequence[str], work: Work) -> DataFrame:
    """Buckets that earlier runs on this window proposed to raise for censored demand, and to what at least: ``raised_units``."""
    yesterday = work.sizing.day - dt.timedelta(days=1)
    rows = reading.frame(
        spark, lake, RECOMMENDATION, clusters, from_day=day_of(work.from_ms), to_day=yesterday
    )
    raised = fn.array_contains("rules", str(Rule.BUMP)) & (fn.col("advice") == str(Advice.CHANGE))
    key = ("cluster_id", "quota_type", *BUCKET)
    return rows.where(raised).groupBy(*key).agg(fn.min("target_units").alias("raised_units"))


def _budgets(lake: Lake, one: Replay) -> dict[str, int]:
    """What the weakest broker can give clients, by direction, as the last capacity report of the window says."""
    days = lake.manifests(
        CAPACITY_ROW, [one.cluster_id], day_of(one.from_ms), day_of(one.to_ms - 1)
    )
    found: dict[str, int] = {}
    for row in lake.read(days[-1:], ["direction", "budget_units"], table=CAPACITY_ROW).to_pylist():
        if row["budget_units"] is not None:
            known = found.get(row["direction"], row["budget_units"])
            found[row["direction"]] = min(known, row["budget_units"])
    return found


def _sizable(
    policy: WhatIfPolicy,
    pinned: frozenset[tuple[str, Entity]],
    budgets: Mapping[str, Mapping[str, int]],
) -> Callable[[pa.Table], pa.Table]:
    """The grouped call: one cluster's facts -> its cases, by the core's own rules."""

    def cases(facts: pa.Table) -> pa.Table:
        rows = facts.to_pylist()
        cluster_id: str = rows[0]["cluster_id"]
        pace = {row["quota_key"]: int(row["value"]) for row in rows if row["role"] == question.PACE}
        schema = to_arrow_schema(CASES)
        if not pace:
            return pa.Table.from_pylist([], schema=schema)
        before = [row for row in rows if row["role"] == question.BEFORE]
        state = state_of(pa.Table.from_pylist(before, schema=facts.schema))
        books = {kind: book(state, key) for kind, key in KEY_OF.items()}
        seen = {
            (QuotaType(row["quota_type"]), bucket_of_row(row))
            for row in rows
            if row["role"] == question.SEEN
        }
        made: list[dict[str, Any]] = []
        for kind, bucket in sorted(seen):
            own = own_entity(bucket)
            if own is None:
                continue  # nothing can limit clients without any name
            found = limit_of(books[kind], bucket)
            current = found[1] if found else None
            if current is not None and limit_state(kind, current) is ValueState.INVALID:
                current = None
            made.append(
                {
                    "cluster_id": cluster_id,
                    "quota_type": str(kind),
                    "n": len(made),
                    "group_kind": str(bucket.kind),
                    "user": bucket.user,
                    "client_id": bucket.client_id,
                    "ip": bucket.ip,
                    "source_entity": entity_text(found[0] if found else None),
                    "tier": policy.tier_of(cluster_id, bucket).name,
                    "current_units": limit_units(kind, current),
                    "budget_units": budgets.get(cluster_id, {}).get(_DIRECTION.get(kind, "")),
                    "marks": [PINNED] if (cluster_id, own) in pinned else [],
                    "max_gap_ms": pace["gap"],
                }
            )
        return pa.Table.from_pylist(made, schema=schema)

    return cases


def fits(cases: DataFrame, sizing: Sizing) -> bool:
    """Whether what is joined to samples fits every executor: limits to try are of each case and span."""
    return cases.count() * sizing.spans <= MOST_BROADCAST


def _committed(
    lake: Lake,
    samples: DataFrame,
    cases: DataFrame,
    seen: Sequence[Replay],
    work: Work,
    *,
    progress: Progress,
) -> writing.Committed:
    """All rows, into the lake; where a series is too large for 64 bits, once more in 38 digits."""
    progress("buckets to size", 0, 0)
    broadcast = fits(cases, work.sizing)
    wanted: list[writing.Next] = []
    for one in seen:
        unit = Unit(table=RECOMMENDATION, cluster_id=one.cluster_id, day=work.sizing.day)
        wanted.append(writing.Next(unit=unit, after=lake.manifest(unit), inputs=inputs_of(one)))

    def attempt(*, wide: bool) -> writing.Committed:
        kept: list[DataFrame] = []

        def keep(frame: DataFrame) -> DataFrame:
            kept.append(frame.persist())
            return kept[-1]

        try:
            rows = recommend.recommendations(
                samples, cases, replace(work.sizing, wide=wide), keep=keep, broadcast=broadcast
            )
            return writing.committed(lake, rows, wanted, progress)
        finally:
            for frame in kept:
                frame.unpersist()

    return tried(attempt, progress)


_FIRST: Final = (Advice.CHANGE, Advice.REFUSED, Advice.INSUFFICIENT, Advice.KEEP)


def _told(rows: DataFrame, notes: tuple[Any, ...], work: Work) -> Advised:
    order = fn.array_position(fn.array(*(fn.lit(str(one)) for one in _FIRST)), fn.col("advice"))
    moved = fn.abs(fn.col("target_units") - fn.coalesce("current_units", fn.lit(0)))
    first = rows.orderBy(order, fn.desc(moved), *RECOMMENDATION.key).limit(work.most)
    shown = [recommendation_row(one.asDict()) for one in bounded.rows(first, work.most, "rows")]
    change = rows.where(fn.col("advice") == str(Advice.CHANGE)).orderBy(*RECOMMENDATION.key)
    # No bound on what is only counted: a fleet may need more changes than anybody writes documents of.
    changes = bounded.rows(change, MOST_CHANGES, "changes of limits") if work.documents else []
    left = rows.count() - len(shown)
    report = UsageReport(
        evidence=notes,
        recommendations=tuple(shown),
        left_out={RECOMMENDATION.name: left} if left else {},
        notes=("nothing is applied: documents are for people to read and to merge",),
    )
    return Advised(
        report=report, changes=tuple(recommendation_row(one.asDict()) for one in changes)
    )


def recommendation_row(row: dict[str, Any]) -> RecommendationRow:
    """A row of ``recommendation`` as the value that renderers know."""
    kept = {name: row[name] for name in RECOMMENDATION.names if name not in (*BUCKET, "day")}
    return RecommendationRow(
        **kept
        | {
            "quota_type": QuotaType(row["quota_type"]),
            "bucket": bucket_of_row(row),
            "advice": Advice(row["advice"]),
            "rules": tuple(Rule(one) for one in row["rules"]),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to size, as words."""

    cluster: tuple[str, ...] = asked("this cluster id; may be repeated", metavar="ID")
    project: str | None = asked("project file with the tiers", default=None, metavar="FILE")
    to_day: dt.date = asked("last day of the window, included", metavar="DAY")
    days: int = asked("length of the window in days", default=DAYS, metavar="N")
    most: int = asked("so many rows are shown", default=200, metavar="N")


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> UsageReport:
    """The job of spark-submit. Of documents it knows nothing (:data:`NO_LABELS`).

    Raises:
        UsageError: The project file cannot be read.
    """
    policy = WhatIfPolicy()
    if settings.project is not None:
        policy = policy_of(parse(text_of(Path(settings.project)), settings.project).simulate)
    if not settings.cluster:
        raise UsageError("no cluster was named", hint="--cluster ID")
    to_ms = ((settings.to_day - dt.date(1970, 1, 1)).days + 1) * DAY_MS
    work = Work(
        clusters=tuple(sorted(set(settings.cluster))),
        from_ms=to_ms - settings.days * DAY_MS,
        to_ms=to_ms,
        policy=policy,
        most=settings.most,
        source=lake.store.shown,
        now_ms=lake.now_ms,
    )
    report = advised(spark, lake, work, progress).report
    return replace(report, notes=(*report.notes, NO_LABELS))


JOB: Final = Job(
    name="recommend",
    summary="A limit for every bucket, with its evidence; nothing is applied.",
    settings=Settings,
    run=run,
    example="--cluster ID --to-day 2026-11-30",
)
