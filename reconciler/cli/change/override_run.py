"""What ``override`` and ``rollback`` share: values of the night shift, prepared against documents or records, then applied."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.app.event_loop import run
from reconciler.cli.change.apply_run import ApplyRequest, carry_out, report_outcome
from reconciler.cli.context.cluster_targets import ClusterTarget
from reconciler.cli.context.documents import load
from reconciler.cli.context.plan_preparation import (
    InventoryOptions,
    addressed,
    narrowed,
)
from reconciler.cli.context.reconcile_options import (
    orders_for,
    origin_of,
    unlimited,
)
from reconciler.cli.context.runtime import RecordOptions, Runtime, world
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import KquotaError, PlanRefused
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.policy import Policy
from reconciler.quota.results.report import Outcome, ValidationResult
from reconciler.reconcile import (
    NewOverride,
    Observation,
    PreparedPlan,
    ReconcileOptions,
    observe,
    preview,
)
from reconciler.reconcile.drift import as_applied
from reconciler.reconcile.observation import rules_for
from reconciler.reconcile.validation import validate as validate_alterations


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideChange:
    """Overrides that begin or end.

    Attributes:
        begin: The overrides that begin; called with the observation that gives times and before-values.
        end: Pairs whose override ends now.
        pairs: All pairs that may be written; called with the observation.
        cluster_id: The id that must answer; ``None`` = as configured.
    """

    begin: Callable[[Observation], tuple[NewOverride, ...]]
    end: frozenset[Pair]
    pairs: Callable[[Observation], frozenset[Pair]]
    cluster_id: str | None = None


def shift(console: Console, request: ApplyRequest, change: OverrideChange) -> ExitCode:
    """Put overrides into force, or end them, as an apply of these pairs and nothing else.

    Raises:
        Refused: The policy in force writes nothing.
    """

    async def work() -> Outcome | None:
        async with world(
            console, request.target, RecordOptions(), command=request.command, writes=True
        ) as runtime:
            orders, prepared = await _prepared(console, request, runtime, change)
            return await carry_out(console, request, runtime, orders, prepared)

    return report_outcome(console, request, run(work()))


async def _prepared(
    console: Console, request: ApplyRequest, runtime: Runtime, change: OverrideChange
) -> tuple[ReconcileOptions, PreparedPlan]:
    target = request.target
    orders = orders_for(
        target, request.limits, complete=True, removals_known=True, origin=origin_of(target)
    )
    if change.cluster_id is not None and orders.expected_cluster_id is None:
        orders = replace(orders, expected_cluster_id=change.cluster_id)
    observation = await observe(runtime.ports, orders)
    if rules_for(orders, observation).in_force is Policy.OBSERVE:
        raise PlanRefused(
            f"policy Observe is in force for {target.display_name}: nothing may be written"
        )
    pairs = change.pairs(observation)
    orders = replace(
        orders,
        overrides=change.begin(observation),
        ended=change.end,
        only=lambda subject, key: (subject, key) in pairs,
        own_principal=runtime.own_principal,
        pace=request.pace,
    )
    desired = _desired(console, target, observation)
    first = preview(observation, desired, orders, verdict=ValidationResult(source="none"))
    verdict = await validate_alterations(runtime.ports, orders, observation, first.plan.changes)
    prepared = narrowed(replace(first, preview=replace(first.preview, verdict=verdict)), orders)
    return orders, addressed(prepared, target, runtime)


def _desired(console: Console, target: ClusterTarget, observation: Observation) -> DesiredState:
    """What is declared; at night a broken manifest must not be in the way, so our records will do."""
    if not target.project_cluster.manifests:
        return as_applied(observation)
    try:
        return load(target, ()).desired
    except KquotaError as error:
        console.warning(
            f"the manifests cannot be read, so what we applied last stands for them: {error}"
        )
        return as_applied(observation)


def override_request(
    target: ClusterTarget,
    validate: str,
    *,
    yes: bool,
    output: str,
    command: str,
    next_words: tuple[str, ...] = ("override", "list"),
) -> ApplyRequest:
    """An apply of overrides alone."""
    return ApplyRequest(
        target=target,
        task=None,
        saved=None,
        limits=unlimited(validate),
        sources=InventoryOptions(since=None, no_inventory=False),
        yes=yes,
        expect_digest=None,
        max_age=0.0,
        pace=False,
        outcome_path=None,
        output=output,
        command=command,
        next_words=next_words,
    )
