"""One complete reconciliation of the operator, on an API server and a Kafka cluster in memory."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.errors import ConnectError, Forbidden, KubernetesUnavailable
from reconciler.kube.api.custom_resources import time_text
from reconciler.kube.api.resource_paths import CONFIG_MAPS, QUOTA_CLUSTERS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import PARTS, StoredRecords, part_of
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet
from tests.kube.worlds import World, resource

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
DELETED = "2023-11-14T22:13:20Z"
"""The start of the fake clock."""


def limits(rate: float | None = None, share: float | None = None) -> Sequence[float | None]:
    return (rate, None, share, None, None)


def test_a_batch_writes_each_part_of_its_records_twice_and_the_next_reconciliation_none():
    world, names = World(), ("a", "b", "c")
    numbers = {part_of(entity(user=name), "salt") for name in names}
    for name in names:
        world.put(resource(name, entity(user=name), {RATE: 2048}))
    world.turn(resync=True)  # Like the first reconciliation of a process.
    assert Counter(world.writes()) == {
        ("create", "configmaps"): PARTS,
        ("update", "configmaps"): PARTS + len(numbers),
        ("apply", "clientquotas"): 3,
        ("apply", "quotaclusters"): 1,
    }
    world.turn(resync=True)
    assert world.writes() == []
    for name in names:
        world.change(name, limits={"producerByteRate": 4096})
    world.turn(resync=True)
    assert world.writes().count(("update", "configmaps")) == 2 * len(numbers)


def test_the_quota_cluster_shows_the_next_sync_time_except_while_it_fails():
    world = World(interval="5m")
    due = world.kafka.clock.now() + 290.0
    world.turn(resync=True, next_resync_at=due)
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    assert (status["lastSuccessfulSyncTime"], status["nextSyncTime"]) == (
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:18:10Z",
    )
    world.sessions.error = ConnectError("the brokers are away")
    world.turn(resync=True, next_resync_at=due)
    assert "nextSyncTime" not in world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]


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


def test_an_unreachable_broker_is_reported_and_retried_and_does_not_block_a_deletion_forever():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.sessions.error = ConnectError("the brokers are away")
    world.delete("alice")
    assert world.turn().retry
    assert world.reason("alice") == "Deleting"
    world.kafka.clock.advance(700)
    world.turn()
    assert not world.exists("alice")
    assert world.live() == {ALICE: limits(2048.0)}
    assert [event["reason"] for event in world.api.events] == ["BrokerUnavailable", "Released"]
    assert world.api.events[-1]["regarding"]["kind"] == "QuotaCluster"
    world.sessions.error = None
    world.turn(resync=True)
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    assert status["counts"]["orphaned"] == 1
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


def test_removals_of_the_last_hour_are_counted_across_restarts():
    world = World(guards={"maxRemovals": 2}, patience=10_000.0)
    for name in ("a", "b", "c"):
        world.put(resource(name, entity(user=name), {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    for name in ("a", "b"):
        world.delete(name)
        world.turn()
        world.begin()
    world.delete("c")
    world.turn(resync=True)
    assert list(world.live()) == [entity(user="c")]
    assert world.reason("c") == "Deleting"
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert ready["reason"] == "GuardRefused"
    world.kafka.clock.advance(3601)
    world.turn(resync=True)
    assert world.live() == {}


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


def test_results_that_cannot_be_recorded_are_reported_and_written_to_the_audit_log():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    cluster_id, now = world.kafka.cluster_id, world.kafka.clock.now()
    ends = Override(
        entity=ALICE, key=RATE, value=512.0, until=now + 60, author="night", reason="storm"
    )

    def with_override(stored: StoredRecords) -> StoredRecords:
        return replace(stored, owned=stored.owned.with_changes([OverrideSet(override=ends)]))

    _ = asyncio.run(record_store.change(world.api, "ops", cluster_id, with_override))
    world.turn()
    assert world.live() == {ALICE: limits(512.0)}
    world.kafka.clock.advance(61)
    world.audit.entries.clear()

    def away(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("update", "configmaps") and world.live() == {ALICE: limits(2048.0)}:
            raise KubernetesUnavailable("away")

    world.api.before = away
    with contextlib.suppress(
        KubernetesUnavailable
    ):  # The records cannot be written afterwards either.
        world.turn()
    assert world.live() == {ALICE: limits(2048.0)}
    assert [entry.outcome for entry in world.audit.entries] == ["INTENDED", "APPLIED"]
    assert world.obj("alice")["status"]["keys"][0]["applied"] == 2048
    world.api.before = None
    world.audit.entries.clear()
    world.turn()
    assert world.audit.entries == []
    assert world.reason("alice") == "Synced"


def test_a_forbidden_write_of_records_is_shown_in_the_status():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.put(resource("bob", BOB, {RATE: 4096}))

    def refuse(verb: str, plural: str, *_: str) -> None:
        if plural == "configmaps" and verb in {"create", "update"}:
            raise Forbidden("a Role lacks a right", status=403, reason="Forbidden")

    world.api.before = refuse
    with contextlib.suppress(Forbidden):
        world.turn()
    assert world.live() == {ALICE: limits(2048.0)}
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "KubernetesRefused")
    assert world.reason("bob") == "KubernetesRefused"


def test_records_of_a_suspended_document_cause_no_listing_of_all_documents():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.change("alice", suspend=True)
    world.turn()
    assert world.reason("alice") == "Suspended"
    world.put(resource("bob", BOB, {RATE: 4096}))
    asyncio.run(world.everything())
    world.api.calls.clear()
    asyncio.run(world.reconciled(LoopTrigger(keys=("team/bob",))))
    assert ("list", "clientquotas", "", "") not in world.api.calls
    assert set(world.live()) == {ALICE, BOB}


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


def test_a_deletion_while_the_cluster_is_suspended_is_executed_later_by_another_process() -> None:
    world = World()
    world.put(resource("a", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.put(resource("b", BOB, {RATE: 2048}))
    _ = world.turn(resync=True)
    assert world.live().keys() == {ALICE, BOB}
    world.api.find(QUOTA_CLUSTERS, None, "prod")["spec"]["suspend"] = True
    world.delete("a")
    _ = world.turn(resync=True)
    assert not world.exists("a"), "a suspended cluster delays no document"
    assert world.live().keys() == {ALICE, BOB}, "and nothing is removed"
    world.begin()  # before anything else is recorded
    del world.api.find(QUOTA_CLUSTERS, None, "prod")["spec"]["suspend"]
    _ = world.turn(resync=True)
    assert world.live().keys() == {BOB}


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
