"""The job ``recommend``: a limit for every recorded bucket, with its evidence; writes ``recommendation``. Applies nothing."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

from reconciler.base.protocols import Progress
from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.row_values import read_row
from reconciler.evidence.spark.tables import bounded_rows, reader, unit_writer
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import (
    impact_query,
    recommendation,
    report_rows,
)
from reconciler.evidence.spark.usage.impact_query import BUCKET
from reconciler.evidence.spark.usage.recommendation import BUMPED, CASES, PINNED, SizingParameters
from reconciler.evidence.spark.usage.series_blocks import SampleFiles
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.recorded_window import RecordedWindow
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.impact.tier_policy import WhatIfPolicy, own_entity
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.reports.usage import TrafficDirection, UsageReport
from reconciler.usage.samples import (
    KEY_OF,
    QuotaType,
    ValueState,
    day_of,
    limit_state,
    limit_units,
)
from reconciler.usage.tables import CAPACITY_ROW, RECOMMENDATION
from reconciler.usage.tags import book, bucket_of_row, limit_of

MOST_BROADCAST: Final = 200_000
"""Maximum number of buckets for a broadcast join; more are joined by a shuffle."""

MOST_CHANGES: Final = 100_000
"""Maximum number of changes collected on the driver to be written as documents."""

_DIRECTION: Final = {
    QuotaType.PRODUCE: TrafficDirection.INGRESS,
    QuotaType.FETCH: TrafficDirection.EGRESS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRequest:
    """Clusters, window and policy of a run."""

    clusters: tuple[str, ...]
    from_ms: int
    to_ms: int  # end of the window, exclusive; the last week is held out
    policy: WhatIfPolicy = field(default_factory=WhatIfPolicy)
    # Cluster id and entity of limits that are only reported.
    pinned: frozenset[tuple[str, Entity]] = frozenset()
    most: int = 200
    documents: bool = False  # whether to collect all changes, to write documents
    source: str = ""  # address of the lake, without secrets
    now_ms: int = 0

    @property
    def sizing(self) -> SizingParameters:
        """Window and tiers in the form of the transform."""
        tiers = {
            f"{rule.name}:{kind}": rule.sized(kind)
            for rule in (*self.policy.rules, self.policy.usual)
            for kind in QuotaType
        }
        return SizingParameters(from_ms=self.from_ms, to_ms=self.to_ms, tiers=tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationResult:
    """The result of a run."""

    report: UsageReport
    # Every change that may be proposed, by cluster and bucket, for documents; empty unless requested.
    changes: tuple[RecommendationRow, ...]


def advised(
    spark: SparkSession, lake: Lake, work: RecommendationRequest, progress: Progress
) -> RecommendationResult:
    """Size every bucket, commit all rows, and report the most significant.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    progress("reading the lake", 0, 0)
    recorded_windows = [
        recorded_window.opened(lake, cluster_id, work.from_ms, work.to_ms)
        for cluster_id in work.clusters
    ]
    notes = tuple(window.note(lake, work.source, work.now_ms) for window in recorded_windows)
    counting = [window for window in recorded_windows if not window.reason]
    if not counting:
        return RecommendationResult(report=UsageReport(evidence=notes), changes=())
    names = [window.cluster_id for window in counting]
    samples = SampleFiles(
        spark=spark,
        lake=lake,
        units=tuple(unit for window in counting for unit in window.samples),
        from_ms=work.from_ms,
        to_ms=work.to_ms,
    )
    cases = _cases(spark, lake, samples.series(), counting, work).persist()
    try:
        progress("buckets to size", 0, 0)
        manifests = unit_writer.commit_results(
            lake,
            recommendation.recommendations(
                samples.runs(), cases, names, work.sizing, broadcast=fits(cases)
            ),
            RECOMMENDATION,
            names,
            span=TimeWindow(from_ms=work.from_ms, to_ms=work.to_ms),
            progress=progress,
            snapshots={window.cluster_id: window.snapshot_id for window in counting},
        )
        return _build_result(reader.of(spark, lake, RECOMMENDATION, manifests), notes, work)
    finally:
        cases.unpersist()


def _cases(
    spark: SparkSession,
    lake: Lake,
    series: DataFrame,
    windows: Sequence[RecordedWindow],
    work: RecommendationRequest,
) -> DataFrame:
    """Return the cases to size: distinct buckets with limit, tier and marks."""
    clusters = {
        window.cluster_id: SizingFacts(
            window.state, window.cadence.max_gap_ms, _budgets(lake, window)
        )
        for window in windows
    }
    sizing_cases = (
        impact_query.seen_buckets(series, clusters)
        .groupBy("cluster_id")
        .applyInArrow(_sizable(work.policy, work.pinned, clusters), CASES)
    )
    bumped = _bumped(spark, lake, list(clusters), work)
    key = ["cluster_id", "quota_type", *BUCKET]
    # A proposal that was not merged changed no limit, so it is proposed again.
    is_adopted = fn.col("current_units") >= fn.col("raised_units")
    marks = fn.when(is_adopted, fn.array_append("marks", fn.lit(BUMPED)))
    return (
        sizing_cases.join(bumped, key, "left")
        .withColumn("marks", marks.otherwise(fn.col("marks")))
        .select(*CASES.names)
    )


def _bumped(
    spark: SparkSession, lake: Lake, clusters: Sequence[str], work: RecommendationRequest
) -> DataFrame:
    """Return the buckets that earlier runs on this window proposed to raise for censored demand, with the lowest target: ``raised_units``."""
    yesterday = work.sizing.day - dt.timedelta(days=1)
    rows = reader.frame(
        spark, lake, RECOMMENDATION, clusters, from_day=day_of(work.from_ms), to_day=yesterday
    )
    raised = fn.array_contains("rules", str(SizingRule.BUMP)) & (
        fn.col("advice") == str(Advice.CHANGE)
    )
    key = ("cluster_id", "quota_type", *BUCKET)
    return rows.where(raised).groupBy(*key).agg(fn.min("target_units").alias("raised_units"))


def _budgets(lake: Lake, window: RecordedWindow) -> dict[str, int]:
    """Return the client budget of the weakest broker by direction, from the last capacity report of the window."""
    days = lake.manifests(
        CAPACITY_ROW, [window.cluster_id], day_of(window.from_ms), day_of(window.to_ms - 1)
    )
    budgets: dict[str, int] = {}
    for row in lake.read(days[-1:], ["direction", "budget_units"], table=CAPACITY_ROW).to_pylist():
        if row["budget_units"] is not None:
            known_budget = budgets.get(row["direction"], row["budget_units"])
            budgets[row["direction"]] = min(known_budget, row["budget_units"])
    return budgets


class SizingFacts(NamedTuple):
    """Facts of a cluster besides its samples: current limits, longest gap, and budgets by direction."""

    state: QuotaState
    max_gap_ms: int
    budgets: Mapping[str, int]


def _sizable(
    policy: WhatIfPolicy,
    pinned: frozenset[tuple[str, Entity]],
    clusters: Mapping[str, SizingFacts],
) -> Callable[[pa.Table], pa.Table]:
    """Return the grouped function that converts one cluster's buckets to cases by the rules of ``usage``."""

    def cases(bucket_rows: pa.Table) -> pa.Table:
        rows = bucket_rows.to_pylist()
        cluster_id: str = rows[0]["cluster_id"]
        schema = to_arrow_schema(CASES)
        if cluster_id not in clusters:
            return pa.Table.from_pylist([], schema=schema)
        state, max_gap_ms, budgets = clusters[cluster_id]
        books = {kind: book(state, key) for kind, key in KEY_OF.items()}
        observed_buckets = {
            (QuotaType(row["quota_type"]), bucket_of_row(row))
            for row in rows
            if row["quota_type"] is not None
        }
        case_rows: list[dict[str, Any]] = []
        for kind, bucket in sorted(observed_buckets):
            bucket_entity = own_entity(bucket)
            if bucket_entity is None:
                continue  # no limit can apply to clients without user, client id and address
            effective_limit = limit_of(books[kind], bucket)
            current = effective_limit[1] if effective_limit else None
            if current is not None and limit_state(kind, current) is ValueState.INVALID:
                current = None
            case_rows.append(
                {
                    "cluster_id": cluster_id,
                    "quota_type": str(kind),
                    "n": len(case_rows),
                    **bucket.columns,
                    "source_entity": canonical_text(
                        effective_limit[0] if effective_limit else None
                    ),
                    "tier": policy.tier_of(cluster_id, bucket).name,
                    "current_units": limit_units(kind, current),
                    "budget_units": budgets.get(_DIRECTION.get(kind, "")),
                    "marks": [PINNED] if (cluster_id, bucket_entity) in pinned else [],
                    "max_gap_ms": max_gap_ms,
                }
            )
        return pa.Table.from_pylist(case_rows, schema=schema)

    return cases


def fits(cases: DataFrame) -> bool:
    """Whether the cases are few enough for a broadcast to every executor."""
    return cases.count() <= MOST_BROADCAST


def _build_result(
    rows: DataFrame, notes: tuple[EvidenceNote, ...], work: RecommendationRequest
) -> RecommendationResult:
    shown_rows, remaining_count = report_rows.recommendation_rows(rows, work.most)
    change = rows.where(fn.col("advice") == str(Advice.CHANGE)).orderBy(*RECOMMENDATION.key)
    # Counting has no bound: a fleet may need more changes than the maximum for documents.
    changes = bounded_rows.rows(change, MOST_CHANGES, "changes of limits") if work.documents else []
    report = UsageReport(
        evidence=notes,
        recommendations=shown_rows,
        left_out={RECOMMENDATION.name: remaining_count} if remaining_count else {},
        notes=("nothing is applied; review and merge the documents",),
    )
    return RecommendationResult(
        report=report,
        changes=tuple(read_row(DocumentReader(row.asDict()), RecommendationRow) for row in changes),
    )
