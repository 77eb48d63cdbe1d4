"""Candidate limits of clusters, read from plans and snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.codecs.plan import read_plan
from reconciler.codecs.state import read_state
from reconciler.errors import UsageError
from reconciler.quota.planner.plan import Plan, apply_to
from reconciler.quota.state import QuotaState


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
