"""Candidate limits of clusters, read from plans and snapshots, and their simulation without Spark for small inputs.

Nothing here needs PySpark.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from reconciler.codecs.plan import read_plan
from reconciler.codecs.row_values import row_document
from reconciler.codecs.state import read_state
from reconciler.errors import UsageError
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Unit
from reconciler.quota.planner.plan import Plan, apply_to
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
from reconciler.usage.impact.tier_policy import WhatIfPolicy
from reconciler.usage.impact.what_if import MOST_ROWS, summarize
from reconciler.usage.samples import day_of
from reconciler.usage.tables import IMPACT_ROW


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """Candidates, window and policy of a run."""

    candidates: tuple[CandidateLimits, ...]
    from_ms: int
    to_ms: int  # end of the window, exclusive
    policy: WhatIfPolicy = field(default_factory=WhatIfPolicy)
    most: int = MOST_ROWS  # maximum number of rows; tenants are shown whole, and at least one
    source: str = ""  # address of the lake, without secrets
    now_ms: int = 0

    @property
    def day(self) -> dt.date:
        """The last day of the window; results are committed under it."""
        return day_of(self.to_ms - 1)


def read(plans: Sequence[Path], snapshots: Sequence[Path]) -> tuple[CandidateLimits, ...]:
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


def by_core(lake: Lake, work: SimulationRequest) -> Simulation:
    """Run the same simulation as the Spark job without Spark, for inputs that fit the memory of one machine.

    Raises:
        LakeError: The lake cannot be read or written.
        QuotaValueError: Samples are duplicated or out of range.
    """
    notes: list[EvidenceNote] = []
    questions: list[ImpactQuery] = []
    rows: list[ImpactRow] = []
    for candidate in work.candidates:
        window = recorded_window.opened(lake, candidate.cluster_id, work.from_ms, work.to_ms)
        notes.append(window.note(lake, work.source, work.now_ms))
        if window.reason:
            continue
        after = candidate.after(window.state)
        question, samples = recorded_window.asked_of(lake, window, after)
        impact_rows = recorded_window.impacts(
            question, samples, window.cadence, work.policy.consumers
        )
        _keep(lake, work.day, window, impact_rows)
        questions.append(question)
        rows += impact_rows
    return summarize(rows, notes, work.policy, questions=questions, max_rows=work.most)


def _keep(
    lake: Lake, day: dt.date, window: recorded_window.RecordedWindow, rows: Sequence[ImpactRow]
) -> None:
    """Commit all rows to the lake."""
    table_rows = pa.Table.from_pylist(
        [{**row_document(impact_row), "day": day} for impact_row in rows],
        schema=arrow_tables.schema(IMPACT_ROW),
    )
    inputs = {
        "from_ms": str(window.from_ms),
        "to_ms": str(window.to_ms),
        "snapshot_id": window.snapshot_id,
    }
    unit = Unit(table=IMPACT_ROW, cluster_id=window.cluster_id, day=day)
    _ = lake.replace(unit, UnitContent(rows=table_rows, inputs=inputs))
