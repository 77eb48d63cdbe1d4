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
    expired_overrides,
)
from reconciler.quota.state import limits_of
from reconciler.reconcile import ownership_records
from reconciler.reconcile.observation import Observation, observe, rules_for
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.workflow import PreparedPlan, preview


def find_expired(
    observation: Observation, rules: Rules, documents: DesiredState | None = None
) -> tuple[ExpiredOverride, ...]:
    """Return the overrides that have ended and whose value is still live.

    Args:
        documents: What is declared now: after a rollback only this is another value. ``None`` = not known.
    """
    options = ReconcileOptions(
        rules=replace(rules, policy=Policy.OBSERVE), assess=False, advise=False
    )
    plan = preview_against_records(observation, options, documents).plan
    return expired_overrides(plan, observation.owned, now=observation.at)


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
    reconciliation = Reconciliation(cluster=cluster, started_at=ports.clock.now())
    rules = replace(options.rules, policy=Policy.OBSERVE)
    options = replace(options, rules=rules, assess=False)
    try:
        observation = await observe(ports, options)
        prepared = preview_against_records(observation, options, documents)
        reconciliation = replace(
            reconciliation,
            preview=prepared.preview,
            expired_overrides=expired_overrides(
                prepared.plan, observation.owned, now=observation.at
            ),
            live=observation.live,
            drift_since=observation.owned.drift_since,
        )
        if notes:
            await note_drift(ports, prepared)
    except KquotaError as error:
        reconciliation = replace(reconciliation, error=error)
    return replace(reconciliation, ended_at=ports.clock.now())


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
) -> PreparedPlan:
    """Return the plan of what is live and not as recorded: drift, temporary limits and their ends.

    Args:
        options: The options of the observation; their policy writes nothing.
        documents: What is declared now; ``None`` = not known, and what was applied last is taken for it.
    """
    if documents is None:
        options = replace(options, rules=replace(options.rules, complete=False))
        documents = as_applied(observation)
    prepared = preview(observation, documents, options)
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
