"""One reconciliation of a loop: the same workflow as a command, without a person who could answer a refusal.

A command refuses a whole plan; a loop withholds the changes that violate a guard and continues with the rest. Changes
that depend on a withheld change are held, as if the broker had refused it. An override ends in any case: if its end
would write a declared value that a guard refuses, the value that the override replaced is restored.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from reconciler.errors import Interrupted, KquotaError
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guard, Guards, Violation, check_with_budgets
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount, counts_as_removal, excess_removals
from reconciler.quota.planner.temporary_limits import without_refused
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import (
    ExpiredOverride,
    Outcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
    expired_overrides,
)
from reconciler.quota.state import QuotaState
from reconciler.reconcile.observation import logins_of
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.run_records import close_settled
from reconciler.reconcile.workflow import (
    PreparedPlan,
    apply,
    bookkeeping,
    prepare,
)


async def _nothing(_: Plan) -> None:
    """Do nothing."""


async def refuse_nothing(_: Plan) -> str:
    """Allow removals."""
    return ""


async def reconcile_cluster(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    desired: DesiredState,
    *,
    cluster: str,
    corrects: Callable[[QuotaChange], bool] = lambda _: True,
    before_sending: Callable[[Plan], Awaitable[None]] = _nothing,
    refuses_removals: Callable[[Plan], Awaitable[str]] = refuse_nothing,
    removal_counts: Sequence[RemovalCount] = (),
    counted: Collection[Pair] = (),
    fenced: bool = False,
) -> Reconciliation:
    """Observe, plan, withhold, send, verify, record; errors are part of the result.

    Corrections of drift must pass the guards like every other change. Drift that is not corrected now, or that a guard
    withholds, becomes a finding: without one, the records would end its drift time.

    Args:
        desired: All documents, without conflicts.
        corrects: Whether a drift may be corrected now; called only for changes whose cause is drift.
        before_sending: Called with the remaining plan, right before it is sent; a ``KquotaError`` ends
            the reconciliation.
        refuses_removals: Called once with the plan: returns why it must not remove anything now; "" = removals are
            allowed.
        removal_counts: The removals of the last hour.
        counted: Pairs whose removal is among them and may have to be sent again.
        fenced: Whether writes of an earlier leader may still take effect: then drift without a recorded start is
            neither reported nor recorded, and the next reconciliation checks again.

    Returns:
        The reconciliation. The caller, which remembers earlier ones, fills in ``observations``.
    """
    started = ports.clock.now()
    prepared: PreparedPlan | None = None
    outcome: Outcome | None = None
    failure: KquotaError | None = None
    withheld: tuple[WithheldChange, ...] = ()
    waiting: tuple[QuotaChange, ...] = ()
    try:
        prepared = await prepare(ports, options, desired)
        if fenced:
            prepared = _without_new_drift(prepared, options)
        waiting = tuple(
            change
            for change in prepared.plan.changes
            if change.cause is Cause.DRIFT and not corrects(change)
        )
        later = frozenset(waiting)
        considered = replace(
            prepared.plan,
            changes=tuple(item for item in prepared.plan.changes if item not in later),
        )
        plan, withheld = withhold(
            considered,
            options.guards,
            prepared.observation.live,
            owned=prepared.observation.owned,
            now=started,
            removal_counts=removal_counts,
            counted=counted,
            refusal=await refuses_removals(considered),
            desired=desired,
            logins=logins_of(prepared.observation, options),
        )
        drifted = (item.change for item in withheld if item.change.cause is Cause.DRIFT)
        reported = _reported_drift(prepared, (*waiting, *drifted))
        plan = replace(plan, findings=(*plan.findings, *reported))
        remaining = replace(prepared.preview, plan=plan, violations=())
        due_now = {(change.pair, change.cause) for change in considered.changes}
        # What waits for the end of an override holds nothing before, neither the beginning of that override.
        due = [item.change for item in withheld if (item.change.pair, item.change.cause) in due_now]
        outcome = await _apply_rest(
            ports, options, replace(prepared, preview=remaining), due, before_sending
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
        expired_overrides=() if prepared is None else _remaining_expired(prepared, outcome),
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
    now: float,
    removal_counts: Sequence[RemovalCount] = (),
    counted: Collection[Pair] = (),
    refusal: str = "",
    desired: DesiredState,
    logins: Collection[Principal] = (),
) -> tuple[Plan, tuple[WithheldChange, ...]]:
    """Return the plan without changes that violate a guard, and those changes.

    The rest is checked again until nothing is withheld, because a plan without some changes has other effects. The plan
    has another change in place of the end of an override whose declared value is withheld: it restores the value from before.

    Args:
        now: Seconds since the epoch.
        removal_counts: The removals of the last hour.
        counted: Pairs whose removal is among them and may have to be sent again.
        refusal: Why nothing may be removed; "" = guards decide. The end of an override is carried out.
        desired: All documents.
        logins: Known clients beside those that have a limit of their own, for budgets.
    """
    excess = excess_removals(plan.changes, removal_counts, owned, guards, now=now, counted=counted)
    violations_by_change = {change: [violation] for change, violation in excess.items()}
    if refusal:
        violations_by_change |= {
            change: [
                Violation(
                    guard=Guard.DEFINITION, message=refusal, entity=change.entity, key=change.key
                )
            ]
            for change in plan.changes
            if counts_as_removal(change)
        }
    while True:
        plan = without_refused(plan, violations_by_change, owned, now=now)
        changes = {(change.pair, change.cause): change for change in plan.reviewed}
        _, violations = check_with_budgets(
            plan, guards, live, desired=desired, owned=owned, logins=logins
        )
        for violation in violations:
            for change in _concerned(violation, changes):
                violations_by_change.setdefault(change, []).append(violation)
        if violations_by_change.keys().isdisjoint(plan.reviewed):
            break  # A remaining violation concerns no change: an empty desired state.
    return plan, tuple(
        WithheldChange(change=change, violations=tuple(violations))
        for change, violations in violations_by_change.items()
    )


def _concerned(
    violation: Violation, changes: Mapping[tuple[Pair, Cause], QuotaChange]
) -> Iterable[QuotaChange]:
    """Return the changes that a violation withholds; not of the number of removals, which :func:`excess_removals` judges."""
    if violation.guard is Guard.EMPTY_DESIRED:
        return filter(counts_as_removal, changes.values())
    if violation.entity is None or violation.key is None or violation.cause is None:
        return ()
    change = changes.get(((violation.entity, violation.key), violation.cause))
    return () if change is None else (change,)


def _last_seen(live: QuotaState, outcome: Outcome | None) -> QuotaState:
    """Return the state before the reconciliation, updated with the values observed after sending."""
    if outcome is None:
        return live
    return live.with_values(
        (pair_outcome.change.entity, pair_outcome.change.key, pair_outcome.observed_value)
        for pair_outcome in outcome.pairs
        if pair_outcome.visibility is not PairVisibility.UNCHECKED
    )


def _remaining_expired(
    prepared: PreparedPlan, outcome: Outcome | None
) -> tuple[ExpiredOverride, ...]:
    """Return the expired overrides that the reconciliation did not revert."""
    pairs = () if outcome is None else outcome.pairs
    reverted = {pair_outcome.change.pair for pair_outcome in pairs if pair_outcome.is_done}
    return expired_overrides(
        prepared.plan, prepared.observation.owned, now=prepared.observation.at, reverted=reverted
    )


def _without_new_drift(prepared: PreparedPlan, options: ReconcileOptions) -> PreparedPlan:
    live, owned = prepared.observation.live, prepared.observation.owned

    def is_confirmed(item: QuotaChange | Finding) -> bool:
        return item.cause is not Cause.DRIFT or item.pair in owned.drift_since

    plan = prepared.plan
    known_plan = replace(
        plan,
        changes=tuple(filter(is_confirmed, plan.changes)),
        findings=tuple(filter(is_confirmed, plan.findings)),
    )
    budgets, violations = check_with_budgets(
        known_plan,
        options.guards,
        live,
        desired=prepared.desired,
        owned=owned,
        logins=logins_of(prepared.observation, options),
    )
    preview = replace(prepared.preview, plan=known_plan, budgets=budgets, violations=violations)
    return replace(prepared, preview=preview)


def _reported_drift(prepared: PreparedPlan, excluded: Iterable[QuotaChange]) -> Iterable[Finding]:
    """Return findings for drift that is not corrected now, as under ``Warn``."""
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
            since=observation.owned.drift_since.get(change.pair, observation.at),
            note=change.note,
        )
        for change in excluded
    )


async def _apply_rest(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    prepared: PreparedPlan,
    due: Iterable[QuotaChange],
    before_sending: Callable[[Plan], Awaitable[None]],
) -> Outcome | None:
    if prepared.plan.changes:
        await before_sending(prepared.plan)
        return await apply(ports, options, prepared, withheld=due)
    record_changes = bookkeeping(prepared, options)
    if record_changes:
        close_settled(ports, prepared.observation, options, record_changes)
        await ports.inventory.write(prepared.plan.cluster_id, record_changes)
    return None
