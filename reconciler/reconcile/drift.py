"""Drift without documents: live values that differ from those applied last, and values of expired overrides."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from reconciler.errors import KquotaError
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.ownership import Owner, Pair
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.plan import TEMPORARY, Finding, Plan
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
    plan = _against_records(observation, options.rules)
    return tuple(finding for finding in plan.findings_for(Cause.DRIFT) if not finding.ignored)


def find_expired(
    observation: Observation, rules: Rules, documents: DesiredState | None = None
) -> tuple[ExpiredOverride, ...]:
    """Return the overrides that have ended and whose value is still live.

    Args:
        documents: What is declared now: after a rollback only this is another value. ``None`` = not known.
    """
    plan = _against_records(observation, rules, documents)
    return expired_overrides(plan, observation.owned, now=observation.at)


def _against_records(
    observation: Observation, rules: Rules, documents: DesiredState | None = None
) -> Plan:
    options = ReconcileOptions(
        rules=replace(rules, policy=Policy.OBSERVE), assess=False, advise=False
    )
    verdict = ValidationResult(source="none")
    return preview_against_records(observation, options, documents, verdict=verdict).plan


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
        else expired_overrides(
            prepared.plan, prepared.observation.owned, now=prepared.observation.at
        ),
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
    """Return the plan of what is live and not as recorded: drift, temporary limits and their ends.

    Args:
        options: The options of the observation; their policy writes nothing.
        documents: What is declared now; ``None`` = not known, and what was applied last is taken for it.
    """
    if documents is None:
        options = replace(options, rules=replace(options.rules, complete=False))
        documents = as_applied(observation)
    prepared = preview(observation, documents, options, verdict=verdict)
    findings = _drifted(prepared.plan.findings, observation, rules_for(options, observation))
    plan = replace(prepared.plan, pending=(), findings=tuple(findings))
    return replace(prepared, preview=replace(prepared.preview, plan=plan))


def _drifted(
    findings: Iterable[Finding], observation: Observation, rules: Rules
) -> Iterator[Finding]:
    """Yield the findings that are about live values; of a changed declaration the value that was applied last is expected."""
    since = observation.owned.drift_since
    for finding in findings:
        if finding.cause in TEMPORARY:
            yield finding
        elif finding.cause in {Cause.DRIFT, Cause.SPEC_OVER_DRIFT} and rules.in_scope(
            finding.entity
        ):
            yield replace(
                finding,
                cause=Cause.DRIFT,
                desired=finding.desired if finding.of_override else finding.applied,
                since=since.get(finding.pair, observation.at),
            )


def as_applied(observation: Observation) -> DesiredState:
    """Return documents that declare what was applied last; not orphans, and nothing under a temporary limit."""
    owned = observation.settlement.owned
    declarations: list[Declaration] = []
    for subject, record in owned.records.items():
        values: dict[Owner, dict[Key, float]] = {}
        for key, applied, owner in zip(COLUMNS, record.applied, record.owners, strict=True):
            is_expected = not _is_below(observation, (subject, key))
            if owner is not None and applied is not None and is_expected:
                values.setdefault(owner, {})[key] = applied
        declarations.extend(
            Declaration(
                document=owner.document,
                entity=subject,
                limits=limits_of(limits),
                deletion_policy=owner.deletion_policy,
            )
            for owner, limits in values.items()
        )
    return merge(declarations)


def _is_below(observation: Observation, pair: Pair) -> bool:
    """Whether a pair is an orphan, or its live value is that of a temporary limit."""
    owned = observation.settlement.owned
    override = owned.overrides.get(pair)
    return pair in owned.orphaned or (
        override is not None
        and (observation.at < override.until or override.has_written(observation.live.value(*pair)))
    )


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
        if item.of_override or same_value(item.key, documents.value(*item.pair), item.applied)
    )
    return frozenset((*drifted, *(override.pair for override in expired)))
