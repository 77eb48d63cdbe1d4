"""One pass of a loop: what a command does once, without a person to answer a refusal.

A command refuses a whole plan; a loop withholds what a guard speaks against and goes on with the rest. What relies on
a withheld change is held, as if the broker had refused it.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from reconciler.errors import Interrupted, KquotaError
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guard, Guards, Violation, check
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.planner.removal_budgets import RemovalAllowance
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.expired_overrides import (
    ExpiredOverride,
    expired_overrides,
)
from reconciler.quota.results.report import (
    Outcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)
from reconciler.quota.state import QuotaState
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.run_records import close_settled
from reconciler.reconcile.workflow import PreparedPlan, apply, bookkeeping, prepare

BUDGETED = frozenset({Guard.MAX_REMOVALS, Guard.MAX_REMOVED_SHARE})
"""Guards that a command asks of a whole plan, and a loop as budgets of tenants (:mod:`reconciler.quota.planner.removal_budgets`)."""


def _always(_: QuotaChange) -> bool:
    return True


async def _nothing(_: Plan, __: OwnershipRecords) -> None:
    """No callback."""


async def unrefused(_: Plan) -> str:
    """Nothing is known against removals."""
    return ""


async def run_pass(
    ports: ReconcilePorts,
    orders: ReconcileOptions,
    desired: DesiredState,
    *,
    cluster: str,
    corrects: Callable[[QuotaChange], bool] = _always,
    before_sending: Callable[[Plan, OwnershipRecords], Awaitable[None]] = _nothing,
    refuses_removals: Callable[[Plan], Awaitable[str]] = unrefused,
    allotment: RemovalAllowance | None = None,
    fenced: bool = False,
) -> Reconciliation:
    """Observe, plan, withhold, send, verify, record: whatever happens is in the answer.

    Corrections of drift pass the guards like every other change. Drift that waits or that a guard withholds
    stays a finding of the same write; otherwise the records would take over the drifted value and lose the
    time when it was first seen.

    Args:
        ports: The outside world.
        orders: The options of this pass.
        desired: All documents, without conflicts.
        cluster: Name of the QuotaCluster.
        corrects: Whether this drift may be corrected now; asked of changes whose cause is drift only.
        before_sending: Called with what is left of the plan, and what we own, right before any of it is sent; a
            ``KquotaError`` ends the pass.
        refuses_removals: Asked once of a plan: why none of its removals may be made now; "" = nothing is known against them.
        allotment: What may be removed; ``None`` = nothing was removed before within the window.
        fenced: Whether writes of an earlier leader may still land: drift that was not known before is then neither
            believed nor recorded, and the next pass looks again.

    Returns:
        The pass. ``sightings`` is left to the caller, who remembers earlier passes.
    """
    started = ports.clock.now()
    prepared: PreparedPlan | None = None
    outcome: Outcome | None = None
    failure: KquotaError | None = None
    withheld: tuple[WithheldChange, ...] = ()
    waiting: tuple[QuotaChange, ...] = ()
    try:
        prepared = await prepare(ports, orders, desired)
        if fenced:
            prepared = _without_new_drift(prepared)
        waiting = tuple(
            change
            for change in prepared.plan.changes
            if change.cause is Cause.DRIFT and not corrects(change)
        )
        considered = _without(prepared.plan, waiting)
        plan, withheld = withhold(
            considered,
            orders.guards,
            prepared.observation.live,
            owned=prepared.observation.owned,
            allotment=RemovalAllowance(now=started) if allotment is None else allotment,
            refusal=await refuses_removals(considered),
        )
        excluded = (
            *waiting,
            *(
                withheld_change.change
                for withheld_change in withheld
                if withheld_change.change.cause is Cause.DRIFT
            ),
        )
        plan = replace(plan, findings=(*plan.findings, *_reported(prepared, excluded)))
        outcome = await _carried_out(
            ports, orders, _narrowed(prepared, plan), withheld, before_sending
        )
    except Interrupted as stop:
        failure = stop
        outcome = stop.outcome if isinstance(stop.outcome, Outcome) else None
    except KquotaError as error:
        failure = error
    return Reconciliation(
        cluster=cluster,
        preview=None if prepared is None else prepared.preview,
        outcome=outcome,
        withheld=withheld,
        waiting=waiting,
        expired_overrides=() if prepared is None else _expired(prepared, outcome),
        drift_since={} if prepared is None else prepared.observation.owned.drift_since,
        live=None if prepared is None else _last_seen(prepared.observation.live, outcome),
        error=failure,
        started_at=started,
        ended_at=ports.clock.now(),
    )


def withhold(
    plan: Plan,
    guards: Guards,
    live: QuotaState,
    *,
    owned: OwnershipRecords,
    allotment: RemovalAllowance,
    refusal: str = "",
) -> tuple[Plan, tuple[WithheldChange, ...]]:
    """The plan without what guards speak against and without removals beyond their budget, and what that is.

    What is left is checked again, because a plan means something else without some of its changes.

    Args:
        plan: What would be done.
        guards: Of the cluster.
        live: What Kafka has.
        owned: What we own.
        allotment: The removal budgets.
        refusal: Why no removal at all may be made; "" = the guards and budgets decide.
    """
    violations_by_change: dict[QuotaChange, list[Violation]] = {}
    if refusal:
        violations_by_change = {
            change: [_refusal_violation(change, refusal)]
            for change in plan.changes
            if change.removes
        }
        plan = _without(plan, violations_by_change)
    budgeted = False
    while True:
        for violation in check(plan, guards, live):
            for change in plan.changes:
                if _concerns(violation, change):
                    violations_by_change.setdefault(change, []).append(violation)
        remaining = tuple(change for change in plan.changes if change not in violations_by_change)
        if len(remaining) == len(plan.changes):
            # What is left to say concerns no change: an empty desired state.
            if budgeted:
                break
            budgeted = True
            for change, violation in allotment.violations(remaining, owned, guards).items():
                violations_by_change[change] = [violation]
            remaining = tuple(change for change in remaining if change not in violations_by_change)
        plan = replace(plan, changes=remaining)
    return plan, tuple(
        WithheldChange(change=change, violations=tuple(against))
        for change, against in violations_by_change.items()
    )


def _refusal_violation(change: QuotaChange, refusal: str) -> Violation:
    return Violation(guard=Guard.DEFINITION, message=refusal, entity=change.entity, key=change.key)


def _concerns(violation: Violation, change: QuotaChange) -> bool:
    if violation.guard is Guard.EMPTY_DESIRED:
        return change.removes
    if violation.guard in BUDGETED:
        return False
    return violation.entity == change.entity and violation.key is change.key


def _last_seen(live: QuotaState, outcome: Outcome | None) -> QuotaState:
    """The state before the pass, with what was found of each pair after sending."""
    if outcome is None:
        return live
    return live.with_values(
        (pair_outcome.change.entity, pair_outcome.change.key, pair_outcome.observed_value)
        for pair_outcome in outcome.pairs
        if pair_outcome.visibility is not PairVisibility.UNCHECKED
    )


def _expired(prepared: PreparedPlan, outcome: Outcome | None) -> tuple[ExpiredOverride, ...]:
    """The expired overrides that the pass did not revert."""
    pairs = () if outcome is None else outcome.pairs
    reverted = {
        (pair_outcome.change.entity, pair_outcome.change.key)
        for pair_outcome in pairs
        if pair_outcome.is_done
    }
    return expired_overrides(prepared.plan, prepared.observation.owned, reverted=reverted)


def _without_new_drift(prepared: PreparedPlan) -> PreparedPlan:
    drift_since = prepared.observation.owned.drift_since

    def believed(item: QuotaChange | Finding) -> bool:
        return item.cause is not Cause.DRIFT or (item.entity, item.key) in drift_since

    plan = prepared.plan
    believable = replace(
        plan,
        changes=tuple(filter(believed, plan.changes)),
        findings=tuple(filter(believed, plan.findings)),
    )
    return replace(prepared, preview=replace(prepared.preview, plan=believable))


def _without(plan: Plan, excluded: Iterable[QuotaChange]) -> Plan:
    excluded_changes = frozenset(excluded)
    return replace(
        plan, changes=tuple(change for change in plan.changes if change not in excluded_changes)
    )


def _reported(prepared: PreparedPlan, excluded: Iterable[QuotaChange]) -> Iterable[Finding]:
    """Drift that is not corrected now, as under ``Warn``: or the records would take it for over."""
    observation = prepared.observation
    return (
        Finding(
            entity=change.entity,
            key=change.key,
            desired=change.after,
            applied=change.applied,
            live=change.before,
            cause=Cause.DRIFT,
            action=Action.REPORT,
            claim=change.claim,
            owner=change.owner,
            since=observation.owned.drift_since.get((change.entity, change.key), observation.at),
            note=change.note,
        )
        for change in excluded
    )


def _narrowed(prepared: PreparedPlan, plan: Plan) -> PreparedPlan:
    """What is left to be done, with nothing said against it any more."""
    return replace(prepared, preview=replace(prepared.preview, plan=plan, violations=()))


async def _carried_out(
    ports: ReconcilePorts,
    orders: ReconcileOptions,
    prepared: PreparedPlan,
    withheld: Iterable[WithheldChange],
    before_sending: Callable[[Plan, OwnershipRecords], Awaitable[None]],
) -> Outcome | None:
    if prepared.plan.changes:
        await before_sending(prepared.plan, prepared.observation.owned)
        return await apply(
            ports,
            orders,
            prepared,
            withheld=[withheld_change.change for withheld_change in withheld],
        )
    record_changes = bookkeeping(prepared, orders)
    if record_changes:
        close_settled(ports, prepared.observation, orders, record_changes)
        await ports.inventory.write(prepared.plan.cluster_id, record_changes)
    return None
