"""A limit for every recorded bucket, with its evidence: rows of ``recommendation``. Applies nothing."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.protocols import Progress
from reconciler.codecs.row_values import row_document
from reconciler.errors import QuotaValueError
from reconciler.evidence.analysis import results
from reconciler.evidence.analysis.engine import Engine, Task, by_cluster, portions
from reconciler.evidence.analysis.results import TimeWindow
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.recorded_window import LimitBook, RecordedWindow
from reconciler.evidence.store.stored_days import Unit
from reconciler.quota.entity import Entity, canonical_text
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.impact.tier_policy import WhatIfPolicy, own_entity
from reconciler.usage.recommendation.limit_sizes import Advice, SizingCase, SizingRule, Tier
from reconciler.usage.recommendation.sizing import recommend
from reconciler.usage.reports.usage import TrafficDirection, UsageReport
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import CAPACITY_ROW, RECOMMENDATION, USAGE_SAMPLE
from reconciler.usage.tags import Bucket

SCHEMA: Final = arrow_tables.schema(RECOMMENDATION)

_DIRECTION: Final = {
    QuotaType.PRODUCE: TrafficDirection.INGRESS,
    QuotaType.FETCH: TrafficDirection.EGRESS,
}

_ADVICE: Final = {Advice.CHANGE: 0, Advice.REFUSED: 1, Advice.INSUFFICIENT: 2, Advice.KEEP: 3}
"""Display order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRequest:
    """Clusters, window and policy of a run."""

    clusters: tuple[str, ...]
    window: TimeWindow  # its last week is held out
    policy: WhatIfPolicy = field(default_factory=WhatIfPolicy)
    # Cluster id and entity of limits that are only reported.
    pinned: frozenset[tuple[str, Entity]] = frozenset()
    most: int = 200
    documents: bool = False  # whether to return all changes, to write documents
    source: str = ""  # address of the lake, without secrets
    now_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationResult:
    """The result of a run."""

    report: UsageReport
    # Every change that may be proposed, by cluster and bucket, for documents; empty unless requested.
    changes: tuple[RecommendationRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCase:
    """A bucket to size, with the series of its brokers."""

    bucket: Bucket
    case: SizingCase
    tier_name: str
    tier: Tier
    source_entity: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingTask:
    """Some buckets of one cluster."""

    units: tuple[Unit, ...]  # of `usage_sample`, by day
    window: tuple[int, int]
    day: dt.date  # the last day of the window
    cases: tuple[BucketCase, ...]
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        """Size each bucket from its series (``usage.recommendation.sizing.recommend``)."""
        files = [TableFile(lake.reader, unit.path, USAGE_SAMPLE) for unit in self.units]
        wanted_keys = sorted(key for case in self.cases for key in case.keys)
        runs = samples.read_runs(files, self.window, wanted_keys)
        return pa.Table.from_pylist([self._row(case, runs) for case in self.cases], schema=SCHEMA)

    def _row(self, of: BucketCase, runs: samples.SeriesRuns) -> dict[str, Any]:
        try:
            sized = recommend(of.case, of.tier, map(runs.series, of.keys))
        except QuotaValueError as error:
            names = "/".join(filter(None, of.bucket.columns.values()))
            raise QuotaValueError(
                f"{of.case.kind} of {names}: {error.message}", hint=error.hint
            ) from error
        return {
            **row_document(sized),
            "cluster_id": self.units[0].cluster_id,
            "quota_type": str(of.case.kind),
            **of.bucket.columns,
            "source_entity": of.source_entity,
            "tier": of.tier_name,
            "day": self.day,
        }


def advised(
    engine: Engine, lake: Lake, work: RecommendationRequest, progress: Progress
) -> RecommendationResult:
    """Size every bucket, store all rows, and report the most significant.

    Raises:
        LakeError: The lake cannot be read or written.
        QuotaValueError: Samples are duplicated or out of range.
    """
    notes: list[EvidenceNote] = []
    tasks: list[Task] = []
    snapshots: dict[str, str] = {}
    for cluster_id in work.clusters:
        window = recorded_window.opened(lake, cluster_id, *work.window.span)
        notes.append(window.note(lake, work.source, work.now_ms))
        if not window.reason:
            snapshots[cluster_id] = window.snapshot_id
            tasks += _tasks(lake, window, work)
    rows = by_cluster(engine.run(lake.store.at, tasks, SCHEMA, progress), SCHEMA)
    results.store(lake, RECOMMENDATION, rows, snapshots, window=work.window, snapshots=snapshots)
    every = pa.concat_tables([SCHEMA.empty_table(), *rows.values()])
    shown_rows, left_rows = first_recommendations(every, work.most)
    changes = every.filter(pc.equal(every["advice"], str(Advice.CHANGE)))
    order = [(name, "ascending") for name in RECOMMENDATION.key]
    return RecommendationResult(
        report=UsageReport(
            evidence=tuple(notes),
            recommendations=shown_rows,
            left_out={RECOMMENDATION.name: left_rows} if left_rows else {},
            notes=("nothing is applied; review and merge the documents",) if snapshots else (),
        ),
        changes=results.values_of(changes.sort_by(order), RecommendationRow)
        if work.documents
        else (),
    )


def first_recommendations(rows: pa.Table, most: int) -> tuple[tuple[RecommendationRow, ...], int]:
    """Return changes, then refused, insufficient and kept ones, each with the largest difference first; and the number left out."""
    current = pc.fill_null(rows["current_units"], 0)
    order = [
        (results.ranks(rows["advice"], _ADVICE), "ascending"),
        (pc.abs(pc.subtract(rows["target_units"], current)), "descending"),
        *((rows[name], "ascending") for name in RECOMMENDATION.key),
    ]
    return results.first_values(rows, RecommendationRow, order, most)


def _tasks(lake: Lake, window: RecordedWindow, work: RecommendationRequest) -> Iterator[SizingTask]:
    recorded = samples.recorded_series(window.samples, work.window.span)
    cases = _cases(lake, window, work, recorded)
    for part, rows in portions(cases, lambda case: sum(recorded[key] for key in case.keys)):
        yield SizingTask(
            units=tuple(day.unit for day in window.samples),
            window=work.window.span,
            day=work.window.last_day,
            cases=part,
            rows=rows,
        )


def _cases(
    lake: Lake, window: RecordedWindow, work: RecommendationRequest, recorded: Mapping[Key, int]
) -> list[BucketCase]:
    """Return the recorded buckets that a limit can apply to, with limit, tier and marks."""
    budgets, raised = _budgets(lake, window), _raised(lake, window, work.window)
    limits = LimitBook(window.state)
    keys: dict[tuple[QuotaType, Bucket], list[Key]] = {}
    for key in recorded:
        kind, bucket, _ = samples.parts_of(key)
        keys.setdefault((kind, bucket), []).append(key)
    cases: list[BucketCase] = []
    for (kind, bucket), of_bucket in sorted(keys.items()):
        entity = own_entity(bucket)
        if entity is None:
            continue  # no limit can apply to clients without user, client id and address
        current = limits.units(kind, bucket)
        rule = work.policy.tier_of(window.cluster_id, bucket)
        proposed = raised.get(of_bucket[0][:5])
        cases.append(
            BucketCase(
                bucket=bucket,
                case=SizingCase(
                    kind=kind,
                    from_ms=work.window.from_ms,
                    to_ms=work.window.to_ms,
                    max_gap_ms=window.cadence.max_gap_ms,
                    current=current,
                    budget=budgets.get(str(_DIRECTION.get(kind, ""))),
                    pinned=(window.cluster_id, entity) in work.pinned,
                    # A proposal that was not merged changed no limit, so it is proposed again.
                    bumped=proposed is not None and current is not None and current >= proposed,
                ),
                tier_name=rule.name,
                tier=rule.sized(kind),
                source_entity=canonical_text(limits.source(kind, bucket)),
                keys=tuple(of_bucket),
            )
        )
    return cases


def _raised(lake: Lake, window: RecordedWindow, span: TimeWindow) -> dict[Key, int]:
    """Return the lowest target of each bucket that earlier runs on this window proposed to raise for censored demand."""
    yesterday = span.last_day - dt.timedelta(days=1)
    days = lake.days(RECOMMENDATION, [window.cluster_id], span.first_day, yesterday)
    raised: dict[Key, int] = {}
    for row in lake.read(days, table=RECOMMENDATION).to_pylist():
        if row["advice"] == str(Advice.CHANGE) and str(SizingRule.BUMP) in row["rules"]:
            names = ("quota_type", "group_kind", "user", "client_id", "ip")
            bucket = tuple(row[name] for name in names)
            raised[bucket] = min(row["target_units"], raised.get(bucket, row["target_units"]))
    return raised


def _budgets(lake: Lake, window: RecordedWindow) -> dict[str, int]:
    """Return the client budget of the weakest broker by direction, from the last capacity report of the window."""
    span = TimeWindow(from_ms=window.from_ms, to_ms=window.to_ms)
    days = lake.days(CAPACITY_ROW, [window.cluster_id], span.first_day, span.last_day)
    rows = lake.read(days[-1:], ["direction", "budget_units"], table=CAPACITY_ROW).drop_null()
    weakest = rows.group_by("direction").aggregate([("budget_units", "min")])
    columns = (weakest[name].to_pylist() for name in ("direction", "budget_units_min"))
    return dict(zip(*columns, strict=True))
