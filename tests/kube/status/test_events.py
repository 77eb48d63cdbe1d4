"""Events: on transitions only, none for the first Ready, one for trouble of a cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConnectError
from reconciler.kube.status.events import MOST_BYTES, ResourceEvent, transitions
from reconciler.kube.status.reasons import Reason
from tests.kube.scenarios import (
    CREATED,
    DOCUMENT,
    DOCUMENTS,
    kube_world,
    meddle,
    ran,
)
from tests.kube.worlds import resource
from tests.reconcile.scenarios import BOB, RATE


def happened(world, name=DOCUMENT):
    events = [(event.kind, event.reason) for where, event in world.happened if where == name]
    world.happened.clear()
    return events


@pytest.mark.parametrize("reason", DOCUMENTS)
def test_a_new_document_with_an_error_posts_one_event_unless_its_cluster_has_the_error(reason):
    status = DOCUMENTS[reason]()["status"]
    row = reason
    reasons = [
        event.reason for event in transitions({}, status, on="Q") if event.reason != "DriftDetected"
    ]
    own = reason in {
        Reason.INVALID,
        Reason.SUSPENDED,
        Reason.GUARD_REFUSED,
        Reason.AUTHORIZATION_FAILED,
        # While the cluster has these reasons, no document posts an event; a single document may have them.
        Reason.RECORDS_UNREADABLE,
        Reason.KUBERNETES_REFUSED,
    }
    expected = [row.event] if row.event and ("C" not in row.on or own) else []
    assert reasons == expected
    assert list(transitions(status, status, on="Q")) == []


def test_uncorrected_drift_posts_events_when_it_begins_and_ends():
    world = kube_world()
    ran(world)
    meddle(world)
    ran(world)
    (event,) = [event for where, event in world.happened if where == DOCUMENT]
    assert event.note == "producer_byte_rate: 4096 was applied, 9999 is live"
    assert happened(world) == [("Warning", "DriftDetected")]
    ran(world, passes=3)
    assert happened(world) == []
    meddle(world, 4096.0)
    ran(world)
    assert happened(world) == [("Normal", "DriftOver")]


def test_an_unreachable_broker_posts_one_event_on_the_quota_cluster():
    world = kube_world(None, CREATED, resource("b", BOB, {RATE: 4096}))
    ran(world)

    def away(_):
        raise ConnectError("no broker answers")

    world.kafka.faults.before = away
    ran(world, passes=3)
    assert world.reason(DOCUMENT) == "BrokerUnavailable"
    assert [(where, event.reason) for where, event in world.happened] == [
        ("prod", "BrokerUnavailable")
    ]
    world.happened.clear()
    world.kafka.faults.before = lambda _: None
    ran(world)
    assert [(where, event.reason) for where, event in world.happened] == [("prod", "Reconciled")]


@given(st.text(min_size=1, max_size=3000))
def test_a_note_stays_within_the_limit_of_the_api_server(note):
    event = ResourceEvent(kind="Normal", reason="X", note=note)
    assert 0 < len(event.note.encode()) <= MOST_BYTES


def test_an_event_without_a_message_is_rejected():
    with pytest.raises(ValueError, match="needs a note"):
        ResourceEvent(kind="Normal", reason="X", note="")
