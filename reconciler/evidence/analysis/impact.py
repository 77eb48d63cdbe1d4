"""The effect of changed limits, of plans or snapshots, on recorded use: rows of ``impact_row``, and their summary."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from reconciler.base.protocols import Progress
from reconciler.codecs.plan import read_plan
from reconciler.codecs.row_values import row_document
from reconciler.codecs.state import read_state
from reconciler.errors import UsageError
from reconciler.evidence.analysis import results
from reconciler.evidence.analysis.engine import Engine, Task, by_cluster, portions
from reconciler.evidence.analysis.results import TimeWindow
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.compiled_code import keep_compiled_code
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.recorded_window import RecordedWindow
from reconciler.evidence.store.stored_days import Unit
from reconciler.quota.planner.plan import Plan, apply_to
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery, ImpactRequest, impact_query
from reconciler.usage.impact.replay import replayed_row
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
from reconciler.usage.impact.tier_policy import StatedClients, WhatIfPolicy
from reconciler.usage.impact.what_if import MOST_ROWS, summarize
from reconciler.usage.tables import IMPACT_ROW, USAGE_SAMPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateLimits:
    """The candidate limits of one cluster: a whole state, or a plan to apply to the last snapshot in the lake."""

    cluster_id: str
    state: QuotaState | None = None  # all limits; None if there is a plan
    plan: Plan | None = None  # the changes; None if there is a state

    def after(self, before: QuotaState) -> QuotaState:
        """Return the candidate limits, given the current ones."""
        if self.state is not None:
            return self.state
        return before if self.plan is None else apply_to(before, self.plan.changes)


def candidates_of(plans: Sequence[Path], snapshots: Sequence[Path]) -> tuple[CandidateLimits, ...]:
    """Read saved plans and snapshots of candidate limits, sorted by cluster.

    Raises:
        UsageError: A file cannot be read or has no cluster id, or two files have the same cluster.
        ConfigError: A file is damaged.
        StalePlan: A plan is of another version.
    """
    candidates_by_cluster: dict[str, CandidateLimits] = {}
    for path in plans:
        plan = read_plan(text_of(path), location=str(path)).plan
        _add(candidates_by_cluster, CandidateLimits(cluster_id=plan.cluster_id, plan=plan), path)
    for path in snapshots:
        cluster_id, _, state = read_state(text_of(path), location=str(path))
        _add(candidates_by_cluster, CandidateLimits(cluster_id=cluster_id, state=state), path)
    return tuple(candidates_by_cluster[cluster_id] for cluster_id in sorted(candidates_by_cluster))


def _add(
    candidates_by_cluster: dict[str, CandidateLimits], candidate: CandidateLimits, path: Path
) -> None:
    if not candidate.cluster_id:
        raise UsageError(f"{path} does not say of which cluster it is")
    if candidate.cluster_id in candidates_by_cluster:
        raise UsageError(f"{path} and another file are both about cluster {candidate.cluster_id}")
    candidates_by_cluster[candidate.cluster_id] = candidate


def text_of(path: Path) -> str:
    """Read a file as text.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


SCHEMA = arrow_tables.schema(IMPACT_ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """Candidates, window and policy of a run."""

    candidates: tuple[CandidateLimits, ...]
    window: TimeWindow
    policy: WhatIfPolicy = field(default_factory=WhatIfPolicy)
    most: int = MOST_ROWS  # maximum number of rows; tenants are shown whole, and at least one
    source: str = ""  # address of the lake, without secrets
    now_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """Some affected buckets on brokers of one cluster."""

    units: tuple[Unit, ...]  # of `usage_sample`, by day
    window: tuple[int, int]
    day: dt.date  # the last day of the window
    requests: tuple[ImpactRequest, ...]
    max_gap_ms: int
    clients: StatedClients
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        """Replay the recorded series under the limits before and after (``usage.impact.replay.replayed_row``)."""
        keep_compiled_code()
        files = [TableFile(lake.reader, unit.path, USAGE_SAMPLE) for unit in self.units]
        wanted_keys = sorted({key for request in self.requests for key in keys_of(request)})
        runs = samples.read_runs(files, self.window, wanted_keys)
        cluster_id = self.units[0].cluster_id
        rows = (
            replayed_row(
                cluster_id,
                request,
                [runs.series(key) for key in keys_of(request)],
                self.max_gap_ms,
                self.clients,
            )
            for request in self.requests
        )
        return pa.Table.from_pylist(
            [{**row_document(row), "day": self.day} for row in rows], schema=SCHEMA
        )


def keys_of(request: ImpactRequest) -> list[Key]:
    """Return the series of the parts of a request."""
    return [
        samples.key_of(request.quota_type, part.bucket, request.broker_id) for part in request.parts
    ]


def simulated(
    engine: Engine, lake: Lake, work: SimulationRequest, progress: Progress
) -> Simulation:
    """Simulate, store all rows, and report the worst.

    Raises:
        LakeError: The lake cannot be read or written.
        QuotaValueError: Samples are duplicated or out of range.
    """
    notes: list[EvidenceNote] = []
    queries: list[ImpactQuery] = []
    tasks: list[Task] = []
    snapshots: dict[str, str] = {}
    for candidate in work.candidates:
        window = recorded_window.opened(lake, candidate.cluster_id, *work.window.span)
        notes.append(window.note(lake, work.source, work.now_ms))
        if window.reason:
            continue
        snapshots[window.cluster_id] = window.snapshot_id
        recorded = samples.recorded_series(window.samples, work.window.span)
        buckets = samples.buckets_by_type(recorded)
        query = impact_query(
            window.cluster_id,
            window.state,
            candidate.after(window.state),
            buckets,
            frozenset(buckets),
            recorded=window.limits.recorded(window.cluster_id),
        )
        queries.append(query)
        tasks += _tasks(query, window, recorded, work)
    rows = by_cluster(engine.run(lake.store.at, tasks, SCHEMA, progress), SCHEMA)
    results.store(lake, IMPACT_ROW, rows, snapshots, window=work.window, snapshots=snapshots)
    impact_rows = [row for table in rows.values() for row in results.values_of(table, ImpactRow)]
    return summarize(impact_rows, notes, work.policy, questions=queries, max_rows=work.most)


def _tasks(
    query: ImpactQuery,
    window: RecordedWindow,
    recorded: dict[Key, int],
    work: SimulationRequest,
) -> Iterator[ReplayTask]:
    def need(request: ImpactRequest) -> int:
        return sum(recorded.get(key, 0) for key in keys_of(request))

    for requests, rows in portions(query.requests, need):
        yield ReplayTask(
            units=tuple(day.unit for day in window.samples),
            window=work.window.span,
            day=work.window.last_day,
            requests=requests,
            max_gap_ms=window.cadence.max_gap_ms,
            clients=work.policy.clients,
            rows=rows,
        )
