"""The ownership record after each response and each describe: one table."""

import pytest
from hypothesis import given
from msgspec.structs import replace

from reconciler.quota.ownership import (
    NOBODY,
    IntentEnded,
    OverrideEnded,
    OverrideWritten,
    Owner,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import PairOutcome, PairVisibility
from reconciler.quota.state import NO_LIMITS, Applied, Held, Rejected, Unknown
from reconciler.reconcile import ownership_records
from reconciler.reconcile.ownership_records import restore
from tests.quota.strategies import inventories, pairs
from tests.reconcile.scenarios import ALICE, RATE

OWNER = Owner(document="a/b", since=1.0)
SET = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC, owner=OWNER)
REMOVE = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=None, cause=Cause.PRUNE, owner=OWNER)
CLAIM = Declaration(document="a/b", entity=ALICE, limits=NO_LIMITS)
RETURNED = QuotaChange(
    entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.ENDED, owner=OWNER, claim=CLAIM
)
RESTORED = QuotaChange(
    entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.ENDED, owner=OWNER
)
MINE = Recorded(entity=ALICE, key=RATE, value=2.0, owner=OWNER)
DROPPED, ENDED = RecordDropped(entity=ALICE, key=RATE), IntentEnded(entity=ALICE, key=RATE)
OVER = OverrideEnded(entity=ALICE, key=RATE)
ABOVE = OverrideWritten(entity=ALICE, key=RATE, value=2.0)
BEGUN = replace(RESTORED, cause=Cause.OVERRIDE)
YES, LOST = Applied(), Unknown(reason="lost")
OPEN = "the intent with the time of the end"


@pytest.mark.parametrize(
    ("change", "result", "visibility", "recorded"),
    [
        (SET, YES, PairVisibility.VISIBLE, (MINE,)),
        (SET, YES, PairVisibility.CHANGED, (MINE,)),
        (SET, YES, PairVisibility.NOT_YET, OPEN),
        (SET, YES, PairVisibility.UNCHECKED, OPEN),
        (SET, LOST, PairVisibility.VISIBLE, (MINE,)),
        (SET, LOST, PairVisibility.NOT_YET, OPEN),
        (SET, LOST, PairVisibility.CHANGED, OPEN),
        (SET, Rejected(code=1, name="X", message=""), PairVisibility.UNCHECKED, (ENDED,)),
        (SET, Held(waits_for=()), PairVisibility.UNCHECKED, (ENDED,)),
        (SET, None, PairVisibility.UNCHECKED, (ENDED,)),
        (REMOVE, YES, PairVisibility.VISIBLE, (DROPPED,)),
        (REMOVE, YES, PairVisibility.NOT_YET, OPEN),
        (RETURNED, YES, PairVisibility.VISIBLE, (MINE, OVER)),
        (RETURNED, YES, PairVisibility.NOT_YET, OPEN),
        (RESTORED, YES, PairVisibility.VISIBLE, (ABOVE, OVER)),
        (BEGUN, YES, PairVisibility.VISIBLE, (ABOVE,)),
        (BEGUN, YES, PairVisibility.NOT_YET, OPEN),
    ],
)
def test_only_certain_results_are_recorded(change, result, visibility, recorded):
    pair = PairOutcome(change=change, result=result, visibility=visibility)
    expected = ownership_records.intents([change], until=9.0) if recorded is OPEN else recorded
    assert ownership_records.results([pair], until=9.0) == expected


def test_an_intent_contains_value_owner_and_time():
    (change,) = ownership_records.intents([SET], until=9.0)
    assert (change.entity, change.key) == (ALICE, RATE)
    assert (change.intent.value, change.intent.owner, change.intent.at) == (2.0, OWNER, 9.0)


@pytest.mark.parametrize(
    ("change", "owner"),
    [
        (RETURNED, OWNER),
        (RESTORED, NOBODY),
        (replace(RESTORED, after=None), NOBODY),
        (BEGUN, NOBODY),
        (replace(SET, of_override=True), NOBODY),
        (replace(SET, owner=None), NOBODY),
    ],
)
def test_the_intent_of_a_value_that_no_document_declares_has_no_document(change, owner):
    """A crash after sending would make a document own a value of another writer, and its deletion would remove it."""
    (started,) = ownership_records.intents([change], until=9.0)
    assert started.intent.owner == owner


@given(inventories(), inventories(), pairs)
def test_a_restored_record_is_as_it_was_whatever_came_between(before, now, pair):
    restored = now.with_changes(
        restore(
            pair,
            before.applied_value(pair),
            before.owner_of(pair),
            is_orphaned=pair in before.orphaned,
            intent=now.intents.get(pair),
        )
    )
    part = restored.part([pair[0]])
    assert (part.applied_value(pair), part.owner_of(pair)) == (
        before.applied_value(pair),
        before.owner_of(pair),
    )
    assert (pair in part.orphaned) == (
        pair in before.orphaned and before.owner_of(pair) is not None
    )
    assert (part.intents, part.overrides) == (
        now.part([pair[0]]).intents,
        now.part([pair[0]]).overrides,
    )
