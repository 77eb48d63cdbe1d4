"""Drift without documents: live values that differ from those applied last, and values of expired overrides."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.ownership import Override
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
    """Return live values that differ from those applied last, whatever the documents declare; writes nothing.

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
    return compare(
        desired=as_applied(observation),
        owned=observation.owned,
        live=observation.live,
        rules=replace(rules, policy=Policy.OBSERVE),
        now=observation.at,
    )


async def observe_drift(
    ports: ReconcilePorts, options: ReconcileOptions, *, cluster: str, notes: bool
) -> Reconciliation:
    """Observe drift as a reconciliation that writes nothing to the cluster; errors are part of the result.

    Args:
        options: The options of this observation; its policy is treated as ``Observe``.
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
        prepared = preview(
            observation,
            as_applied(observation),
            observe_options,
            verdict=ValidationResult(source="none"),
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


def as_applied(observation: Observation) -> DesiredState:
    """Return documents that declare what was applied last; under an override, what was declared when it began."""
    declarations: list[Declaration] = []
    overrides = observation.owned.overrides
    for subject, record in observation.owned.records.items():
        columns = [
            (key, declared, owner)
            for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
            if value is not None
            and owner is not None
            and (declared := _declared_value(value, overrides.get((subject, key)), observation))
            is not None
        ]
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


def _declared_value(
    applied: float, override: Override | None, observation: Observation
) -> float | None:
    """Return the declared value of a pair whose override applied another value.

    After the end of the override, a live value that is neither the declared one nor that of an override is drift from
    the value applied last.
    """
    if override is None:
        return applied
    live = observation.live.value(*override.pair)
    is_known = has_written(override, live, applied) or same_value(
        override.key, live, override.declared
    )
    return override.declared if observation.at < override.until or is_known else applied
