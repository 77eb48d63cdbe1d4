"""The first period after a takeover: writes of the earlier leader may still arrive; differences are not yet drift."""

from typing import Any

import pytest

from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource


def cluster_status(world: World) -> dict[str, Any]:
    status: dict[str, Any] = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    return status


def drifted(status: dict[str, Any]) -> str:
    return str(
        next(condition for condition in status["conditions"] if condition["type"] == "Drifted")[
            "status"
        ]
    )


def taken_over(world: World) -> None:
    """A new process leads, after another one."""
    world.kafka.clock.advance(60)
    world.begin()
    world.fenced = True
    world.writes()


def test_drift_reported_before_a_takeover_is_not_reported_as_ended():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.kafka.write(ALICE, RATE, 9000.0)
    for _ in range(2):
        world.turn(resync=True)
    assert drifted(cluster_status(world)) == drifted(world.obj("alice")["status"]) == "True"
    taken_over(world)
    for _ in range(3):
        world.turn(resync=True)
    assert drifted(cluster_status(world)) == "True"
    assert cluster_status(world)["counts"]["drifted"] == 1
    assert [observation.confirmed for observation in world.reports[-1].observations] == [True]
    assert world.writes() == []
    world.fenced = False
    for _ in range(2):
        world.turn(resync=True)
    assert world.writes() == []


@pytest.mark.parametrize("passes", [0, 3])
def test_a_difference_without_earlier_drift_is_not_drift_before_the_fence_ends(passes: int) -> None:
    world = World(driftDetection="Correct")
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.put(resource("bob", BOB, {RATE: 4096}))
    world.turn()
    taken_over(world)
    for _ in range(passes):
        world.turn(resync=True)
    world.kafka.write(ALICE, RATE, 9000.0)
    for _ in range(3):
        world.turn(resync=True)
    for status in (world.obj("alice")["status"], cluster_status(world)):
        assert drifted(status) == "Unknown"
    ready = condition_of(world.obj("alice")["status"], "Ready")
    assert ready["message"] == (
        "producer_byte_rate: 2048 was applied, 9000 is live; it is compared again soon"
    )
    assert cluster_status(world)["counts"]["drifted"] == 0
    assert world.live() == {ALICE: limits(9000.0), BOB: limits(4096.0)}
    world.fenced = False
    world.turn(resync=True)
    assert world.live()[ALICE] == limits(9000.0), "one observation is not sufficient"
    world.turn(resync=True)
    assert world.live()[ALICE] == limits(2048.0)


def test_known_drift_is_not_corrected_while_an_earlier_leader_may_correct_it():
    world = World(driftDetection="Correct")
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.kafka.write(ALICE, RATE, 9000.0)
    world.turn(resync=True)
    taken_over(world)
    for _ in range(3):
        world.turn(resync=True)
    assert world.live() == {ALICE: limits(9000.0)}
    world.fenced = False
    for _ in range(2):
        world.turn(resync=True)
    assert world.live() == {ALICE: limits(2048.0)}


def test_a_difference_that_ends_with_the_fence_does_not_stay_in_the_status():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    taken_over(world)
    world.kafka.write(ALICE, RATE, 9000.0)
    for _ in range(3):
        world.turn(resync=True)
    assert drifted(world.obj("alice")["status"]) == "Unknown"
    world.kafka.write(ALICE, RATE, 2048.0)
    world.fenced = False
    world.turn(resync=True)
    assert drifted(world.obj("alice")["status"]) == "False"
