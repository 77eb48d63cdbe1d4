"""Simulates new limits on recorded use: limits from manifests, plans or snapshots, replayed by an engine."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.change.evidence import what_if_policy
from reconciler.app.change.plan_preparation import task_for
from reconciler.app.clusters.targets import offline_targets
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.recorded_use.selection import (
    ClusterSelection,
    EngineOptions,
    WindowOptions,
    opened_lake,
)
from reconciler.app.requests import PlanRequest, TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.app.change.plan_preparation import PlanTask
    from reconciler.base.protocols import Progress
    from reconciler.evidence.analysis.impact import CandidateLimits
    from reconciler.evidence.store.lake import Lake
    from reconciler.quota.planner.desired_state import Declaration
    from reconciler.usage.impact.result_rows import Simulation
    from reconciler.usage.impact.tier_policy import WhatIfPolicy


class SimulateOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    lake: str
    # Clusters of the project; with files, the clusters that they must belong to.
    clusters: ClusterSelection
    paths: tuple[str, ...]  # manifests, instead of those that the project configures
    plans: tuple[Path, ...]
    after: tuple[Path, ...]
    window: WindowOptions
    engine: EngineOptions
    most: int  # maximum number of rows; tenants are shown whole, and at least one

    def __post_init__(self) -> None:
        if self.paths and (self.plans or self.after):
            raise UsageError("manifests cannot be combined with --plan or --after")
        if not (self.plans or self.after) and self.clusters.ids:
            raise UsageError(
                "--cluster-id needs --plan or --after",
                hint="for manifests, choose the cluster with --cluster",
            )


def simulated(notices: Notices, options: SimulateOptions, progress: "Progress") -> "Simulation":
    """Simulate on the suitable engine.

    Raises:
        KquotaError: An error of a file, the lake, or the Spark session.
    """
    needs("usage", "kquota usage simulate")
    from reconciler.evidence.analysis import impact
    from reconciler.evidence.analysis.results import TimeWindow

    lake = opened_lake(options.lake)
    clock = SystemClock()
    begin, end = options.window.span(clock)
    window = TimeWindow(from_ms=begin, to_ms=end)
    declared: Mapping[str, Sequence[Declaration]] = {}
    if options.plans or options.after:
        candidates: tuple[CandidateLimits, ...] = impact.candidates_of(options.plans, options.after)
        options.clusters.check({candidate.cluster_id for candidate in candidates})
    else:
        candidates, declared = _of_manifests(notices, options, lake, window.span)
    work = impact.SimulationRequest(
        candidates=candidates,
        window=window,
        policy=policy_for(notices, options.clusters.project, declared),
        most=options.most,
        source=lake.store.redacted_address,
        now_ms=round(clock.now() * 1000),
    )
    clusters = [candidate.cluster_id for candidate in candidates]
    with options.engine.opened(notices, lake, clusters, window) as engine:
        return impact.simulated(engine, lake, work, progress)


def policy_for(
    notices: TextReceiver,
    project_path: Path | None,
    declared: "Mapping[str, Sequence[Declaration]]",
) -> "WhatIfPolicy":
    """Return the what-if policy of the project, if any, with the tiers that documents refer to.

    Args:
        project_path: The project file; ``None`` = the one here, if it exists.
        declared: Documents by cluster id.

    Raises:
        UsageError: The policy is invalid, or the given project does not exist.
    """
    from reconciler.app.clusters.project_files import project_path as located
    from reconciler.app.clusters.targets import read_project

    simulate_spec: Mapping[str, object] = {}
    where = TargetRequest(project=project_path)
    if project_path is not None or located(where).exists():
        simulate_spec = read_project(where)[0].simulate
    return what_if_policy(notices, simulate_spec, declared)


def task_of(
    notices: Notices, project: Path | None, cluster: str, paths: Sequence[str]
) -> "PlanTask":
    """Return the documents of one cluster of the project.

    Raises:
        ManifestErrors: A file is invalid.
        UsageError: There is no project.
    """
    (target,) = offline_targets(TargetRequest(project=project, cluster=cluster), paths)
    # A simulation writes nothing: `plan` and `apply` report guards.
    request = PlanRequest(paths=tuple(paths), validate="none", correct_drift=True)
    return task_for(notices, target, request)


def _of_manifests(
    notices: Notices, options: SimulateOptions, lake: "Lake", window: tuple[int, int]
) -> "tuple[tuple[CandidateLimits, ...], Mapping[str, Sequence[Declaration]]]":
    """Plan the documents against the last quota snapshot of each cluster; return also the documents by cluster id."""
    from reconciler.app.change.offline_plan import OfflineCluster, plan_on
    from reconciler.app.event_loop import run
    from reconciler.evidence.analysis.impact import CandidateLimits
    from reconciler.evidence.store import recorded_window

    candidate_list: list[CandidateLimits] = []
    declared: defaultdict[str, list[Declaration]] = defaultdict(list)
    for cluster in options.clusters.select():
        task = task_of(notices, options.clusters.project, cluster.name, options.paths)
        recorded = recorded_window.opened(lake, cluster.id, *window)
        taken_at = (
            recorded.limits.snapshot.observed_at_ms / 1000 if recorded.limits.snapshot else None
        )
        stand_in = OfflineCluster(cluster_id=cluster.id, state=recorded.state, taken_at=taken_at)
        prepared = run(plan_on(task, stand_in))
        candidate_list.append(CandidateLimits(cluster_id=cluster.id, plan=prepared.preview.plan))
        declared[cluster.id] += task.desired.declarations
    return tuple(candidate_list), declared
