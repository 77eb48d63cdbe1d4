"""QuotaClusters from a mounted file: without a status in the API server, and reported once."""

from reconciler.errors import ConnectError
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource


def file_world() -> World:
    world = World(from_file=True)
    world.put(resource("alice", ALICE, {RATE: 2048}))
    return world


def test_a_lasting_error_is_one_event():
    world = file_world()
    world.sessions.error = ConnectError("the brokers are away")
    for _ in range(3):
        world.turn(resync=True)
    assert [event["reason"] for event in world.api.events] == ["BrokerUnavailable"]
    world.sessions.error = None
    for _ in range(2):
        world.turn(resync=True)
    assert world.live() == {ALICE: limits(2048.0)}
    world.writes()
    world.turn(resync=True)
    assert world.writes() == []


def test_a_cluster_whose_id_changes_later_is_not_written():
    world = file_world()
    world.turn(resync=True)
    world.kafka.cluster_id = "another"
    world.put(resource("bob", BOB, {RATE: 4096}))
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(2048.0)}
    assert world.reason("bob") == "WrongCluster"
