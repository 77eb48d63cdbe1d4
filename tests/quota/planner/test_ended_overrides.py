"""Guards check the end of an override exactly if it writes another value than the override replaced; a refused end restores it."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Override, OverrideEnded, Owner, RecordDropped
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.ended_overrides import (
    NO_OVERRIDES,
    restoring,
    select_judged,
    without_ends,
)
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState, limits_of

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
LIVE = QuotaState(limits={ALICE: limits_of({RATE: 7.0})})
CLAIM = Declaration(document="t/a", entity=ALICE, limits=limits_of({RATE: 1.0}))
VALUES = st.none() | st.sampled_from([1.0, 2.0, 7.0])


def ended(
    *,
    before: float | None,
    declared: float | None,
    ends_with_document: bool = False,
    is_before_owned: bool = False,
) -> Override:
    return Override(
        entity=ALICE,
        key=RATE,
        value=7.0,
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


@given(VALUES, VALUES, VALUES, st.booleans(), st.booleans())
@example(declared=1.0, before=2.0, after=1.0, is_declared=True, ends_with_document=False)
@example(declared=None, before=2.0, after=2.0, is_declared=True, ends_with_document=False)
def test_an_end_is_judged_if_it_writes_another_value_than_the_override_replaced(
    declared, before, after, is_declared, ends_with_document
):
    """A declared value that was not live when the override began may be one that guards refused."""
    override = ended(before=before, declared=declared, ends_with_document=ends_with_document)
    end = change(Cause.OVERRIDE_EXPIRED, after, is_declared=is_declared)
    changes, state = select_judged([end], LIVE, {(ALICE, RATE): override})
    assert changes == ((end,) if is_declared and after != before else ())
    is_compared_as_live = not changes or ends_with_document
    assert state.value(ALICE, RATE) == (7.0 if is_compared_as_live else before)


@given(
    cause=st.sampled_from(Cause),
    before=VALUES,
    is_declared=st.booleans(),
    is_rollback=st.booleans(),
    is_owned=st.booleans(),
)
@example(
    cause=Cause.OVERRIDE_EXPIRED, before=2.0, is_declared=True, is_rollback=False, is_owned=True
)
@example(
    cause=Cause.OVERRIDE_EXPIRED, before=2.0, is_declared=True, is_rollback=False, is_owned=False
)
@example(
    cause=Cause.OVERRIDE_EXPIRED, before=2.0, is_declared=True, is_rollback=True, is_owned=True
)
@example(
    cause=Cause.OVERRIDE_EXPIRED, before=2.0, is_declared=False, is_rollback=False, is_owned=True
)
@example(
    cause=Cause.OVERRIDE_EXPIRED, before=7.0, is_declared=True, is_rollback=False, is_owned=False
)
@example(cause=Cause.PRUNE, before=None, is_declared=False, is_rollback=False, is_owned=False)
@example(cause=Cause.SPEC, before=2.0, is_declared=True, is_rollback=False, is_owned=True)
def test_a_refused_end_restores_the_value_that_the_override_replaced(
    cause, before, is_declared, is_rollback, is_owned
):
    override = ended(
        before=before, declared=2.0, ends_with_document=is_rollback, is_before_owned=is_owned
    )
    refused = change(cause, None if cause is Cause.PRUNE else 1.0, is_declared=is_declared)
    end = restoring(refused, {(ALICE, RATE): override})
    is_end = cause is Cause.PRUNE or (cause is Cause.OVERRIDE_EXPIRED and is_declared)
    if not is_end or is_rollback or before == 7.0:
        assert end is None
        return
    assert end is not None
    assert (end.after, end.cause, end.claim) == (before, Cause.OVERRIDE_EXPIRED, None)
    assert end.keeps_owner == is_owned
    assert restoring(end, {(ALICE, RATE): override}) is None
    assert select_judged([end], LIVE, {(ALICE, RATE): override}) == ((), LIVE)


def test_a_value_of_another_writer_is_no_end_of_an_override():
    override = replace(ended(before=2.0, declared=2.0), value=5.0)
    for overrides in ({(ALICE, RATE): override}, NO_OVERRIDES):
        assert restoring(change(Cause.PRUNE, None, is_declared=False), overrides) is None


def test_the_end_of_an_override_whose_change_is_refused_is_not_recorded():
    end = OverrideEnded(entity=ALICE, key=RATE)
    dropped = RecordDropped(entity=ALICE, key=RATE)
    assert without_ends([end, dropped], {(ALICE, RATE)}) == (dropped,)
    assert without_ends([end, dropped], {(ALICE, Key.CONSUMER_BYTE_RATE)}) == (end, dropped)


@given(st.sampled_from(Cause))
def test_without_a_record_ends_and_overrides_are_not_judged_and_all_else_is(cause):
    changes, state = select_judged([change(cause, 2.0)], LIVE, NO_OVERRIDES)
    assert bool(changes) == (cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
    assert state == LIVE
