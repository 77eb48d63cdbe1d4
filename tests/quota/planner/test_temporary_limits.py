"""Guards judge what is declared anew under an override against the value from before; a refused end restores that value."""

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    OverrideEnded,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordDropped,
)
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import Guard, Guards, check
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.temporary_limits import below_overrides, without_refused
from reconciler.quota.policy import Cause, Rules
from reconciler.quota.state import QuotaState, limits_of

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
CLAIM = Declaration(document="t/a", entity=ALICE, limits=limits_of({RATE: 1.0}))
ENDED, DROPPED = OverrideEnded(entity=ALICE, key=RATE), RecordDropped(entity=ALICE, key=RATE)
VALUES = st.none() | st.sampled_from([1.0, 2.0, 7.0])


def state(value: float | None) -> QuotaState:
    return QuotaState().with_values([(ALICE, RATE, value)])


def ended(*, before: float | None, applied: float | None = 7.0, **more: object) -> Override:
    return Override(
        entity=ALICE,
        key=RATE,
        value=7.0,
        until=1.0,
        author="me",
        reason="incident",
        before=before,
        applied=applied,
        **more,
    )


def change(
    cause: Cause, after: float | None, *, before: float | None = 7.0, is_declared: bool = True
) -> QuotaChange:
    return QuotaChange(
        entity=ALICE,
        key=RATE,
        before=before,
        after=after,
        cause=cause,
        claim=CLAIM if is_declared else None,
        recorded=Owner(document="t/a"),
    )


def owned_with(override: Override, *intents: IntentStarted) -> OwnershipRecords:
    return OwnershipRecords(cluster_id="c").with_changes([OverrideSet(override=override), *intents])


def test_a_document_with_an_end_is_judged_from_the_value_before_it_and_a_refused_one_never_began():
    """Guards judge its step alone; what another document declares anew at once is judged apart."""
    raised = replace(CLAIM, document="t/raise", limits=limits_of({RATE: 50e6}), until=9.0)
    lasting = replace(CLAIM, limits=limits_of({RATE: 2e6}))
    owned, live = OwnershipRecords(cluster_id="c"), state(1e6)
    plan = compare(desired=merge([raised, lasting]), owned=owned, live=live, rules=Rules())
    (begins,), (pending,) = plan.changes, plan.pending
    violations = check(plan, Guards(), below_overrides(live, owned))
    assert [violation.guard for violation in violations] == [Guard.MAX_CHANGE_FACTOR]
    assert "50000000" in violations[0].message
    remainder = without_refused(plan, [begins], owned, now=0.0)
    assert (remainder.changes, remainder.pending, remainder.bookkeeping) == ((), (pending,), ())
    unchanged = without_refused(plan, [pending], owned, now=0.0)
    assert (unchanged.changes, unchanged.pending, len(unchanged.bookkeeping)) == ((begins,), (), 1)


@given(declared=st.sampled_from([1e6, 2e6, 30e6, 100e6]), before=st.sampled_from([None, 1e6, 90e6]))
def test_a_declaration_under_an_override_is_judged_as_without_it(declared, before):
    override = replace(ended(before=before, applied=20e6), value=20e6, until=9.0)
    desired = merge([replace(CLAIM, limits=limits_of({RATE: declared}))])
    violations = []
    for owned, live in (
        (owned_with(override), state(20e6)),
        (OwnershipRecords(cluster_id="c"), state(before)),
    ):
        plan = compare(desired=desired, owned=owned, live=live, rules=Rules())
        refused = check(plan, Guards(), below_overrides(live, owned))
        violations.append([(item.guard, item.message) for item in refused])
    assert violations[0] == violations[1]
    assert bool(violations[0]) == (before is not None and not 1 / 30 <= declared / before <= 30)
    assert {guard for guard, _ in violations[0]} <= {Guard.MAX_CHANGE_FACTOR}


@given(
    before=VALUES,
    live=st.sampled_from([7.0, 3.0, 9.0]),
    facts=st.sets(st.sampled_from(["unsettled", "over"])),
)
@example(2.0, 7.0, {"over"})
@example(2.0, 3.0, {"over"})
@example(2.0, 9.0, {"over"})
@example(7.0, 7.0, {"over", "unsettled"})
@example(7.0, 7.0, set())
def test_no_refused_change_keeps_an_override_that_has_ended(before, live, facts):
    """It ends with the value from before, or without a write if another writer changed its own or it replaced none."""
    override = ended(before=before, applied=3.0, declared=2.0)
    end, passed = change(Cause.ENDED, 1.0, before=live), change(Cause.SPEC, 5.0)
    passed = replace(passed, entity=entity(user="bob"))
    refused = change(Cause.SPEC, 1.0, before=before)
    intent = IntentStarted(
        entity=ALICE, key=RATE, intent=Intent(value=3.0, owner=Owner(document="t/a"))
    )
    owned = owned_with(override, *([intent] if "unsettled" in facts else []))
    plan = Plan(cluster_id="c", changes=(end, passed), pending=(refused,), bookkeeping=(DROPPED,))
    remaining = without_refused(plan, {refused}, owned, now=1.0 if "over" in facts else 0.5)
    (*ends, last), record_changes = remaining.changes, remaining.bookkeeping
    assert (last, record_changes[0], remaining.pending) == (passed, DROPPED, ())
    if live not in {9.0, before}:
        (restored,) = ends
        assert (restored.after, restored.cause, restored.claim) == (before, Cause.ENDED, None)
        assert restored.owner == restored.recorded
        assert record_changes[1:] == ()
    else:
        assert ends == []
        is_over = "over" in facts and "unsettled" not in facts
        assert record_changes[1:] == ((ENDED,) if is_over else ())


def test_a_refused_declaration_under_an_override_in_force_leaves_the_override():
    begins = change(Cause.OVERRIDE, 7.0, before=2.0)
    refused = change(Cause.SPEC, 1.0, before=2.0)
    plan = Plan(cluster_id="c", changes=(begins,), pending=(refused,))
    owned = owned_with(ended(before=2.0))
    remaining = without_refused(plan, {refused}, owned, now=0.5)
    assert (remaining.changes, remaining.pending) == ((begins,), ())
