"""Whether a pass is tried again soon."""

import pytest

from reconciler.errors import (
    AuthenticationError,
    ConnectError,
    Interrupted,
    InventoryLocked,
    KquotaError,
)
from reconciler.loop import Turn
from reconciler.loop.turns import turn_of
from reconciler.quota.change import Change
from reconciler.quota.entity import entity
from reconciler.quota.guards import Guard, Violation
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Result, Unknown
from reconciler.quota.policy import Cause
from reconciler.quota.report import Outcome, PairOutcome, Pass, Seen, Withheld

CHANGE = Change(
    entity=entity(user="alice"),
    key=Key.PRODUCER_BYTE_RATE,
    before=None,
    after=1.0,
    cause=Cause.CREATE,
)
REFUSED = Rejected(code=44, name="POLICY_VIOLATION", message="no")
HELD = Held(waits_for=(CHANGE.entity,))
WITHHELD = Withheld(
    change=CHANGE, violations=(Violation(guard=Guard.MAX_REMOVALS, message="too many"),)
)


def pair(result: Result | None, seen: Seen = Seen.VISIBLE) -> PairOutcome:
    return PairOutcome(change=CHANGE, result=result, seen=seen)


def ended(*pairs: PairOutcome, withheld: tuple[Withheld, ...] = (), **outcome) -> Turn:
    made = Outcome(cluster_id="c", digest="d", pairs=pairs, **outcome)
    return turn_of(Pass(cluster="prod", outcome=made, withheld=withheld))


@pytest.mark.parametrize(
    ("error", "turn"),
    [
        (ConnectError("no broker answers"), Turn(retry=True, note="no broker answers")),
        (InventoryLocked("locked", hint="wait"), Turn(retry=True, note="locked")),
        (AuthenticationError("refused", hint="look"), Turn(note="refused; look")),
        (KquotaError("no"), Turn(note="no")),
        (Interrupted("stopped as asked"), Turn()),
    ],
)
def test_an_error_says_itself_whether_time_heals_it(error: KquotaError, turn: Turn):
    assert turn_of(Pass(cluster="prod", error=error)) == turn


def test_what_is_done_or_was_nothing_to_do_waits_for_news():
    assert turn_of(Pass(cluster="prod")) == Turn()
    assert ended(pair(Applied())) == Turn()


@pytest.mark.parametrize(
    ("result", "seen", "note"),
    [
        (Unknown(why="cut off"), Seen.NOT_YET, "1 of unknown fate or not sent"),
        (None, Seen.UNCHECKED, "1 of unknown fate or not sent"),
        (Applied(), Seen.NOT_YET, "1 not yet visible on every broker"),
        (Applied(), Seen.UNCHECKED, "1 not yet visible on every broker"),
        (HELD, Seen.UNCHECKED, "1 held"),
    ],
)
def test_what_may_look_different_in_a_moment_is_tried_again(result, seen: Seen, note: str):
    assert ended(pair(Applied()), pair(result, seen)) == Turn(retry=True, note=note)


def test_what_the_broker_refused_waits_for_news_with_everything_that_is_held_because_of_it():
    assert ended(pair(REFUSED), pair(HELD)) == Turn()


def test_what_is_held_because_of_a_guard_waits_for_news():
    assert ended(pair(HELD), withheld=(WITHHELD,)) == Turn()


def test_a_value_that_somebody_changed_meanwhile_is_drift_for_the_next_look():
    assert ended(pair(Applied(), Seen.CHANGED)) == Turn()


def test_records_that_could_not_be_written_are_tried_again():
    assert ended(pair(Applied()), recorded=False, failure="disk full") == Turn(
        retry=True, note="disk full"
    )
    assert ended(pair(Applied()), recorded=False).note == "the records could not be written"
