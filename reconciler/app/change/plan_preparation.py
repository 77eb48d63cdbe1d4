"""The part shared by ``plan`` and ``apply``: makes a prepared plan from documents and options."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.reconcile_options import origin_of, reconcile_options
from reconciler.app.clusters.documents import STDIN, load, reading
from reconciler.app.clusters.record_stores import check_records
from reconciler.app.clusters.runtime import Runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import PlanLimits, RecordSource
from reconciler.errors import PlanRefused
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guard, check
from reconciler.quota.policy import Rules
from reconciler.quota.state import QuotaState
from reconciler.reconcile import PreparedPlan, ReconcileOptions, prepare


class PlanTask(Struct, frozen=True, kw_only=True):
    """Everything that a plan of one cluster needs before a broker is queried."""

    target: ClusterTarget
    desired: DesiredState
    options: ReconcileOptions
    records: RecordSource
    only: tuple[Entity, ...] = ()  # the entities that were typed; empty = all


def task_for(
    notices: Notices,
    target: ClusterTarget,
    paths: Sequence[str],
    limits: PlanLimits,
    sources: RecordSource,
) -> PlanTask:
    """Read documents, and build the options.

    Raises:
        ManifestErrors: A file is invalid, or two documents claim one pair.
        UsageError: Options contradict each other.
    """
    documents = load(target, paths, progress=reading(notices))
    for warning in documents.warnings:
        notices.warning(str(warning))
    if target.settings.suspend:
        notices.warning(f"{target.display_name} is suspended (spec.suspend): nothing is written")
    if not sources.no_inventory:
        check_records(notices, target)
    options = reconcile_options(
        target,
        limits,
        complete=documents.complete,
        removals_known=not sources.no_inventory,
        origin=origin_of(target),
        desired=documents.desired,
    )
    return PlanTask(
        target=target,
        desired=documents.desired,
        options=options,
        records=sources,
        only=limits.only,
    )


async def prepare_task(task: PlanTask, runtime: Runtime) -> PreparedPlan:
    """Observe, plan, guard, validate."""
    options = replace(task.options, own_principal=runtime.own_principal)
    prepared = limit_findings(await prepare(runtime.ports, options, task.desired), options)
    return with_warnings(prepared, task)


def with_warnings(prepared: PreparedPlan, task: PlanTask) -> PreparedPlan:
    """Add warnings: the records are those of another project; a typed entity is not declared, recorded or live."""
    observation, desired = prepared.observation, task.desired
    declared = desired.limits.keys() | {entity for entity, _ in desired.halted}
    warnings = tuple(
        f"--only {entity_text(entity)}: no document, record or live quota has this entity"
        for entity in task.only
        if entity not in declared
        and entity not in observation.live.limits
        and entity not in observation.owned.records
    )
    recorded, own = observation.owned.project, task.target.project_cluster.project
    if recorded not in {"", own}:
        warnings += (
            f"the records are those of project {recorded!r}, not of {own!r}: kquota apply is refused without --take-over",
        )
    preview = prepared.preview
    return replace(prepared, preview=replace(preview, warnings=(*preview.warnings, *warnings)))


def limit_findings(prepared: PreparedPlan, options: ReconcileOptions) -> PreparedPlan:
    """Drop findings of pairs outside of this run's scope (``--only``, typed paths)."""
    only = options.only
    if only is None:
        return prepared
    plan = prepared.plan
    findings = tuple(finding for finding in plan.findings if only(finding.entity, finding.key))
    preview = replace(prepared.preview, plan=replace(plan, findings=findings))
    return replace(prepared, preview=preview)


_FLAGS: Final = {
    Guard.PROTECTED: (
        "--allow-defaults",
        "of default entities, which affect every client without a more specific limit",
    ),
    Guard.BOUNDS_UNIT: ("--allow-small-values", "that look like a wrong unit"),
}


def check_piped(task: PlanTask, paths: Sequence[str]) -> None:
    """Check that all flags that the documents of standard input need are set, before a cluster is queried.

    ``kquota export | kquota apply -`` reads its documents once, so a refusal after the describe would waste both runs.

    Raises:
        PlanRefused: One is missing; the hint lists all missing flags.
    """
    if STDIN not in paths:
        return
    plan = compare(
        desired=task.desired,
        owned=OwnershipRecords(cluster_id=""),
        live=QuotaState(),
        rules=Rules(),
    )
    counts = Counter(
        violation.guard for violation in check(plan, task.options.guards, QuotaState())
    )
    missing = [guard for guard in _FLAGS if counts[guard]]
    if missing:
        limits = " and ".join(f"{counts[guard]} limits {_FLAGS[guard][1]}" for guard in missing)
        flags = " ".join(_FLAGS[guard][0] for guard in missing)
        raise PlanRefused(
            f"standard input declares {limits}; the cluster was not contacted",
            hint=f"if this is intended, add {flags}",
        )
