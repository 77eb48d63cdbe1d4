"""One complete reconciliation of the operator, on an API server and a Kafka cluster in memory."""

import asyncio
from collections.abc import Sequence

import pytest

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.errors import ConnectError, KubernetesUnavailable
from reconciler.kube.api.custom_resources import time_text
from reconciler.kube.api.resource_paths import CONFIG_MAPS, QUOTA_CLUSTERS
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from tests.kube.worlds import World, resource

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
DELETED = "2023-11-14T22:13:20Z"
"""The start of the fake clock."""


def limits(rate: float | None = None, share: float | None = None) -> Sequence[float | None]:
    return (rate, None, share, None, None)


def test_a_listing_that_fails_removes_nothing():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048, SHARE: 50}))
    world.turn()
    world.change("alice", limits={"producerByteRate": 2048})
    asyncio.run(world.everything())

    def away(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("list", "clientquotas"):
            raise KubernetesUnavailable("away")

    world.api.before = away
    asyncio.run(world.reconciled(LoopTrigger()))
    assert world.live() == {ALICE: limits(2048.0, 50.0)}
    world.api.before = None
    world.turn()
    assert world.live() == {ALICE: limits(2048.0)}


def test_a_default_that_a_guard_refuses_stops_no_limit_of_another_namespace():
    """Such a document may exist for years."""
    world = World()
    world.put(resource("mine", ALICE, {RATE: 5000}))
    world.turn()
    world.put(resource("everybody", entity(user=DEFAULT), {RATE: 4096}, namespace="platform"))
    world.put(resource("new", BOB, {RATE: 4096}, namespace="shop"))
    world.change("mine", limits={"producerByteRate": 6000})
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(6000.0), BOB: limits(4096.0)}
    assert world.reason("mine") == "Synced"
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert ready["reason"] == "ChangesUnsent"
    assert (status["counts"]["withheld"], status["counts"]["held"]) == (1, 0)
    synced = status["lastSuccessfulSyncTime"]
    world.kafka.clock.advance(600)
    world.turn(resync=True)
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    assert status["lastSuccessfulSyncTime"] > synced


def test_an_override_that_was_written_concurrently_is_kept():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    raced = []

    def meanwhile(verb: str, plural: str, _: str, name: str) -> None:
        if (verb, plural) == ("update", "configmaps") and not raced:
            raced.append(name)
            config_map = world.api.find(CONFIG_MAPS, "ops", name)
            config_map["metadata"]["resourceVersion"] = "changed"
            config_map["metadata"]["labels"]["by"] = "another"

    world.api.before = meanwhile
    world.turn()
    assert raced
    assert world.reason("alice") == "Synced"


def test_releasing_a_namespace_with_hundreds_of_documents_posts_no_event_for_each():
    world = World(patience=100)
    for number in range(110):
        name = f"user-{number}"
        world.put(resource(name, entity(user=name), {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.sessions.error = ConnectError("the brokers are away")
    for number in range(110):
        world.delete(f"user-{number}")
    world.kafka.clock.advance(101)
    world.turn()
    assert not world.exists("user-0")
    notes = [event["note"] for event in world.api.events if event["reason"] == "Released"]
    assert len(notes) == 101
    assert notes[-1].startswith("10 more ClientQuotas are released: 10 limits stay in Kafka")


@pytest.mark.parametrize("is_deleted", [False, True], ids=["at its end", "deleted before"])
def test_a_document_with_an_end_replaces_the_other_one_of_its_namespace_until_then(is_deleted):
    world = World()
    until = time_text(world.kafka.clock.now() + 3600)
    world.put(resource("a", ALICE, {RATE: 4096}))
    world.put(resource("raise", ALICE, {RATE: 8192}, until=until))
    world.put(resource("raise", ALICE, {RATE: 9999}, namespace="other", until=until))
    assert world.turn(resync=True).note == ""
    assert world.kafka.truth.value(ALICE, RATE) == 8192.0
    assert (world.reason("a"), world.reason("raise")) == ("OverrideActive", "Synced")
    (row,) = world.obj("raise")["status"]["keys"]
    assert (row["cause"], row["message"]) == ("Temporary", f"until {until}")
    if is_deleted:
        world.delete("raise")
    else:
        world.kafka.clock.advance(3600)
    world.turn(keys=frozenset({"team/raise"}), resync=not is_deleted)
    assert world.kafka.truth.value(ALICE, RATE) == 4096.0
    assert world.reason("a") == "Synced"
    assert is_deleted or world.reason("raise") == "Ended"
    world.begin()  # A successor whose clock is behind.
    world.kafka.clock.advance(-60)
    world.turn(resync=True)
    assert world.kafka.truth.value(ALICE, RATE) == 4096.0
