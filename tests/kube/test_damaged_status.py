"""A status that cannot be read freezes what it speaks of, and nobody else: it may be anybody's slip with kubectl."""

import asyncio

from reconciler.app.loop import LoopOutcome, LoopTrigger
from reconciler.errors import KubernetesError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.config_maps import StoredRecords
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.missing_clusters import MissingClusterReconciler
from reconciler.kube.status.writer import ResourceWriter
from reconciler.quota.ownership import Override, OverrideSet
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource


def damage(world: World, name: str) -> None:
    """Somebody edits the status and takes the cluster id away."""
    del world.obj(name)["status"]["clusterId"]
    world.obj(name)["metadata"]["resourceVersion"] = world.api.next_version()


def damaged_world(**spec: object) -> World:
    world = World(patience=100)
    world.put(resource("alice", ALICE, {RATE: 2048}, **spec))
    world.turn()
    damage(world, "alice")
    return world


def test_a_status_that_cannot_be_read_blocks_no_other_document():
    world = damaged_world()
    world.put(resource("bob", BOB, {RATE: 4096}))
    world.change("alice", limits={"producerByteRate": 8192})
    assert world.turn(resync=True) == LoopOutcome()
    assert world.live() == {ALICE: limits(2048.0), BOB: limits(4096.0)}
    assert (world.reason("alice"), world.reason("bob")) == ("RecordsUnreadable", "Synced")
    assert world.obj("alice")["status"]["keys"][0]["applied"] == 2048
    assert [one["reason"] for one in world.api.events] == ["RecordsUnreadable"]
    world.obj("alice")["status"]["clusterId"] = world.kafka.cluster_id
    world.turn(resync=True)
    assert world.reason("alice") == "Synced"
    assert world.live()[ALICE] == limits(8192.0)


def test_nobody_else_writes_or_removes_what_a_damaged_status_may_hold():
    world = World(
        policy="Sync", expectedClusterId="fake", confirmSync="fake", exclusive=True,
        scope=[{"user": {"prefix": "a"}}],
    )  # fmt: skip
    world.kafka.cluster_id = "fake"
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn(resync=True)
    damage(world, "alice")
    world.put(resource("rival", ALICE, {RATE: 9999}, created="2025-01-01T00:00:00Z"))
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(2048.0)}
    assert world.reason("rival") == "Conflict"


def test_a_damaged_document_that_is_deleted_goes_when_its_time_is_up_and_others_at_once():
    world = damaged_world(deletionPolicy="Delete")
    world.put(resource("bob", BOB, {RATE: 4096}, deletionPolicy="Delete"))
    world.turn()
    world.delete("alice")
    world.delete("bob")
    world.turn()
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    assert not world.exists("bob")
    world.kafka.clock.advance(101)
    world.turn()
    assert not world.exists("alice")
    assert world.live() == {ALICE: limits(2048.0)}


def test_a_damaged_document_that_is_gone_is_no_trouble_any_more():
    world = damaged_world()
    world.turn()
    world.delete("alice")
    world.put(resource("bob", BOB, {RATE: 4096}))
    assert world.turn() == LoopOutcome()
    assert world.live() == {ALICE: limits(2048.0), BOB: limits(4096.0)}
    assert world.reason("bob") == "Synced"


def test_documents_of_a_lost_cluster_are_released_beside_a_damaged_one():
    world = damaged_world(deletionPolicy="Delete")
    world.put(resource("bob", BOB, {RATE: 4096}, deletionPolicy="Delete"))
    world.turn()
    del world.api.objects["quotaclusters", "", "prod"]
    world.delete("alice")
    world.delete("bob")
    work = MissingClusterReconciler(
        world.cache,
        writes=ResourceWriter(world.api, cache=world.cache, clock=world.kafka.clock, identity="op"),
        clock=world.kafka.clock,
        inventory_of=lambda name: KubeInventory(world.api, world.cache, name=name, namespace="ops"),
    )

    async def one() -> LoopOutcome:
        await world.everything()
        return await work(LoopTrigger())

    assert asyncio.run(one()) == LoopOutcome()
    assert not world.exists("alice")
    assert not world.exists("bob")
    assert set(world.live()) == {ALICE, BOB}


def test_what_an_earlier_pass_knew_is_not_written_over_an_override_that_came_since():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    override = Override(
        entity=ALICE, key=RATE, value=512.0, until=world.kafka.clock.now() + 3600, author="night", reason="storm"
    )  # fmt: skip

    def with_override(kept: StoredRecords) -> StoredRecords:
        return StoredRecords(
            remainder=kept.remainder.with_changes([OverrideSet(override=override)]),
            layouts=kept.layouts,
        )

    cluster_id = world.kafka.cluster_id
    _ = asyncio.run(record_store.change(world.api, "ops", cluster_id, with_override))
    # One part is damaged, so the records cannot be read by the next pass.
    (ledger,) = [key for key in world.api.objects if key[0] == CONFIG_MAPS.plural]
    stranger = (ledger[0], ledger[1], "stranger")
    labels = {**world.api.objects[ledger]["metadata"]["labels"], "kafka-quotas.io/records": "other"}
    world.api.put(
        CONFIG_MAPS, {"metadata": {"name": "stranger", "namespace": "ops", "labels": labels}}
    )
    world.turn()
    del world.api.objects[stranger]
    kept = asyncio.run(record_store.read(world.api, "ops", cluster_id))
    assert kept.remainder.overrides == {(ALICE, RATE): override}
    world.turn()
    assert world.live() == {ALICE: limits(512.0)}


def test_what_a_document_asks_for_that_cannot_be_held_is_nobody_elses_to_remove():
    world = World(
        policy="Sync", expectedClusterId="fake", confirmSync="fake", exclusive=True,
        scope=[{"user": {"prefix": "a"}}],
    )  # fmt: skip
    world.kafka.cluster_id = "fake"
    world.kafka.write(ALICE, RATE, 7000.0)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))

    def refuse(verb: str, plural: str, namespace: str, name: str) -> None:
        del namespace, name
        if (verb, plural) == ("patch", "clientquotas"):
            raise KubernetesError("a policy says no", status=403, reason="Forbidden")

    world.api.before = refuse
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(7000.0)}
