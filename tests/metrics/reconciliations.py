"""Reconciliations for tests, with one argument for each field."""

from reconciler.errors import KquotaError
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetUse
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Action, Cause, DriftMode, Policy
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    Preview,
    Reconciliation,
    ValidationResult,
    WithheldChange,
)
from reconciler.quota.state import Applied, Held, Rejected, Result, Unknown

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE = Key.PRODUCER_BYTE_RATE
NOW = 1_700_000_000.0
REJECTED = Rejected(code=42, name="INVALID_REQUEST", message="no")
HELD = Held(waits_for=(ALICE,))
UNKNOWN = Unknown(reason="no answer")
APPLIED = Applied()


def change(
    cause: Cause = Cause.CREATE, *, after: float | None = 2.0, before: float | None = None
) -> QuotaChange:
    return QuotaChange(entity=ALICE, key=RATE, before=before, after=after, cause=cause)


def finding(cause: Cause, action: Action = Action.REPORT, *, ignored: bool = False) -> Finding:
    return Finding(
        entity=BOB,
        key=RATE,
        desired=1.0,
        applied=1.0,
        live=2.0,
        cause=cause,
        action=action,
        ignored=ignored,
    )


BUDGET_USE = BudgetUse(
    budget=Budget(name="broker", key=RATE, amount=100.0, overcommit=1.5),
    before=50.0,
    after=120.0,
    basis=BudgetMeasure.PROMISED,
)


def preview(*changes: QuotaChange, findings: tuple[Finding, ...] = (), **plan) -> Preview:
    return Preview(
        budgets=(BUDGET_USE,),
        plan=Plan(cluster_id="c", changes=changes, findings=findings, **plan),
        verdict=ValidationResult(source="none"),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=NOW,
    )


def outcome(
    *results: tuple[QuotaChange, Result | None],
    visibility: PairVisibility = PairVisibility.VISIBLE,
    **more,
) -> Outcome:
    pairs = tuple(
        PairOutcome(change=change, result=result, visibility=visibility)
        for change, result in results
    )
    return Outcome(cluster_id="c", digest="sha256:0", pairs=pairs, **more)


def withheld(change: QuotaChange, *guards: Guard) -> WithheldChange:
    violations = tuple(Violation(guard=guard, message="no") for guard in guards)
    return WithheldChange(change=change, violations=violations)


def sighting(
    *, confirmed: bool = True, corrections_stopped: bool = False, user: str = "alice"
) -> DriftObservation:
    return DriftObservation(
        entity=entity(user=user),
        key=RATE,
        expected=1.0,
        live=2.0,
        since=NOW,
        confirmed=confirmed,
        corrections_stopped=corrections_stopped,
    )


def passed(error: KquotaError | None = None, *, cluster: str = "prod", **more) -> Reconciliation:
    if error is None:
        more.setdefault("preview", preview())
    return Reconciliation(cluster=cluster, error=error, started_at=NOW, ended_at=NOW + 3.0, **more)
