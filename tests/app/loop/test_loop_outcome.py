"""Whether a pass is tried again soon."""

import pytest

from reconciler.app.loop import LoopOutcome
from reconciler.app.loop.loop_outcome import turn_of
from reconciler.errors import (
    AuthenticationError,
    ConnectError,
    Interrupted,
    InventoryLocked,
    KquotaError,
)
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Result, Unknown
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)

CHANGE = QuotaChange(
    entity=entity(user="alice"),
    key=Key.PRODUCER_BYTE_RATE,
    before=None,
    after=1.0,
    cause=Cause.CREATE,
)
REFUSED = Rejected(code=44, name="POLICY_VIOLATION", message="no")
HELD = Held(waits_for=(CHANGE.entity,))
WITHHELD = WithheldChange(
    change=CHANGE, violations=(Violation(guard=Guard.MAX_REMOVALS, message="too many"),)
)


def pair(result: Result | None, visibility: PairVisibility = PairVisibility.VISIBLE) -> PairOutcome:
    return PairOutcome(change=CHANGE, result=result, visibility=visibility)


def ended(*pairs: PairOutcome, withheld: tuple[WithheldChange, ...] = (), **outcome) -> LoopOutcome:
    new_outcome = Outcome(cluster_id="c", digest="d", pairs=pairs, **outcome)
    return turn_of(Reconciliation(cluster="prod", outcome=new_outcome, withheld=withheld))


@pytest.mark.parametrize(
    ("error", "turn"),
    [
        (ConnectError("no broker answers"), LoopOutcome(retry=True, note="no broker answers")),
        (InventoryLocked("locked", hint="wait"), LoopOutcome(retry=True, note="locked")),
        (AuthenticationError("refused", hint="look"), LoopOutcome(note="refused; look")),
        (KquotaError("no"), LoopOutcome(note="no")),
        (Interrupted("interrupted"), LoopOutcome()),
    ],
)
def test_an_error_says_itself_whether_time_heals_it(error: KquotaError, turn: LoopOutcome):
    assert turn_of(Reconciliation(cluster="prod", error=error)) == turn


def test_what_is_done_or_was_nothing_to_do_waits_for_news():
    assert turn_of(Reconciliation(cluster="prod")) == LoopOutcome()
    assert ended(pair(Applied())) == LoopOutcome()


@pytest.mark.parametrize(
    ("result", "visibility", "note"),
    [
        (Unknown(reason="cut off"), PairVisibility.NOT_YET, "1 unknown or not sent"),
        (None, PairVisibility.UNCHECKED, "1 unknown or not sent"),
        (Applied(), PairVisibility.NOT_YET, "1 not yet visible on every broker"),
        (Applied(), PairVisibility.UNCHECKED, "1 not yet visible on every broker"),
        (HELD, PairVisibility.UNCHECKED, "1 held"),
    ],
)
def test_what_may_look_different_in_a_moment_is_tried_again(
    result, visibility: PairVisibility, note: str
):
    assert ended(pair(Applied()), pair(result, visibility)) == LoopOutcome(retry=True, note=note)


def test_what_the_broker_refused_waits_for_news_with_everything_that_is_held_because_of_it():
    assert ended(pair(REFUSED), pair(HELD)) == LoopOutcome()


def test_what_is_held_because_of_a_guard_waits_for_news():
    assert ended(pair(HELD), withheld=(WITHHELD,)) == LoopOutcome()


def test_a_value_that_somebody_changed_meanwhile_is_drift_for_the_next_look():
    assert ended(pair(Applied(), PairVisibility.CHANGED)) == LoopOutcome()


def test_records_that_could_not_be_written_are_tried_again():
    assert ended(pair(Applied()), recorded=False, failure="disk full") == LoopOutcome(
        retry=True, note="disk full"
    )
    assert ended(pair(Applied()), recorded=False).note == "the records could not be written"
