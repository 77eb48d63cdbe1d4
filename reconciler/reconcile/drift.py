"""Drift without documents: live values that differ from those applied last, and values of expired overrides."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.ownership import (
    NO_RECORD,
    Override,
    OverrideEnded,
    Owner,
    OwnershipRecords,
    Pair,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.plan import Finding, Plan
from reconciler.quota.planner.three_way_table import has_written
from reconciler.quota.policy import Cause, Policy, Rules
from reconciler.quota.results.report import (
    ExpiredOverride,
    Reconciliation,
    ValidationResult,
    expired_overrides,
)
from reconciler.quota.state import limits_of
from reconciler.reconcile import ownership_records
from reconciler.reconcile.observation import Observation, observe, rules_for
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.workflow import PreparedPlan, preview


async def drift(ports: ReconcilePorts, options: ReconcileOptions) -> tuple[Finding, ...]:
    """Return live values that differ from those applied last; reads no documents and writes nothing.

    Raises:
        WrongCluster: Another cluster answered.
        InventoryError: The records cannot be read.
        ClientError: The cluster cannot be described.
    """
    observation = await observe(ports, options)
    plan = _compare(observation, rules_for(options, observation))
    return tuple(finding for finding in plan.findings_for(Cause.DRIFT) if not finding.ignored)


def find_expired(observation: Observation, rules: Rules) -> tuple[ExpiredOverride, ...]:
    """Return the overrides that have ended and whose value is still live, whatever the documents declare."""
    return expired_overrides(_compare(observation, rules), observation.owned)


def _compare(observation: Observation, rules: Rules) -> Plan:
    observation = settle_replaced_overrides(observation)
    return compare(
        desired=as_applied(observation, rules),
        owned=observation.owned,
        live=observation.live,
        rules=replace(rules, policy=Policy.OBSERVE),
        now=observation.at,
    )


async def observe_drift(
    ports: ReconcilePorts,
    options: ReconcileOptions,
    documents: DesiredState | None,
    *,
    cluster: str,
    notes: bool,
) -> Reconciliation:
    """Observe drift as a reconciliation that writes nothing to the cluster; errors are part of the result.

    Args:
        options: The options of this observation; its policy is treated as ``Observe``.
        documents: What is declared now; ``None`` = not known.
        notes: Whether to record when drift was first seen.

    Returns:
        The reconciliation. The caller, which remembers earlier observations, fills in ``observations``.
    """
    started = ports.clock.now()
    prepared: PreparedPlan | None = None
    failure: KquotaError | None = None
    observe_options = replace(
        options, rules=replace(options.rules, policy=Policy.OBSERVE), assess=False
    )
    try:
        observation = await observe(ports, observe_options)
        prepared = preview_against_records(
            observation, observe_options, documents, verdict=ValidationResult(source="none")
        )
        if notes:
            await note_drift(ports, prepared)
    except KquotaError as error:
        failure = error
    return Reconciliation(
        cluster=cluster,
        preview=None if prepared is None else prepared.preview,
        expired_overrides=()
        if prepared is None
        else expired_overrides(prepared.plan, prepared.observation.owned),
        live=None if prepared is None else prepared.observation.live,
        drift_since={} if prepared is None else prepared.observation.owned.drift_since,
        error=failure,
        started_at=started,
        ended_at=ports.clock.now(),
    )


async def note_drift(ports: ReconcilePorts, prepared: PreparedPlan) -> None:
    """Record when drift was first seen, and where it ended; an observation writes nothing else."""
    observation = prepared.observation
    await ports.inventory.write(
        observation.cluster_id, ownership_records.drift_times(prepared.plan, observation.owned)
    )


def preview_against_records(
    observation: Observation,
    options: ReconcileOptions,
    documents: DesiredState | None = None,
    *,
    verdict: ValidationResult,
) -> PreparedPlan:
    """Return the plan with the records as the documents: differences from them are drift.

    Args:
        documents: What is declared now; ``None`` = not known.
    """
    observation = settle_replaced_overrides(observation)
    desired = as_applied(observation, options.rules, documents)
    return preview(observation, desired, options, verdict=verdict)


def as_applied(
    observation: Observation, rules: Rules, documents: DesiredState | None = None
) -> DesiredState:
    """Return documents that declare what was applied last; under an override, what was declared when it began.

    They declare only what a run may judge: owned limits in scope that a document declares and no suspended one owns, without
    ``documents`` all whose document was not seen to be deleted. What is live as declared now is declared so.
    """
    declarations: list[Declaration] = []
    owned = settle_replaced_overrides(observation).owned
    for subject, record in owned.records.items():
        if not rules.in_scope(subject):
            continue
        columns: list[tuple[Key, float, Owner]] = []
        for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True):
            pair = subject, key
            if value is None or owner is None:
                continue
            expected = _declared_value(value, owned.overrides.get(pair))
            if documents is None:
                is_judged = pair not in owned.orphaned
            else:
                is_judged = documents.decides(*pair, owner.document)
                if same_value(key, documents.value(*pair), observation.live.value(*pair)):
                    expected = documents.value(*pair)
            if is_judged and expected is not None:
                columns.append((key, expected, owner))
        for owner in dict.fromkeys(column_owner for _, _, column_owner in columns):
            values: Mapping[Key, float] = {k: v for k, v, o in columns if o == owner}
            declarations.append(
                Declaration(
                    document=owner.document,
                    entity=subject,
                    limits=limits_of(values),
                    deletion_policy=owner.deletion_policy,
                )
            )
    return merge(declarations)


def correctable_pairs(
    plan: Plan, documents: DesiredState, expired: Iterable[ExpiredOverride]
) -> frozenset[Pair]:
    """Return the pairs that a correction writes: drift from what is declared, and ends of overrides.

    A declaration that changed since it was applied is for an apply, also where the live value changed.

    Args:
        plan: A plan against the records.
    """
    drifted = (
        item.pair
        for item in plan.drift
        if same_value(item.key, documents.value(*item.pair), item.applied)
    )
    return frozenset((*drifted, *(override.pair for override in expired)))


def _declared_value(applied: float, override: Override | None) -> float | None:
    return applied if override is None else override.declared


def settle_replaced_overrides(observation: Observation) -> Observation:
    """Return the observation without overrides that have ended and whose value another writer replaced.

    What was declared when such an override began counts as applied last or, if nothing was, what a document owned then.
    Otherwise a correction of the drift would write the value of the override again, for good.
    """
    settled = observation.settlement.owned
    changes: list[RecordChange] = []
    for pair, override in settled.overrides.items():
        applied, live = settled.applied_value(pair), observation.live.value(*pair)
        is_over = observation.at >= override.until and pair not in settled.intents
        if not is_over or has_written(override, live, applied):
            continue
        changes.append(OverrideEnded(entity=override.entity, key=override.key))
        if has_written(override, applied, applied):
            changes.append(_record_before(override, settled))
    if not changes:
        return observation
    before = observation.owned
    # A change of a record clears its marks. This is the same drift, and of the same document.
    owned = replace(
        before.with_changes(changes), drift_since=before.drift_since, orphaned=before.orphaned
    )
    return replace(observation, owned=owned)


def _record_before(override: Override, owned: OwnershipRecords) -> RecordChange:
    """Return the record of a pair as if its override had never been applied."""
    record = owned.records.get(override.entity, NO_RECORD)
    value, owner = override.declared, dict(record.pairs()).get(override.key)
    if value is None and override.before_owner is not None:
        value, owner = override.before, override.before_owner
    return (
        RecordDropped(entity=override.entity, key=override.key)
        if value is None or owner is None
        else Recorded(entity=override.entity, key=override.key, value=value, owner=owner)
    )
