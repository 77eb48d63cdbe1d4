"""The workflow: ``prepare`` observes, plans, checks guards and validates; ``apply`` sends, verifies, records and reports."""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import KquotaError, ManifestErrors, PlanRefused, StalePlan
from reconciler.quota.entity import entity_text
from reconciler.quota.ownership import SENDING_SECONDS, ProjectNamed, RecordChange, pair_of
from reconciler.quota.planner.budgets import BudgetUse, budget_warnings
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import DesiredState, conflict_problems
from reconciler.quota.planner.effects import PlanEffects, blocked_limits, fallbacks, own_limits
from reconciler.quota.planner.guards import check_with_budgets
from reconciler.quota.planner.impact import assess
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.temporary_limits import below_overrides
from reconciler.quota.policy import Policy
from reconciler.quota.results.report import Outcome, Preview
from reconciler.quota.rule_warnings import warnings as advise
from reconciler.quota.state import QuotaState
from reconciler.reconcile import ownership_records
from reconciler.reconcile.approval import written_differences
from reconciler.reconcile.observation import (
    Observation,
    logins_of,
    observe,
    override_changes,
    rules_for,
    unsettled_results,
)
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.ownership_records import refused_overrides
from reconciler.reconcile.run_records import (
    close_settled,
    intent_entries,
    interruption,
    lost_outcome,
    record,
)
from reconciler.reconcile.sender import PlanSender
from reconciler.reconcile.validation import validate
from reconciler.reconcile.verification import judge, observe_again
from reconciler.render.impact_rows import warning_sentences
from reconciler.render.units import instant

FRESH_SECONDS = 10.0
"""A plan older than this (for example after a wait at the prompt) is compared with the cluster again."""


class PreparedPlan(Struct, frozen=True, kw_only=True):
    """A plan that is ready for review and can be applied in the same run."""

    preview: Preview  # the plan with its checks, impact and warnings
    observation: Observation  # the observation that it was computed from
    desired: DesiredState  # the documents that it was computed from
    override_changes: tuple[RecordChange, ...] = ()  # overrides that begin or end with it

    @property
    def plan(self) -> Plan:
        """The plan without its checks."""
        return self.preview.plan


async def prepare(
    ports: ReconcilePorts, options: ReconcileOptions, desired: DesiredState
) -> PreparedPlan:
    """Observe, plan, check guards, validate. Writes nothing, neither to the cluster nor to the records.

    :func:`preview` runs in a thread while the broker validates, so its arguments must be immutable.

    Raises:
        WrongCluster: Another cluster answered.
        InventoryError: The records cannot be read, or another process is writing them.
        ClientError: The cluster cannot be described.
    """
    observation = await observe(ports, options)
    plan, changes = _compare(observation, desired, options)
    prepared, verdict = await asyncio.gather(
        asyncio.to_thread(
            preview,
            observation,
            desired,
            options,
            plan=plan,
            override_changes=changes,
        ),
        validate(ports, options, observation, plan.changes),
    )
    return replace(prepared, preview=replace(prepared.preview, verdict=verdict))


def preview(
    observation: Observation,
    desired: DesiredState,
    options: ReconcileOptions,
    *,
    plan: Plan | None = None,
    override_changes: tuple[RecordChange, ...] = (),
) -> PreparedPlan:
    """Compute the prepared plan, not yet validated, without I/O: for example from a snapshot instead of a cluster."""
    if plan is None:
        plan, override_changes = _compare(observation, desired, options)
    rules = rules_for(options, observation)
    owned = observation.settlement.owned.with_changes(override_changes)
    live = below_overrides(observation.live, owned)
    plan_effects = PlanEffects(observation.live, plan.changes)
    logins = logins_of(observation, options)
    budgets, violations = check_with_budgets(
        plan,
        options.guards,
        observation.live,
        desired=desired,
        owned=owned,
        logins=logins,
        plan_effects=plan_effects,
    )
    return PreparedPlan(
        preview=Preview(
            plan=plan,
            fallbacks=fallbacks(plan.reviewed, live),
            violations=violations,
            budgets=budgets,
            impact=assess(
                plan,
                observation.live,
                known_principals=observation.principals | logins,
                plan_effects=plan_effects,
            )
            if options.assess
            else None,
            warnings=_warnings(plan, options, observation, budgets),
            advice=advise(desired, observation.live, options.warnings) if options.advise else (),
            policy=rules.in_force,
            drift_mode=rules.drift,
            created_at=observation.at,
            snapshot_at=observation.snapshot_at,
            origin=options.origin,
        ),
        observation=observation,
        desired=desired,
        override_changes=override_changes,
    )


async def apply(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    prepared: PreparedPlan,
    *,
    withheld: Iterable[QuotaChange] = (),
    before_sending: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Send, verify, record; return the outcome of each change. A rejected entity does not stop independent ones.

    Args:
        withheld: Changes that were withheld from the plan, which may have the end of an override in place of one; changes
            that depend on them are held.
        before_sending: Called with the outcome to save in case the run is killed: each change that is about to be sent
            is unknown.

    Raises:
        PlanRefused: A guard refuses the plan; nothing was sent.
        ManifestErrors: Two documents claim one pair; nothing was sent.
        StalePlan: The cluster (checked after :data:`FRESH_SECONDS`) or an override changed since; nothing was written.
        Interrupted: A stop was requested; contains the outcome.
        KquotaError: Nothing could be sent, or intents or outcome could not be written before.
    """
    await _check_guards(ports, options, prepared)
    prepared = await _check_current(ports, options, prepared)
    started = ports.clock.now()
    plan, observation = prepared.plan, prepared.observation
    record_changes = bookkeeping(prepared, options)
    waiting = observation.unsettled(started)
    # A change that waits for an earlier write of another value is not sent: the intent of that write stays.
    sendable = [
        change
        for change in plan.changes
        if (pair := change.pair) not in waiting or waiting[pair].value == change.after
    ]
    intents = ownership_records.intents(sendable, until=started + SENDING_SECONDS)
    close_settled(ports, observation, options, record_changes)
    await ports.inventory.write(plan.cluster_id, (*record_changes, *intents))
    sender = PlanSender(
        ports,
        plan.changes,
        live=observation.live,
        obstacles=unsettled_results(prepared.plan, observation, started),
        withheld=withheld,
        pace=options.pace,
    )
    intended = frozenset(change.pair for change in sendable)
    begun, owned = prepared.override_changes, observation.settlement.owned
    changes = ownership_records.changes_with_base(plan.changes, begun, owned)
    lost = lost_outcome(
        prepared.preview, changes, intended, options, at=started, records=len(record_changes)
    )
    entries = {} if ports.audit is None else intent_entries(lost, intended)
    try:
        if ports.audit is not None:
            ports.audit.append(tuple(entries.values()))
        before_sending(lost)
    except KquotaError as error:
        sender.failure = error
    await sender.run()
    visibility, live, failure = await observe_again(ports, sender)
    outcome = replace(
        lost,
        pairs=judge(changes, sender.results, live=live, visibility=visibility),
        visibility=visibility,
        adopted=len(plan.adopted) if record_changes else 0,
        interrupted=sender.interrupted,
        failure=str(sender.failure) if sender.failure is not None else failure,
        ended_at=ports.clock.now(),
    )
    was_sent = sender.was_sent or sender.failure is None
    refused = refused_overrides(outcome, begun, owned, was_sent=was_sent)
    outcome = await record(ports, outcome, waiting, entries, refused)
    if outcome.interrupted:
        raise interruption(outcome)
    if sender.failure is not None and not sender.was_sent:
        raise sender.failure
    return outcome


# ---- steps of the workflow --------------------------------------------------------------------


def _below(observation: Observation, changes: Iterable[RecordChange]) -> QuotaState:
    """Return the live state below overrides, also those that begin now."""
    owned = observation.settlement.owned.with_changes(changes)
    return below_overrides(observation.live, owned)


def _compare(
    observation: Observation, desired: DesiredState, options: ReconcileOptions
) -> tuple[Plan, tuple[RecordChange, ...]]:
    """Return the plan, limited to the requested pairs, and the override changes that it assumes."""
    changes, owned = override_changes(options, observation, desired), observation.owned
    if changes:
        owned = owned.with_changes(changes)
    plan = compare(
        desired=desired,
        owned=owned,
        live=observation.live,
        rules=rules_for(options, observation),
        now=observation.at,
    )
    # Without overrides that begin or end, the plan itself has the settled intents.
    settled = 0 if changes else len(observation.settlement.changes)
    return options.remainder.added_to(_limit_to_requested(plan, options, settled)), changes


def _limit_to_requested(plan: Plan, options: ReconcileOptions, settled: int) -> Plan:
    """Limit the plan to the requested pairs. Settled intents are recorded for every pair.

    Args:
        settled: The number of record changes of settled intents. They come first; a later one may equal one.
    """
    only = options.only
    if only is None:
        return plan
    return replace(
        plan,
        changes=tuple(change for change in plan.changes if only(change.entity, change.key)),
        pending=tuple(change for change in plan.pending if only(change.entity, change.key)),
        bookkeeping=(
            *plan.bookkeeping[:settled],
            *(
                record_change
                for record_change in plan.bookkeeping[settled:]
                if not isinstance(record_change, ProjectNamed) and only(*pair_of(record_change))
            ),
        ),
    )


def _warnings(
    plan: Plan,
    options: ReconcileOptions,
    observation: Observation,
    budgets: Iterable[BudgetUse],
) -> tuple[str, ...]:
    warnings: list[str] = []
    if not plan.removals_known and options.rules.may_record:
        warnings.append(
            "no ownership records are used: nothing is removed, and no limit becomes managed"
            if not options.rules.removals_known
            else f"nothing was applied to {f'cluster {plan.cluster_id}' if plan.cluster_id else 'this cluster'} before, so"
            " nothing is removed; the first apply records its limits"
        )
        if plan.cluster_id and options.origin.cluster and not options.expected_cluster_id:
            warnings.append(
                f"expectedClusterId of {options.origin.cluster} is not set: check that cluster {plan.cluster_id} is the one that is meant, and set it"
            )
    if not plan.complete:
        warnings.append("not every document was read, so limits that no document declares stay")
    warnings.extend(blocked_limits(plan))
    if (
        options.rules.policy is Policy.SYNC
        and rules_for(options, observation).in_force is not Policy.SYNC
    ):
        warnings.append(
            f"policy Sync is not confirmed for cluster {observation.cluster_id}, so Upsert is in force;"
            " set spec.confirmSync or pass --confirm-sync with this id to confirm"
        )
    if options.own_principal is not None:
        warnings.extend(own_limits(observation.live, plan.changes, options.own_principal))
    warnings += *warning_sentences(observation.live, plan.changes), *budget_warnings(budgets)
    if observation.owned.latest_end > observation.at:
        warnings.append(
            "the clock is behind the records: documents with an end (spec.until) before"
            f" {instant(observation.owned.latest_end)} declare nothing any more"
        )
    waiting = {pair[0] for pair in observation.unsettled(observation.at)}
    if waiting:
        warnings.append(
            f"an earlier write to {entity_text(min(waiting, key=str))}"
            + (f" and {len(waiting) - 1} more" if len(waiting) > 1 else "")
            + " may still take effect; what depends on it waits until then"
        )
    return tuple(warnings)


async def _check_guards(
    ports: ReconcilePorts, options: ReconcileOptions, prepared: PreparedPlan
) -> None:
    """Raise an error if conflicts or guards refuse the plan; settled intents are recorded nevertheless."""
    try:
        _refuse_violations(prepared.preview)
    except (ManifestErrors, PlanRefused):
        settled = prepared.observation.settlement.changes
        if settled and rules_for(options, prepared.observation).may_record:
            close_settled(ports, prepared.observation, options, settled)
            await ports.inventory.write(prepared.plan.cluster_id, settled)
        raise


def _refuse_violations(preview_result: Preview) -> None:
    if preview_result.plan.conflicts:
        raise ManifestErrors(conflict_problems(preview_result.plan.conflicts))
    if preview_result.violations:
        raise PlanRefused(
            f"guards refuse this plan: {len(preview_result.violations)} violation"
            + ("s" if len(preview_result.violations) > 1 else ""),
            violations=[
                (f"{entity_text(violation.entity)}: " if violation.entity is not None else "")
                + f"{violation.message} (allowed by {violation.allow_with})"
                for violation in preview_result.violations
            ],
            hint="nothing was written",
        )


async def _check_current(
    ports: ReconcilePorts, options: ReconcileOptions, prepared: PreparedPlan
) -> PreparedPlan:
    """Compare a plan again that is older than :data:`FRESH_SECONDS`, or older than the end of an override.

    What it writes must have the same effect; what has become due since is written by the next run. A git ref has no
    lock: record changes of the plan would replace those of another run.

    Returns:
        The plan with the latest observation.

    Raises:
        StalePlan: An operation, a limit that a removal relies on, or the records have changed.
    """
    before, now = prepared.observation, ports.clock.now()
    has_ended = any(before.at < each.until <= now for each in before.owned.overrides.values())
    if before.age(ports.clock) <= FRESH_SECONDS and not has_ended:
        return prepared
    after = await observe(ports, replace(options, expected_cluster_id=prepared.plan.cluster_id))
    plan, override_changes = _compare(after, prepared.desired, options)
    live = _below(before, prepared.override_changes), _below(after, override_changes)
    changed = written_differences(prepared.plan, plan, live)
    if before.owned != after.owned:
        changed.append("another run wrote ownership records")
    if changed:
        raise StalePlan(
            "the cluster, its records or an override changed after the plan was computed",
            differences=changed,
            hint="plan again",
        )
    return replace(prepared, observation=after)


def bookkeeping(prepared: PreparedPlan, options: ReconcileOptions) -> tuple[RecordChange, ...]:
    """Return record changes other than intents and results: adopted, converged, gone, overrides, drift times; none without an inventory."""
    if not (options.rules.removals_known and rules_for(options, prepared.observation).may_record):
        return ()
    only = options.only
    times = (
        time
        for time in ownership_records.drift_times(prepared.plan, prepared.observation.owned)
        if only is None or only(time.entity, time.key)
    )
    return (*prepared.override_changes, *prepared.plan.bookkeeping, *times)
