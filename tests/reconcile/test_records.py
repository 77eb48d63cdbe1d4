"""What goes on record after each answer and each look: one table."""

import pytest

from reconciler.quota.change import Change
from reconciler.quota.desired import Declaration
from reconciler.quota.outcome import Applied, Held, Rejected, Unknown
from reconciler.quota.owned import Dropped, IntentEnded, OverrideEnded, Owner, Recorded
from reconciler.quota.policy import Cause
from reconciler.quota.report import PairOutcome, Seen
from reconciler.quota.state import NO_LIMITS
from reconciler.reconcile import records
from tests.reconcile.worlds import ALICE, RATE

OWNER = Owner(document="a/b", since=1.0)
SET = Change(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC, owner=OWNER)
REMOVE = Change(entity=ALICE, key=RATE, before=1.0, after=None, cause=Cause.PRUNE, owner=OWNER)
CLAIM = Declaration(document="a/b", entity=ALICE, limits=NO_LIMITS)
RETURNED = Change(
    entity=ALICE,
    key=RATE,
    before=1.0,
    after=2.0,
    cause=Cause.OVERRIDE_EXPIRED,
    owner=OWNER,
    claim=CLAIM,
)
RESTORED = Change(
    entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.OVERRIDE_EXPIRED, owner=OWNER
)
MINE = Recorded(entity=ALICE, key=RATE, value=2.0, owner=OWNER)
DROPPED, ENDED = Dropped(entity=ALICE, key=RATE), IntentEnded(entity=ALICE, key=RATE)
OVER = OverrideEnded(entity=ALICE, key=RATE)
YES, LOST = Applied(), Unknown(why="lost")


@pytest.mark.parametrize(
    ("change", "result", "seen", "recorded"),
    [
        (SET, YES, Seen.VISIBLE, (MINE,)),
        (SET, YES, Seen.CHANGED, (MINE,)),
        (SET, YES, Seen.NOT_YET, ()),
        (SET, YES, Seen.UNCHECKED, ()),
        (SET, LOST, Seen.VISIBLE, (MINE,)),
        (SET, LOST, Seen.NOT_YET, ()),
        (SET, LOST, Seen.CHANGED, ()),
        (SET, Rejected(code=1, name="X", message=""), Seen.UNCHECKED, (ENDED,)),
        (SET, Held(waits_for=()), Seen.UNCHECKED, (ENDED,)),
        (SET, None, Seen.UNCHECKED, (ENDED,)),
        (REMOVE, YES, Seen.VISIBLE, (DROPPED,)),
        (REMOVE, YES, Seen.NOT_YET, ()),
        (RETURNED, YES, Seen.VISIBLE, (MINE, OVER)),
        (RETURNED, YES, Seen.NOT_YET, ()),
        (RESTORED, YES, Seen.VISIBLE, (DROPPED, OVER)),
    ],
)
def test_only_what_is_certain_goes_on_record(change, result, seen, recorded):
    assert (
        records.results([PairOutcome(change=change, result=result, seen=seen)], now=9.0) == recorded
    )


def test_an_intent_says_what_for_whom_and_when():
    (one,) = records.intents([SET], now=9.0)
    assert (one.entity, one.key) == (ALICE, RATE)
    assert (one.intent.value, one.intent.owner, one.intent.at) == (2.0, OWNER, 9.0)
