"""What ``plan`` and ``apply`` share: documents and orders in, a prepared plan out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.context.cluster_targets import ClusterTarget
from reconciler.cli.context.documents import ClusterDocuments, at_revision, load
from reconciler.cli.context.reconcile_options import (
    PlanLimitOptions,
    orders_for,
    origin_of,
)
from reconciler.cli.context.record_stores import check_records
from reconciler.cli.context.runtime import RecordOptions
from reconciler.cli.framework.console import Console, reading
from reconciler.cli.options.shared import packed
from reconciler.errors import UsageError
from reconciler.quota.ip_aliases import ADDRESS
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.reconcile import PreparedPlan, ReconcileOptions

if TYPE_CHECKING:
    from reconciler.cli.context.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryOptions:
    """Where a plan's third side comes from, as it was typed."""

    since: str | None
    no_inventory: bool


_OPTIONS: Final = (
    ("since", click.option("--since", metavar="REV",
        help="Treat the manifests at this revision as last applied if there is no inventory: HEAD, HEAD~N, a full commit id or a full ref name.")),
    ("no_inventory", click.option("--no-inventory", is_flag=True,
        help="Do not use an inventory; treat every live quota as unmanaged.")),
)  # fmt: skip


def source_options(function: F) -> F:
    """The options of :class:`InventoryOptions`, handed over as ``sources``."""
    decorate: Callable[[F], F] = packed(
        "sources",
        InventoryOptions,
        [name for name, _ in _OPTIONS],
        [option for _, option in _OPTIONS],
    )
    return decorate(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """Everything that a plan of one cluster needs, before any broker is asked."""

    target: ClusterTarget
    documents: ClusterDocuments
    orders: ReconcileOptions
    records: RecordOptions

    @property
    def desired(self) -> DesiredState:
        """What the documents ask for."""
        return self.documents.desired


def task_for(
    console: Console,
    target: ClusterTarget,
    paths: Sequence[str],
    limits: PlanLimitOptions,
    sources: InventoryOptions,
) -> PlanTask:
    """Read documents and revision, and put the orders together.

    Raises:
        ManifestErrors: Something is wrong with a file, or two documents claim one pair.
        GitError: The revision of ``--since`` cannot be read.
        UsageError: Options do not fit together.
    """
    if sources.since is not None and limits.force:
        raise UsageError(
            "--since and --force do not go together: a revision says what was declared, not what was applied,"
            " so a value that differs from it may come from another writer",
            hint="remove such a pair by hand, or use an inventory",
        )
    with reading(console) as progress:
        documents = load(target, paths, progress=progress)
    for warning in documents.warnings:
        console.warning(str(warning))
    if target.settings.suspend:
        console.warning(f"{target.display_name} is suspended (spec.suspend): nothing is written")
    if not sources.no_inventory and sources.since is None:
        check_records(console, target)
    since = None if sources.since is None else at_revision(target, sources.since)
    orders = orders_for(
        target,
        limits,
        complete=documents.complete,
        removals_known=not sources.no_inventory or since is not None,
        origin=origin_of(target),
        desired=documents.desired,
    )
    return PlanTask(
        target=target,
        documents=documents,
        orders=orders,
        records=RecordOptions(none=sources.no_inventory, since=since),
    )


async def prepared_for(task: PlanTask, world: "Runtime") -> PreparedPlan:
    """Observe, plan, guard, validate."""
    from reconciler.reconcile import prepare

    orders = replace(task.orders, own_principal=world.own_principal)
    return addressed(
        narrowed(await prepare(world.ports, orders, task.desired), orders), task.target, world
    )


def addressed(prepared: PreparedPlan, target: ClusterTarget, world: "Runtime") -> PreparedPlan:
    """The same with this cluster's address in the commands that violations suggest."""
    preview = prepared.preview
    if not (preview.violations or preview.plan.ip_aliases):
        return prepared
    address = broker_text(target, world)
    violations = tuple(
        replace(violation, message=violation.message.replace(ADDRESS, address))
        for violation in preview.violations
    )
    warnings = tuple(warning.replace(ADDRESS, address) for warning in preview.warnings)
    return replace(prepared, preview=replace(preview, violations=violations, warnings=warnings))


def broker_text(target: "ClusterTarget", world: "Runtime") -> str:
    """What follows ``--bootstrap-server`` in a command for this cluster."""
    import shlex

    text = str(world.config.bootstrap[0])
    if target.options.command_config is not None:
        text += f" --command-config {shlex.quote(str(target.options.command_config))}"
    return text


def narrowed(prepared: PreparedPlan, orders: ReconcileOptions) -> PreparedPlan:
    """The same without reports about pairs that this run does not look after (``--only``, some PATHs)."""
    only = orders.only
    if only is None:
        return prepared
    plan = prepared.plan
    findings = tuple(finding for finding in plan.findings if only(finding.entity, finding.key))
    preview = replace(prepared.preview, plan=replace(plan, findings=findings))
    return replace(prepared, preview=preview)
