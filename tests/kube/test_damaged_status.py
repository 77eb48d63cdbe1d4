"""A status shows records and is not their source: an edited one is written anew, without other effects."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.errors import KubernetesError
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet
from tests.kube.run.test_cluster_reconciler import ALICE, RATE, World, limits
from tests.kube.worlds import resource


def damage(world: World, name: str) -> None:
    """Edit the status and remove the cluster id."""
    del world.obj(name)["status"]["clusterId"]
    world.obj(name)["metadata"]["resourceVersion"] = world.api.next_version()


def damaged_world(**spec: object) -> World:
    world = World(patience=100)
    world.put(resource("alice", ALICE, {RATE: 2048}, **spec))
    world.turn()
    damage(world, "alice")
    return world


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"keys": [{"key": "no such key", "applied": "much"}], "clusterId": "another"},
        {"keys": [{"key": "producer_byte_rate"}], "conditions": [{"type": "Ready"}]},
    ],
)
@pytest.mark.parametrize("restarts", [True, False])
def test_an_edited_status_is_overwritten_and_records_are_unchanged(status, restarts):
    world = damaged_world(deletionPolicy="Delete")
    world.obj("alice")["status"] = status
    world.obj("alice")["metadata"]["resourceVersion"] = world.api.next_version()
    if restarts:
        world.begin()
    world.turn(resync=True)
    assert world.reason("alice") == "Synced"
    assert world.obj("alice")["status"]["clusterId"] == world.kafka.cluster_id
    assert world.obj("alice")["status"]["keys"][0]["applied"] == 2048
    world.change("alice", limits={"requestPercentage": 50})
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(share=50.0)}


def test_a_status_edited_before_another_reconciliation_is_overwritten_by_the_next_resync():
    world = World(patience=100)
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn(resync=True)
    world.turn(resync=True)
    world.obj("alice")["status"] = {"conditions": [{"type": "Ready", "reason": "Pending"}]}
    world.obj("alice")["metadata"]["resourceVersion"] = world.api.next_version()
    world.turn()  # no resync: it does not compare the statuses of documents that it does not change
    world.turn(resync=True)
    assert world.reason("alice") == "Synced"


def test_a_document_with_a_removed_status_is_removed_as_recorded():
    world = damaged_world(deletionPolicy="Delete")
    del world.obj("alice")["status"]
    world.delete("alice")
    world.turn(resync=True)
    assert world.live() == {}
    assert not world.exists("alice")


def test_a_concurrent_override_is_not_overwritten_with_older_records():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    override = Override(
        entity=ALICE,
        key=RATE,
        value=512.0,
        until=world.kafka.clock.now() + 3600,
        author="night",
        reason="storm",
    )

    def with_override(stored: StoredRecords) -> StoredRecords:
        return replace(stored, owned=stored.owned.with_changes([OverrideSet(override=override)]))

    cluster_id = world.kafka.cluster_id
    _ = asyncio.run(record_store.change(world.api, "ops", cluster_id, with_override))
    # One part is damaged, so the next reconciliation cannot read the records.
    ledger = next(key for key in world.api.objects if key[0] == CONFIG_MAPS.plural)
    stranger = (ledger[0], ledger[1], "stranger")
    labels = {**world.api.objects[ledger]["metadata"]["labels"], "kafka-quotas.io/records": "part"}
    world.api.put(
        CONFIG_MAPS, {"metadata": {"name": "stranger", "namespace": "ops", "labels": labels}}
    )
    world.turn()
    del world.api.objects[stranger]
    stored = asyncio.run(record_store.read(world.api, "ops", cluster_id))
    assert stored.owned.overrides == {(ALICE, RATE): override}
    world.turn()
    assert world.live() == {ALICE: limits(512.0)}


def test_a_pair_of_a_document_without_a_finalizer_is_not_removed_as_unmanaged():
    world = World(
        policy="Sync",
        expectedClusterId="fake",
        confirmSync="fake",
        scope=[{"user": {"prefix": "a"}}],
    )
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
