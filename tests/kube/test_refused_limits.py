"""A limit that the broker refuses: its message, once, on its document only; retries have a delay."""

from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource

WORDS = "The value is not to my taste"


def test_a_rejected_limit_is_reported_once_and_does_not_block_others():
    world = World()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", WORDS)
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.put(resource("bob", BOB, {RATE: 4096}))
    assert world.turn().retry, "it is retried, with increasing delays"
    assert world.live() == {BOB: limits(rate=4096)}
    assert (world.reason("alice"), world.reason("bob")) == ("BrokerRejected", "Synced")
    ready = next(
        condition
        for condition in world.obj("alice")["status"]["conditions"]
        if condition["type"] == "Ready"
    )
    assert WORDS in ready["message"]
    assert [event["reason"] for event in world.api.events] == ["BrokerRejected"]


def test_retrying_a_rejected_limit_writes_no_status_and_no_event():
    world = World()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", WORDS)
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    _ = world.writes()
    for _ in range(3):
        world.kafka.clock.advance(10)
        world.turn(resync=True)
    resources = {plural for _, plural in world.writes()}
    assert resources <= {"configmaps"}, "only intents are recorded, before each try"
    assert len(world.api.events) == 1


def test_a_corrected_limit_is_synced_immediately():
    world = World()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", WORDS)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    del world.kafka.faults.rejected[ALICE]
    world.change("alice", limits={"producerByteRate": 4096})
    world.turn()
    assert world.reason("alice") == "Synced"
    assert world.live() == {ALICE: limits(rate=4096)}


def test_a_document_whose_limit_was_never_accepted_is_deleted_immediately():
    world = World()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", WORDS)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.delete("alice")
    world.turn()
    assert not world.exists("alice")
