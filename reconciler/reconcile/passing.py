"""One pass of a loop: what a command does once, without anybody there to answer a refusal.

A command refuses a whole plan; a loop withholds what a guard speaks against and goes on with the rest. What relies on
a withheld change is held, as if the broker had refused it.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from reconciler.errors import Interrupted, KquotaError
from reconciler.quota.budgets import Allotment
from reconciler.quota.change import Change, Finding, Plan
from reconciler.quota.desired import Desired
from reconciler.quota.expired_overrides import ExpiredOverride, expired_overrides
from reconciler.quota.guards import Guard, Guards, Violation, check
from reconciler.quota.owned import Owned
from reconciler.quota.policy import Action, Cause
from reconciler.quota.report import Outcome, Pass, Seen, Withheld
from reconciler.quota.state import State
from reconciler.reconcile.orders import Orders, Ports
from reconciler.reconcile.recording import close_settled
from reconciler.reconcile.story import Prepared, apply, bookkeeping, prepare

BUDGETED = frozenset({Guard.MAX_REMOVALS, Guard.MAX_REMOVED_SHARE})
"""Guards that a command asks of a whole plan, and a loop as budgets of tenants (:mod:`reconciler.quota.budgets`)."""


def _always(_: Change) -> bool:
    return True


async def _nothing(_: Plan, __: Owned) -> None:
    """Nobody wants to know."""


async def unrefused(_: Plan) -> str:
    """Nothing is known against removals."""
    return ""


async def run_pass(
    ports: Ports,
    orders: Orders,
    desired: Desired,
    *,
    cluster: str,
    corrects: Callable[[Change], bool] = _always,
    before_sending: Callable[[Plan, Owned], Awaitable[None]] = _nothing,
    refuses_removals: Callable[[Plan], Awaitable[str]] = unrefused,
    allotment: Allotment | None = None,
    fenced: bool = False,
) -> Pass:
    """Observe, plan, withhold, send, verify, record: whatever happens is in the answer.

    Args:
        ports: The outside world.
        orders: What this pass is told.
        desired: All documents, without conflicts.
        cluster: Name of the QuotaCluster.
        corrects: Whether this drift may be corrected now; asked of changes whose cause is drift only.
        before_sending: Told what is left of the plan, and what we own, right before any of it is sent; a
            ``KquotaError`` ends the pass.
        refuses_removals: Asked once of a plan: why none of its removals may be made now; "" = nothing is known against them.
        allotment: What may be removed; ``None`` = nothing was removed before within the window.
        fenced: Whether writes of an earlier leader may still land: drift that nobody knew of before is then neither
            believed nor recorded, and the next pass looks again.

    Returns:
        The pass. ``sightings`` is left to the caller, who remembers earlier passes.
    """
    started = ports.clock.now()
    prepared: Prepared | None = None
    outcome: Outcome | None = None
    failure: KquotaError | None = None
    withheld: tuple[Withheld, ...] = ()
    waiting: tuple[Change, ...] = ()
    try:
        prepared = await prepare(ports, orders, desired)
        if fenced:
            prepared = _without_new_drift(prepared)
        waiting = tuple(
            one for one in prepared.plan.changes if one.cause is Cause.DRIFT and not corrects(one)
        )
        considered = _without(prepared.plan, waiting)
        plan, withheld = withhold(
            considered,
            orders.guards,
            prepared.seen.live,
            owned=prepared.seen.owned,
            allotment=Allotment(now=started) if allotment is None else allotment,
            refusal=await refuses_removals(considered),
        )
        left = (*waiting, *(one.change for one in withheld if one.change.cause is Cause.DRIFT))
        plan = replace(plan, findings=(*plan.findings, *_reported(prepared, left)))
        outcome = await _carried_out(
            ports, orders, _narrowed(prepared, plan), withheld, before_sending
        )
    except Interrupted as stop:
        failure = stop
        outcome = stop.outcome if isinstance(stop.outcome, Outcome) else None
    except KquotaError as error:
        failure = error
    return Pass(
        cluster=cluster,
        preview=None if prepared is None else prepared.preview,
        outcome=outcome,
        withheld=withheld,
        waiting=waiting,
        expired_overrides=() if prepared is None else _expired(prepared, outcome),
        drift_since={} if prepared is None else prepared.seen.owned.drift_since,
        live=None if prepared is None else _last_seen(prepared.seen.live, outcome),
        error=failure,
        started_at=started,
        ended_at=ports.clock.now(),
    )


def withhold(
    plan: Plan,
    guards: Guards,
    live: State,
    *,
    owned: Owned,
    allotment: Allotment,
    refusal: str = "",
) -> tuple[Plan, tuple[Withheld, ...]]:
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
    said: dict[Change, list[Violation]] = {}
    if refusal:
        said = {change: [_refused(change, refusal)] for change in plan.changes if change.removes}
        plan = _without(plan, said)
    budgeted = False
    while True:
        for violation in check(plan, guards, live):
            for change in plan.changes:
                if _concerns(violation, change):
                    said.setdefault(change, []).append(violation)
        kept = tuple(change for change in plan.changes if change not in said)
        if len(kept) == len(plan.changes):
            # What is left to say concerns no change: an empty desired state.
            if budgeted:
                break
            budgeted = True
            for change, violation in allotment.refused(kept, owned, guards).items():
                said[change] = [violation]
            kept = tuple(change for change in kept if change not in said)
        plan = replace(plan, changes=kept)
    return plan, tuple(
        Withheld(change=change, violations=tuple(against)) for change, against in said.items()
    )


def _refused(change: Change, refusal: str) -> Violation:
    return Violation(guard=Guard.DEFINITION, message=refusal, entity=change.entity, key=change.key)


def _concerns(violation: Violation, change: Change) -> bool:
    if violation.guard is Guard.EMPTY_DESIRED:
        return change.removes
    if violation.guard in BUDGETED:
        return False
    return violation.entity == change.entity and violation.key is change.key


def _last_seen(live: State, outcome: Outcome | None) -> State:
    """The state before the pass, with what was found of each pair after sending."""
    if outcome is None:
        return live
    return live.with_values(
        (one.change.entity, one.change.key, one.found)
        for one in outcome.pairs
        if one.seen is not Seen.UNCHECKED
    )


def _expired(prepared: Prepared, outcome: Outcome | None) -> tuple[ExpiredOverride, ...]:
    """The expired overrides that the pass did not revert."""
    pairs = () if outcome is None else outcome.pairs
    reverted = {(one.change.entity, one.change.key) for one in pairs if one.is_done}
    return expired_overrides(prepared.plan, prepared.seen.owned, reverted=reverted)


def _without_new_drift(prepared: Prepared) -> Prepared:
    known = prepared.seen.owned.drift_since

    def believed(one: Change | Finding) -> bool:
        return one.cause is not Cause.DRIFT or (one.entity, one.key) in known

    plan = prepared.plan
    believable = replace(
        plan,
        changes=tuple(filter(believed, plan.changes)),
        findings=tuple(filter(believed, plan.findings)),
    )
    return replace(prepared, preview=replace(prepared.preview, plan=believable))


def _without(plan: Plan, left: Iterable[Change]) -> Plan:
    out = frozenset(left)
    return replace(plan, changes=tuple(one for one in plan.changes if one not in out))


def _reported(prepared: Prepared, left: Iterable[Change]) -> Iterable[Finding]:
    """Drift that is not corrected now, as under ``Warn``: or the records would take it for over."""
    seen = prepared.seen
    return (
        Finding(
            entity=one.entity,
            key=one.key,
            desired=one.after,
            applied=one.applied,
            live=one.before,
            cause=Cause.DRIFT,
            action=Action.REPORT,
            claim=one.claim,
            owner=one.owner,
            since=seen.owned.drift_since.get((one.entity, one.key), seen.at),
            note=one.note,
        )
        for one in left
    )


def _narrowed(prepared: Prepared, plan: Plan) -> Prepared:
    """What is left to be done, with nothing said against it any more."""
    return replace(prepared, preview=replace(prepared.preview, plan=plan, violations=()))


async def _carried_out(
    ports: Ports,
    orders: Orders,
    prepared: Prepared,
    withheld: Iterable[Withheld],
    before_sending: Callable[[Plan, Owned], Awaitable[None]],
) -> Outcome | None:
    if prepared.plan.changes:
        await before_sending(prepared.plan, prepared.seen.owned)
        return await apply(ports, orders, prepared, withheld=[one.change for one in withheld])
    noted = bookkeeping(prepared, orders)
    if noted:
        close_settled(ports, prepared.seen, orders, noted)
        await ports.inventory.write(prepared.plan.cluster_id, noted)
    return None
