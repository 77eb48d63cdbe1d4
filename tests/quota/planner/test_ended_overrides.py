"""Guards check the end of an override exactly if it writes another value than the override replaced."""

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Override
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.ended_overrides import NO_OVERRIDES, judged
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState, limits_of

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
LIVE = QuotaState(limits={ALICE: limits_of({RATE: 7.0})})
CLAIM = Declaration(document="t/a", entity=ALICE, limits=limits_of({RATE: 1.0}))
VALUES = st.none() | st.sampled_from([1.0, 2.0, 7.0])


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
@example(declared=1.0, before=2.0, after=7.0, is_declared=True, ends_with_document=False)
@example(declared=None, before=2.0, after=2.0, is_declared=True, ends_with_document=False)
def test_an_end_is_judged_if_it_writes_a_new_declared_value(
    declared, before, after, is_declared, ends_with_document
):
    override = Override(
        entity=ALICE,
        key=RATE,
        value=7.0,
        until=1.0,
        author="me",
        reason="incident",
        before=before,
        declared=declared,
        ends_with_document=ends_with_document,
    )
    end = change(Cause.OVERRIDE_EXPIRED, after, is_declared=is_declared)
    changes, state = judged([end], LIVE, {(ALICE, RATE): override})
    replaced = before if declared is None else declared
    assert changes == ((end,) if is_declared and after != replaced else ())
    is_compared_as_live = not changes or ends_with_document
    assert state.value(ALICE, RATE) == (7.0 if is_compared_as_live else replaced)


@given(st.sampled_from(Cause))
def test_without_a_record_ends_and_overrides_are_not_judged_and_all_else_is(cause):
    changes, state = judged([change(cause, 2.0)], LIVE, NO_OVERRIDES)
    assert bool(changes) == (cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
    assert state == LIVE
