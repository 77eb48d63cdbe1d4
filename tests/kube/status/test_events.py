"""Events: on transitions only, none for the first Ready, one for trouble of a cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConnectError
from reconciler.kube.status.events import MOST_BYTES, ResourceEvent, transitions
from reconciler.kube.status.reasons import Reason
from reconciler.quota.entity import entity
from tests.kube.scenarios import (
    CREATED,
    DOCUMENT,
    DOCUMENTS,
    ERRORS,
    kube_world,
    meddle,
    ran,
)
from tests.kube.worlds import KubeWorld, resource
from tests.reconcile.scenarios import ALICE, BOB, RATE


def happened(world, name=DOCUMENT):
    events = [(event.kind, event.reason) for where, event in world.happened if where == name]
    world.happened.clear()
    return events


def test_the_first_ready_posts_no_event():
    world = kube_world(None, CREATED, resource("b", BOB, {RATE: 4096}))
    world.run()
    assert world.happened == []


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


def test_drift_posts_an_event_when_it_begins_and_when_it_is_corrected():
    world = KubeWorld(driftDetection="Correct", confirm_after=2)
    world.put(CREATED)
    ran(world)
    meddle(world)
    ran(world)
    assert happened(world) == []
    ran(world)
    assert happened(world) == [("Normal", "DriftCorrected")]


def test_uncorrected_drift_posts_an_event_when_it_begins():
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
    assert happened(world) == []


def test_a_rejection_posts_one_event_and_one_when_it_ends():
    world = kube_world()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    ran(world, passes=3)
    assert happened(world) == [("Warning", "BrokerRejected")]
    world.kafka.faults.rejected.clear()
    ran(world)
    assert happened(world) == [("Normal", "Reconciled")]


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


def test_a_deleted_document_whose_limit_stays_posts_one_event_with_the_way_to_remove_it():
    world = kube_world()
    ran(world)
    world.delete(DOCUMENT, finalizer=False)
    ran(world, passes=3)
    ((where, event),) = [item for item in world.happened if item[1].reason == "Orphaned"]
    assert (where, event.kind) == (DOCUMENT, "Warning")
    assert (
        "stay in Kafka; to remove them, restore its document with deletionPolicy: Delete"
        in event.note
    )
    assert "user=alice producer_byte_rate" in event.note


@pytest.mark.parametrize("name", ["User:bob", "<default>", "etl-*"])
def test_a_name_that_matches_no_client_has_a_condition_and_one_event(name):
    world = kube_world(None, CREATED, resource("doubt", entity(user=name), {RATE: 4096}))
    ran(world, passes=2)
    doubt = world.condition("team/doubt", "Doubtful")
    assert (doubt["status"], doubt["reason"]) == ("True", "MatchesNoClient")
    assert name in doubt["message"]
    assert happened(world, "team/doubt") == [("Warning", "MatchesNoClient")]


@given(st.text(min_size=1, max_size=3000))
def test_a_note_stays_within_the_limit_of_the_api_server(note):
    event = ResourceEvent(kind="Normal", reason="X", note=note)
    assert 0 < len(event.note.encode()) <= MOST_BYTES


def test_an_event_without_a_message_is_rejected():
    with pytest.raises(ValueError, match="needs a note"):
        ResourceEvent(kind="Normal", reason="X", note="")


def test_a_malformed_foreign_status_causes_no_error():
    odd = {"conditions": [{"type": "Ready", "status": "True", "reason": "Elsewhere"}]}
    assert list(transitions(odd, odd, on="Q")) == []
    assert list(transitions({}, odd, on="Q")) == []
    assert set(ERRORS) <= set(Reason)
