"""One audit line for each change that was sent or held, with the broker's own message."""

from reconciler.quota.ownership import IntentEnded, RecordDropped
from reconciler.reconcile.audit_entries import settled_pairs
from tests.reconcile.scenarios import ALICE, BOB, RATE


def test_an_intent_that_ended_is_not_called_applied():
    settled = [RecordDropped(entity=ALICE, key=RATE), IntentEnded(entity=BOB, key=RATE)]
    assert [outcome for _, outcome in settled_pairs(settled)] == ["APPLIED", "NOT LANDED"]
