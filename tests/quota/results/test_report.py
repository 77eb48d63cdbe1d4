"""The results for readers of a run: previews and outcomes as values."""

import pytest
from msgspec.structs import replace

from reconciler.errors import KquotaError
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideEnded, Owner, OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, DeclarationConflict
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
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.quota.state import NO_LIMITS, Applied, Held, Rejected, Unknown, Visibility

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
BOB = entity(user="bob")
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


def test_a_preview_is_applyable_if_it_has_changes_and_no_refusal():
    assert preview(CHANGE).applyable
    assert not preview().applyable
    assert not preview(CHANGE, conflict=True).applyable
    assert not preview(CHANGE, violation=True).applyable


def test_a_preview_is_quiet_if_it_has_no_change_no_refusal_and_no_warning():
    assert preview().is_quiet
    assert not preview(CHANGE).is_quiet
    assert not preview(conflict=True).is_quiet
    assert not preview(violation=True).is_quiet
    assert not preview(refused=True).is_quiet
    assert not replace(preview(), warnings=("the broker is throttled",)).is_quiet


def test_touched_documents_are_those_that_the_pull_request_changes_or_those_of_the_planned_changes():
    declaration = Declaration(document="payments/alice", entity=ALICE, limits=(1.0, *(None,) * 4))
    planned = preview(replace(CHANGE, claim=declaration), replace(CHANGE, entity=BOB))
    assert planned.touched_documents == {"payments/alice"}
    compared = replace(planned, changed_documents=frozenset({"payments/bob"}))
    assert compared.touched_documents == {"payments/bob"}


def test_an_accepted_warning_is_not_open():
    declaration = Declaration(document="payments/alice", entity=ALICE, limits=(1.0, *(None,) * 4))
    warning = RuleWarning(claim=declaration, kind=next(iter(WarningKind)), message="doubtful")
    accepted = replace(warning, accepted="agreed with the owner")
    assert replace(preview(), advice=(warning, accepted)).open_advice == (warning,)


def test_visible_everywhere_requires_one_broker_that_shows_it_and_none_that_lags():
    assert Visibility(visible=(1, 2), lagging=(), unreachable={3: "down"}).everywhere
    assert not Visibility(visible=(1,), lagging=(2,), unreachable={}).everywhere
    assert not Visibility(visible=(), lagging=(), unreachable={1: "down"}).everywhere


def test_the_digest_of_a_preview_is_that_of_what_is_reviewed():
    ended = replace(preview(CHANGE), plan=replace(preview(CHANGE).plan, changes=()))
    pending = replace(ended, plan=replace(ended.plan, pending=(CHANGE,)))
    assert preview(CHANGE).digest == pending.digest != ended.digest


def outcome(**more: object) -> Outcome:
    done = PairOutcome(change=CHANGE, result=Applied(), visibility=PairVisibility.VISIBLE)
    return Outcome(cluster_id="c", digest="d", **{"pairs": (done,), **more})


def test_an_outcome_is_complete_only_if_every_change_was_applied_is_visible_and_recorded():
    assert outcome().complete
    assert outcome(pairs=()).complete
    assert not outcome(recorded=False).complete
    assert not outcome(interrupted=True).complete
    assert not outcome(failure="lost").complete
    lost = PairOutcome(change=CHANGE, result=Unknown(reason="cut off"))
    assert not outcome(pairs=(lost,)).complete
    assert outcome(pairs=(lost,)).count("UNKNOWN") == 1
    assert outcome().count("UNKNOWN") == 0


def test_an_outcome_is_applied_if_the_cluster_acknowledged_every_change():
    applied, refused = (
        PairOutcome(change=CHANGE, result=result) for result in (Applied(), Held(waits_for=()))
    )
    assert outcome(pairs=(applied,)).is_applied
    assert not outcome(pairs=(applied, refused)).is_applied


def test_a_reconciliation_is_in_order_if_everything_was_compared_and_nothing_is_open():
    looked = Reconciliation(cluster="prod", preview=preview(CHANGE))
    assert looked.in_order
    assert replace(looked, outcome=Outcome(cluster_id="c", digest="d")).in_order
    for fields in (
        {"preview": None},
        {"error": KquotaError("no")},
        {"withheld": (WithheldChange(change=CHANGE, violations=(VIOLATION,)),)},
        {"outcome": Outcome(cluster_id="c", digest="d", failure="cut off")},
    ):
        assert not replace(looked, **fields).in_order


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


@pytest.mark.parametrize(
    ("claim", "visibility", "is_restored"),
    [
        (None, PairVisibility.VISIBLE, True),
        (None, PairVisibility.NOT_YET, False),
        (
            Declaration(document="t/a", entity=CHANGE.entity, limits=NO_LIMITS),
            PairVisibility.VISIBLE,
            False,
        ),
    ],
)
def test_a_reconciliation_says_whether_an_override_ended_and_left_its_record_in_charge(
    claim, visibility, is_restored
):
    end = replace(CHANGE, cause=Cause.ENDED, claim=claim)
    pair = PairOutcome(change=end, result=Applied(), visibility=visibility)
    looked = Reconciliation(cluster="prod", preview=preview(CHANGE))
    assert not looked.has_restored_owned
    assert replace(looked, outcome=outcome(pairs=(pair,))).has_restored_owned == is_restored
    ended = OverrideEnded(entity=CHANGE.entity, key=CHANGE.key)
    unwritten = replace(looked.preview, plan=replace(looked.preview.plan, bookkeeping=(ended,)))
    assert replace(looked, preview=unwritten).has_restored_owned


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
PLANNED = QuotaChange(entity=ALICE, key=RATE, before=50.0, after=5.0, cause=Cause.ENDED)


def plan(*, findings=(), changes=()) -> Plan:
    return Plan(cluster_id="id", findings=findings, changes=changes)


def test_a_reported_expired_override_has_the_declared_value_and_its_document():
    (override,) = expired_overrides(plan(findings=(REPORTED,)), OWNED, now=NOW)
    assert (override.override, override.expected, override.live) == (OVERRIDE, 5.0, 50.0)
    assert (override.document, override.pair) == ("team/one", (ALICE, RATE))


def test_a_planned_expired_override_counts_until_it_is_reverted():
    planned = plan(changes=(PLANNED, replace(PLANNED, cause=Cause.SPEC)))
    (override,) = expired_overrides(planned, OWNED, now=NOW)
    assert (override.expected, override.live) == (5.0, 50.0)
    assert expired_overrides(planned, OWNED, now=NOW, reverted={(ALICE, RATE)}) == ()


def test_ignored_overrides_and_other_causes_do_not_count():
    findings = (replace(REPORTED, ignored=True), replace(REPORTED, cause=Cause.DRIFT))
    assert expired_overrides(plan(findings=findings), OWNED, now=NOW) == ()


def test_a_rollback_that_ended_early_has_not_expired():
    planned = plan(findings=(REPORTED,), changes=(PLANNED,))
    assert expired_overrides(planned, OWNED, now=NOW - 1.0) == ()
