"""The results for readers of a run: previews and outcomes as values."""

import pytest
from msgspec.structs import replace

from reconciler.errors import KquotaError
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Unknown
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Owner, OwnershipRecords
from reconciler.quota.planner.desired_state import DeclarationConflict
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
    expired_overrides,
)

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
CHANGE = QuotaChange(entity=ALICE, key=RATE, before=None, after=1.0, cause=Cause.CREATE)
REFUSED = Rejected(code=42, name="INVALID_REQUEST", message="no")
CONFLICT = DeclarationConflict(entity=ALICE, key=RATE, claims=())
VIOLATION = Violation(guard=Guard.MAX_REMOVALS, message="too many")


def preview(
    *changes: QuotaChange, refused: bool = False, conflict: bool = False, violation: bool = False
) -> Preview:
    return Preview(
        plan=Plan(cluster_id="c", changes=changes, conflicts=(CONFLICT,) if conflict else ()),
        violations=(VIOLATION,) if violation else (),
        verdict=ValidationResult(source="broker", rejections={ALICE: REFUSED} if refused else {}),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=1.0,
    )


def outcome(**more: object) -> Outcome:
    done = PairOutcome(change=CHANGE, result=Applied(), visibility=PairVisibility.VISIBLE)
    return Outcome(cluster_id="c", digest="d", **{"pairs": (done,), **more})


NOT_PERMITTED = Rejected(code=31, name="CLUSTER_AUTHORIZATION_FAILED", message="")


@pytest.mark.parametrize(
    ("results", "withheld", "is_finished"),
    [
        ([], False, True),
        ([], True, True),
        ([REFUSED], False, True),
        ([REFUSED, Held(waits_for=())], False, True),
        ([Held(waits_for=())], True, True),
        ([Held(waits_for=())], False, False),
        ([NOT_PERMITTED], False, False),
        ([REFUSED, Unknown(reason="cut")], False, False),
        ([REFUSED, None], False, False),
        ([REFUSED, Applied()], False, False),
    ],
)
def test_what_a_guard_or_the_broker_refuses_leaves_a_reconciliation_finished(
    results, withheld, is_finished
):
    refused = (WithheldChange(change=CHANGE, violations=(VIOLATION,)),) if withheld else ()
    pairs = tuple(PairOutcome(change=CHANGE, result=result) for result in results)
    looked = Reconciliation(
        cluster="prod", preview=preview(CHANGE), outcome=outcome(pairs=pairs), withheld=refused
    )
    assert looked.is_finished is is_finished
    for fields in ({"preview": None}, {"error": KquotaError("no")}):
        assert not replace(looked, **fields).is_finished


ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
OVERRIDE = Override(
    entity=ALICE,
    key=RATE,
    value=50.0,
    until=100.0,
    author="eve",
    reason="INC-1",
    before=7.0,
    declared=5.0,
)
OWNED = OwnershipRecords(cluster_id="id", overrides={(ALICE, RATE): OVERRIDE})
NOW = OVERRIDE.until
REPORTED = Finding(
    entity=ALICE,
    key=RATE,
    desired=5.0,
    applied=50.0,
    live=50.0,
    cause=Cause.ENDED,
    action=Action.REPORT,
    owner=Owner(document="team/one"),
)


def plan(*, findings=(), changes=()) -> Plan:
    return Plan(cluster_id="id", findings=findings, changes=changes)


def test_ignored_overrides_and_other_causes_do_not_count():
    findings = (replace(REPORTED, ignored=True), replace(REPORTED, cause=Cause.DRIFT))
    assert expired_overrides(plan(findings=findings), OWNED, now=NOW) == ()
