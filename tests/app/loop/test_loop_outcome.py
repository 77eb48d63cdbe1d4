"""Tests of when a reconciliation is retried soon."""

import pytest

from reconciler.app.loop import LoopOutcome
from reconciler.app.loop.reconcile_runner import loop_outcome_of
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
    return loop_outcome_of(Reconciliation(cluster="prod", outcome=new_outcome, withheld=withheld))


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
def test_an_error_decides_whether_a_reconciliation_is_retried(
    error: KquotaError, turn: LoopOutcome
):
    assert loop_outcome_of(Reconciliation(cluster="prod", error=error)) == turn


def test_a_successful_reconciliation_waits_for_the_next_trigger():
    assert loop_outcome_of(Reconciliation(cluster="prod")) == LoopOutcome()
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
def test_a_result_that_may_change_soon_is_retried(result, visibility: PairVisibility, note: str):
    assert ended(pair(Applied()), pair(result, visibility)) == LoopOutcome(retry=True, note=note)


def test_a_rejected_operation_and_the_operations_held_by_it_wait_for_the_next_trigger():
    assert ended(pair(REFUSED), pair(HELD)) == LoopOutcome()


def test_a_change_that_a_guard_withholds_waits_for_the_next_trigger():
    assert ended(pair(HELD), withheld=(WITHHELD,)) == LoopOutcome()


def test_a_value_that_another_writer_changed_is_drift_of_the_next_observation():
    assert ended(pair(Applied(), PairVisibility.CHANGED)) == LoopOutcome()


def test_records_that_could_not_be_written_are_retried():
    assert ended(pair(Applied()), recorded=False, failure="disk full") == LoopOutcome(
        retry=True, note="disk full"
    )
    assert ended(pair(Applied()), recorded=False).note == "the records could not be written"
