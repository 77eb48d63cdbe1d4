"""One cluster for the HTML report: live quotas, records, pending changes of the documents, and the history of changes."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.offline_plan import plan_offline
from reconciler.app.change.plan_preparation import PlanTask, prepare_task, task_for
from reconciler.app.change.principals import knowing
from reconciler.app.change.reconcile_options import origin_of, reconcile_options
from reconciler.app.clusters.runtime import open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import PlanLimits, RecordSource
from reconciler.codecs.audit_log import history_of
from reconciler.inventory.audit_log import read_entries
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.policy import DriftMode, Policy
from reconciler.quota.precedence import Principal
from reconciler.reconcile import PreparedPlan
from reconciler.reconcile.drift import preview_against_records
from reconciler.render.page.cluster import ClusterPage


class PageRequest(Struct, frozen=True, kw_only=True):
    """A report, apart from its cluster."""

    # Manifests, relative to the current folder; empty = those of the project, if any.
    paths: tuple[str, ...] = ()
    sources: RecordSource
    snapshot: Path | None = None  # quotas of the cluster; None = query it
    history: Path | None = None
    principals: tuple[Principal, ...] = ()


async def report_cluster(
    notices: Notices, target: ClusterTarget, request: PageRequest
) -> ClusterPage:
    """Return the page of a cluster.

    Raises:
        UsageError: The request contradicts itself.
        ClientError: The cluster cannot be queried.
    """
    declared = bool(request.paths or target.project_cluster.manifests)
    make = _plan_for_report if declared else _without_documents
    prepared = await make(notices, target, request)
    cluster_id, history = prepared.plan.cluster_id, request.history
    return ClusterPage(
        name=target.display_name,
        preview=prepared.preview,
        live=prepared.observation.live,
        owned=prepared.observation.owned,
        history=None
        if history is None
        else history_of(read_entries(history), cluster_id=cluster_id, location=str(history)),
        declared=declared,
    )


async def _plan_for_report(
    notices: Notices, target: ClusterTarget, request: PageRequest
) -> PreparedPlan:
    task = task_for(notices, target, request.paths, PlanLimits(validate="auto"), request.sources)
    return await _prepare(notices, knowing(task, request.principals), request.snapshot)


async def _without_documents(
    notices: Notices, target: ClusterTarget, request: PageRequest
) -> PreparedPlan:
    """Return live quotas and records without a plan, as nothing is declared."""
    keeps_records = not request.sources.no_inventory
    options = reconcile_options(
        target,
        PlanLimits(validate="none"),
        complete=True,
        removals_known=keeps_records,
        origin=origin_of(target),
    )
    rules = target.settings.rules(
        policy=Policy.OBSERVE, drift=DriftMode.WARN, removals_known=keeps_records
    )
    options = replace(options, rules=rules)
    records = RecordSource(no_inventory=request.sources.no_inventory, any_project=True)
    task = PlanTask(target=target, desired=DesiredState(), options=options, records=records)
    first = await _prepare(notices, task, request.snapshot)
    return preview_against_records(first.observation, options, verdict=first.preview.verdict)


async def _prepare(notices: Notices, task: PlanTask, snapshot: Path | None) -> PreparedPlan:
    if snapshot is not None:
        return await plan_offline(notices, task, snapshot)
    async with open_runtime(
        notices, task.target, task.records, command="report", writes=False
    ) as runtime:
        return await prepare_task(task, runtime)
