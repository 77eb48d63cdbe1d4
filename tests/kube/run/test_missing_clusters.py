"""Documents whose QuotaCluster is deleted: they are released at once, and their limits stay and are orphaned."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.errors import KubernetesUnavailable
from reconciler.kube.api.custom_resources import FINALIZER, condition_of
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.records import record_store
from reconciler.kube.records.finalizers import WITHHELD_SECONDS
from reconciler.kube.run.missing_clusters import MissingClusterReconciler
from reconciler.kube.status.writer import ResourceWriter
from tests.kube.run.test_cluster_reconciler import ALICE, RATE, World, limits
from tests.kube.worlds import quota_cluster, resource


def lonely_world() -> World:
    """A document that was applied; it and its QuotaCluster are deleted."""
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn(resync=True)
    del world.api.objects["quotaclusters", "", "prod"]
    world.delete("alice")
    return world


def look(world: World) -> LoopOutcome:
    work = MissingClusterReconciler(
        world.cache,
        writes=ResourceWriter(world.api, cache=world.cache, clock=world.kafka.clock, identity="op"),
        clock=world.kafka.clock,
        orphan=partial(record_store.orphan_everywhere, world.api, "ops"),
    )

    async def run() -> LoopOutcome:
        _ = await world.everything()
        return await work(LoopTrigger())

    return asyncio.run(run())


def test_pairs_of_a_released_document_are_orphaned_and_kept_when_the_cluster_returns() -> None:
    world = lonely_world()
    assert look(world) == LoopOutcome()
    assert not world.exists("alice")
    stored = asyncio.run(record_store.read(world.api, "ops", world.kafka.cluster_id))
    assert stored.owned.orphaned == {(ALICE, RATE)}
    # Before the watch reports the deletion of the document.
    world.api.put(QUOTA_CLUSTERS, quota_cluster())
    for _ in range(2):
        world.turn(resync=True)
    assert world.live() == {ALICE: limits(2048.0)}


def test_pairs_are_orphaned_although_somebody_removed_the_cluster_id_from_the_status() -> None:
    world = lonely_world()
    obj = world.obj("alice")
    world.api.put(CLIENT_QUOTAS, {**obj, "status": {}})
    assert look(world) == LoopOutcome()
    stored = asyncio.run(record_store.read(world.api, "ops", world.kafka.cluster_id))
    assert stored.owned.orphaned == {(ALICE, RATE)}


def refuse(verb: str, plural: str, *_: str) -> None:
    if (verb, plural) == ("update", "configmaps"):
        raise KubernetesUnavailable("away")


def refuse_listing(verb: str, plural: str, *_: str) -> None:
    if (verb, plural) == ("list", "configmaps"):
        raise KubernetesUnavailable("away")


@pytest.mark.parametrize("fault", [refuse, refuse_listing])
def test_a_document_is_kept_while_its_records_cannot_be_orphaned(
    fault: Callable[..., None],
) -> None:
    world = lonely_world()
    world.api.before = fault
    assert look(world).retry
    obj = world.obj("alice")
    assert obj["metadata"]["finalizers"] == [FINALIZER]
    ready = condition_of(obj["status"], "Ready")
    assert (ready["reason"], ready["message"]) == (
        "Deleting",
        "it was deleted; its limits are being removed first, but the Kubernetes API server did not answer",
    )
    world.api.before = None
    assert look(world) == LoopOutcome()
    assert not world.exists("alice")


def test_a_document_whose_records_cannot_be_orphaned_waits_for_a_day() -> None:
    world = lonely_world()
    world.api.before = refuse
    assert look(world).retry
    world.kafka.clock.advance(WITHHELD_SECONDS)
    assert look(world) == LoopOutcome()
    assert not world.exists("alice")
