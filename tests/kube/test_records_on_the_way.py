"""Migration of records from a ConfigMap into a status: at each time they are in one of the two."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import KubernetesUnavailable
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.ownership import Orphaned, Owner, Recorded
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, SHARE, World, limits
from tests.kube.worlds import resource, seen


class Crash(Exception):
    """The process ends."""


def orphaned_world() -> World:
    """A quota of alice whose document was deleted and orphaned it."""
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.delete("alice")
    world.turn()
    assert counts(world) == (1, 0)
    return world


def counts(world: World) -> tuple[int, int]:
    totals = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    return totals["orphaned"], totals["unmanaged"]


def test_a_crash_before_a_status_adopts_an_orphan_keeps_it_an_orphan():
    world = orphaned_world()
    world.put(resource("again", ALICE, {RATE: 2048}))
    world.put(resource("bob", BOB, {RATE: 4096}))  # Something is sent, so intents are written.

    def crash(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("apply", "clientquotas"):
            raise Crash

    world.api.before = crash
    with pytest.raises(ExceptionGroup):
        world.turn()
    world.api.before = None
    world.begin()
    world.delete("again")
    world.turn(resync=True)
    assert counts(world) == (1, 0)


def test_an_adopted_limit_is_owned_although_the_status_could_not_be_written():
    world = orphaned_world()
    world.put(resource("again", ALICE, {RATE: 2048, SHARE: 50}))

    def away(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("apply", "clientquotas"):
            raise KubernetesUnavailable("away")

    world.api.before = away
    world.turn()
    world.api.before = None
    world.begin()
    world.change("again", limits={"requestPercentage": 50})
    world.turn(resync=True)
    assert world.live() == {ALICE: limits(share=50)}, (
        "the document exists and does not declare it any more"
    )
    world.begin()
    world.turn(resync=True)
    assert counts(world) == (0, 0)


def test_a_document_deleted_before_its_status_is_written_leaves_an_orphan():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))

    def go(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("apply", "clientquotas"):
            world.delete("alice")

    world.api.before = go
    world.turn()
    world.api.before = None
    assert not world.exists("alice")
    world.turn(resync=True)
    assert counts(world) == (1, 0)
    world.begin()
    world.turn(resync=True)
    assert counts(world) == (1, 0)
    assert world.live() == {ALICE: limits(2048.0)}


def test_records_that_became_orphaned_concurrently_are_kept():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.kafka.write(BOB, RATE, 4096.0)
    world.delete("alice")
    changed_records: list[StoredRecords] = []

    def leave(stored: StoredRecords) -> StoredRecords:
        """Release documents of a QuotaCluster that is deleted."""
        owner = Owner(document="other/bob", since=1.0)
        owned = stored.owned.with_changes(
            [
                Recorded(entity=BOB, key=RATE, value=4096.0, owner=owner),
                Orphaned(entity=BOB, key=RATE),
            ]
        )
        changed_records.append(replace(stored, owned=owned))
        return changed_records[-1]

    def meanwhile(verb: str, plural: str, namespace: str, name: str) -> Any:
        del namespace, name
        if (verb, plural) == ("update", "configmaps") and not changed_records:
            return record_store.change(world.api, "ops", world.kafka.cluster_id, leave)
        return None

    world.api.before = meanwhile
    world.turn(resync=True)
    assert changed_records
    stored = asyncio.run(record_store.read(world.api, "ops", world.kafka.cluster_id))
    assert stored.owned.orphaned == {(ALICE, RATE), (BOB, RATE)}
    assert set(stored.owned.records) == {ALICE, BOB}
    world.turn(resync=True)
    assert counts(world) == (2, 0)


def test_a_document_that_appears_while_others_get_finalizers_owns_its_applied_limits():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))

    def arrive(verb: str, *_: str) -> None:
        if verb == "patch" and not world.exists("bob"):
            world.put(resource("bob", BOB, {RATE: 2048, SHARE: 50}))
            _ = world.cache.observe(seen(world.obj("bob")))

    world.api.before = arrive
    world.turn(resync=True)
    world.api.before = None
    assert world.live()[BOB] == limits(2048.0, 50.0)
    world.begin()
    world.change("bob", limits={"requestPercentage": 50})
    world.turn(resync=True)
    assert world.live()[BOB] == limits(share=50.0)
