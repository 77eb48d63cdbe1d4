"""Guards check the end of an override exactly if it writes another value than the override replaced; a refused end restores it."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    Override,
    OverrideEnded,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordDropped,
)
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.ended_overrides import NO_OVERRIDES, select_judged, without_refused
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState, limits_of

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
LIVE = QuotaState(limits={ALICE: limits_of({RATE: 7.0})})
CLAIM = Declaration(document="t/a", entity=ALICE, limits=limits_of({RATE: 1.0}))
ENDED, DROPPED = OverrideEnded(entity=ALICE, key=RATE), RecordDropped(entity=ALICE, key=RATE)
VALUES = st.none() | st.sampled_from([1.0, 2.0, 7.0])


def ended(
    *,
    before: float | None,
    declared: float | None,
    ends_with_document: bool = False,
    is_before_owned: bool = False,
    value: float = 7.0,
) -> Override:
    return Override(
        entity=ALICE,
        key=RATE,
        value=value,
        until=1.0,
        author="me",
        reason="incident",
        before=before,
        declared=declared,
        ends_with_document=ends_with_document,
        before_owner=Owner(document="t/a") if is_before_owned else None,
    )


def change(cause: Cause, after: float | None, *, is_declared: bool = True) -> QuotaChange:
    return QuotaChange(
        entity=ALICE,
        key=RATE,
        before=7.0,
        after=after,
        cause=cause,
        claim=CLAIM if is_declared else None,
    )


@given(
    declared=VALUES,
    before=VALUES,
    after=VALUES,
    is_declared=st.booleans(),
    is_rollback=st.booleans(),
    value=st.sampled_from([7.0, 3.0]),
)
@example(declared=1.0, before=2.0, after=1.0, is_declared=True, is_rollback=False, value=7.0)
@example(declared=1.0, before=2.0, after=1.0, is_declared=True, is_rollback=True, value=7.0)
@example(declared=None, before=2.0, after=2.0, is_declared=True, is_rollback=False, value=7.0)
# The rollback of an override was never written, so that the value of the override is live.
@example(declared=1.0, before=2.0, after=1.0, is_declared=True, is_rollback=True, value=3.0)
def test_an_end_is_judged_if_it_writes_another_value_than_the_override_replaced(
    *, declared, before, after, is_declared, is_rollback, value
):
    """A declared value that was not live when the override began may be one that guards refused."""
    override = ended(before=before, declared=declared, ends_with_document=is_rollback, value=value)
    end = change(Cause.OVERRIDE_EXPIRED, after, is_declared=is_declared)
    changes, state = select_judged([end], LIVE, {(ALICE, RATE): override})
    assert changes == ((end,) if is_declared and after != before else ())
    is_compared_as_live = not changes or (is_rollback and value == 7.0)
    assert state.value(ALICE, RATE) == (7.0 if is_compared_as_live else before)


def owned_with(override: Override, *intents: IntentStarted) -> OwnershipRecords:
    return OwnershipRecords(cluster_id="c").with_changes([OverrideSet(override=override), *intents])


@given(
    cause=st.sampled_from(Cause),
    before=VALUES,
    applied=VALUES,
    facts=st.sets(st.sampled_from(["declared", "rollback", "owned", "unsettled", "over"])),
)
@example(Cause.OVERRIDE_EXPIRED, 2.0, 7.0, {"declared", "owned", "over"})
@example(Cause.OVERRIDE_EXPIRED, 2.0, 7.0, {"declared", "over"})
@example(Cause.OVERRIDE_EXPIRED, 2.0, 7.0, {"declared", "rollback", "owned", "over"})
@example(Cause.OVERRIDE_EXPIRED, 2.0, 7.0, {"declared", "rollback", "owned"})
@example(Cause.OVERRIDE_EXPIRED, 2.0, 1.0, {"declared", "owned", "over"})
@example(Cause.OVERRIDE_EXPIRED, 7.0, 7.0, {"declared", "owned", "over"})
@example(Cause.OVERRIDE_EXPIRED, 7.0, 7.0, {"declared", "owned", "unsettled", "over"})
@example(Cause.OVERRIDE_EXPIRED, 2.0, 7.0, {"owned", "over"})
@example(Cause.SPEC, 2.0, 7.0, {"declared", "owned", "over"})
def test_no_refused_change_keeps_an_override_that_has_ended(cause, before, applied, facts):
    """It ends with the value that it replaced, or without a write if its own value was not applied or replaced none."""
    override = ended(
        before=before,
        declared=2.0,
        ends_with_document="rollback" in facts,
        is_before_owned="owned" in facts,
    )
    refused = replace(change(cause, 1.0, is_declared="declared" in facts), applied=applied)
    intent = IntentStarted(
        entity=ALICE, key=RATE, intent=Intent(value=3.0, owner=Owner(document="t/a"))
    )
    owned = owned_with(override, *([intent] if "unsettled" in facts else []))
    passed = change(Cause.SPEC, 5.0)
    plan = Plan(cluster_id="c", changes=(refused, passed), bookkeeping=(DROPPED,))
    remaining_plan = without_refused(plan, {refused}, owned, now=1.0 if "over" in facts else 0.5)
    (*ends, last), record_changes = remaining_plan.changes, remaining_plan.bookkeeping
    assert (last, record_changes[0]) == (passed, DROPPED)
    if cause is not Cause.OVERRIDE_EXPIRED or "declared" not in facts:
        assert (ends, record_changes[1:]) == ([], ())
    elif applied == 7.0 != before and "rollback" not in facts:
        (end,) = ends
        assert (end.after, end.cause, end.claim) == (before, Cause.OVERRIDE_EXPIRED, None)
        assert (end.keeps_owner, end.owner) == ("owned" in facts, override.before_owner)
        assert record_changes[1:] == ()
        assert select_judged([end], LIVE, owned.overrides) == ((), LIVE)
    else:
        assert ends == []
        assert record_changes[1:] == (
            (ENDED,) if "over" in facts and "unsettled" not in facts else ()
        )


def test_an_override_that_removed_a_limit_restores_it_if_the_declared_value_is_refused():
    override = replace(ended(before=2.0, declared=2.0), value=None)
    refused = replace(change(Cause.OVERRIDE_EXPIRED, 1.0), before=None)
    plan = Plan(cluster_id="c", changes=(refused,))
    (end,) = without_refused(plan, {refused}, owned_with(override), now=1.0).changes
    assert (end.before, end.after) == (None, 2.0)


def test_a_refused_change_without_an_override_is_left_out():
    refused = change(Cause.PRUNE, None, is_declared=False)
    plan = Plan(cluster_id="c", changes=(refused,))
    owned = OwnershipRecords(cluster_id="c")
    assert without_refused(plan, {refused}, owned, now=1.0).changes == ()


@given(st.sampled_from(Cause))
def test_without_a_record_ends_and_overrides_are_not_judged_and_all_else_is(cause):
    changes, state = select_judged([change(cause, 2.0)], LIVE, NO_OVERRIDES)
    assert bool(changes) == (cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
    assert state == LIVE
