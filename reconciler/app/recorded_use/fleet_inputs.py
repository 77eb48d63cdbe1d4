"""Documents, records and rules of many clusters for a fleet plan, without a request to any broker."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.app.change.reconcile_options import reconcile_options
from reconciler.app.clusters.documents import load_loosely
from reconciler.app.clusters.record_stores import read_only_inventory
from reconciler.app.clusters.targets import ClusterTarget, target
from reconciler.app.notices import TextReceiver
from reconciler.app.recorded_use.selection import ClusterSelection, SelectedCluster
from reconciler.app.requests import PlanLimits, TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.errors import ManifestErrors, Problem, UsageError
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.results.report import RunOrigin

if TYPE_CHECKING:
    from reconciler.evidence.spark.fleet.plan_inputs import ClusterPlanInput


def fleet_inputs(
    notices: TextReceiver, clusters: ClusterSelection
) -> "dict[str, ClusterPlanInput]":
    """Read the documents and records of all clusters, by cluster id.

    Two documents that claim one pair are no error here: they become rows.

    Raises:
        UsageError: A cluster was given by its id alone, so its documents are unknown.
        ManifestErrors: Every problem of every file of every cluster.
        InventoryError: Records cannot be read.
    """
    inputs: dict[str, ClusterPlanInput] = {}
    problems: list[Problem] = []
    for cluster in clusters.select():
        try:
            inputs[cluster.id] = _read(notices, cluster, _target(cluster, clusters))
        except ManifestErrors as error:
            problems += error.problems
    if problems:
        raise ManifestErrors(_once(problems))
    return inputs


def _read(
    notices: TextReceiver, cluster: SelectedCluster, cluster_target: ClusterTarget
) -> "ClusterPlanInput":
    from reconciler.evidence.spark.fleet.plan_inputs import ClusterPlanInput

    loaded = load_loosely(cluster_target, ())
    if loaded.problems:
        raise ManifestErrors(loaded.problems)
    for warning in loaded.warnings:
        notices.warning(str(warning))
    clock = SystemClock()
    owned = asyncio.run(read_only_inventory(cluster_target, clock).load(cluster.id))
    options = reconcile_options(
        cluster_target,
        PlanLimits(validate="none"),
        complete=True,
        removals_known=owned.is_known,
        origin=RunOrigin(),
    )
    return ClusterPlanInput(
        desired=merge(loaded.of(cluster_target.name)),
        owned=owned,
        rules=options.rules,
        day=datetime.fromtimestamp(clock.now(), UTC).date(),
        guards=options.guards,
    )


def _target(cluster: SelectedCluster, clusters: ClusterSelection) -> ClusterTarget:
    if not cluster.name:
        raise UsageError(
            f"no manifests are configured for {cluster.id}",
            hint="choose a cluster of a project file with --cluster, or pass --all",
        )
    return target(TargetRequest(project=clusters.project, cluster=cluster.name))


def _once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Remove duplicates: files that several clusters share are read for each of them."""
    return tuple(dict.fromkeys(problems))
