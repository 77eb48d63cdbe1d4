"""What a reconciliation publishes: its progress, if it is long, and a fair part of its events."""

import asyncio
import random
from collections import Counter
from typing import Any

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.kube.run.cluster_reconciler import CHECK_SECONDS
from reconciler.kube.status.events import MOST_EVENTS
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.kube.worlds import KubeWorld, Sessions, resource, seen
from tests.simulation.virtual_loop import VirtualLoop

DOCUMENTS = 60
"""More than the number of concurrent writes."""


def test_a_namespace_with_many_changes_displaces_no_event_of_another() -> None:
    rivals = ["rival-0", "rival-1"]
    world = KubeWorld(tenants=[{"namespaces": ["none"], "entities": [{"user": {"prefix": ""}}]}])
    for namespace, count in ((rivals[0], MOST_EVENTS), (rivals[1], MOST_EVENTS), ("team", 2)):
        for number in range(count):
            name = f"user{number}"
            limits = {Key.PRODUCER_BYTE_RATE: 2048}
            world.put(resource(name, entity(user=name), limits, namespace=namespace))
    _ = world.run()
    counts = Counter(document.partition("/")[0] for document, _ in world.happened)
    assert counts["team"] == 2
    assert counts.total() == MOST_EVENTS
    assert abs(counts[rivals[0]] - counts[rivals[1]]) <= 1


def test_no_deletion_waits_for_a_status() -> None:
    world = KubeWorld(policy="Sync", confirmSync="fake-cluster")
    for number in range(DOCUMENTS):
        name = f"user{number}"
        world.put(resource(name, entity(user=name), {Key.PRODUCER_BYTE_RATE: 2048}))
    world.run()
    for obj in world.objects.values():
        obj["spec"]["limits"] = {"producerByteRate": 4096}
        obj["metadata"] |= {"generation": 2, "resourceVersion": world.api.next_version()}
    world.delete("team/user0", finalizer=True)

    async def hang(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("apply", "clientquotas"):
            _ = await asyncio.Event().wait()

    world.api.before = hang

    async def story() -> None:
        _ = await world.everything()
        task = asyncio.ensure_future(world.statuses.run())
        outcome = await world.work(LoopTrigger(keys=("listing",)))
        assert not outcome.retry
        _ = task.cancel()
        _ = await asyncio.wait({task})

    asyncio.run(story())
    assert "team/user0" not in world.objects
    assert entity(user="user0") not in world.kafka.truth.limits


class DeafSessions(Sessions):
    """The first address does not answer."""

    async def for_(self, cluster: Any) -> Any:
        if cluster.properties["bootstrap.servers"] == "b1:9092":
            _ = await asyncio.Event().wait()
        return await super().for_(cluster)


def test_a_corrected_address_ends_the_attempt_to_reach_the_wrong_one() -> None:
    world = KubeWorld()
    world.sessions = DeafSessions(world.kafka)
    world.begin()
    world.put(resource("alice", entity(user="alice"), {Key.PRODUCER_BYTE_RATE: 2048}))
    loop = VirtualLoop(random.Random(1), lambda _: None)

    async def story() -> None:
        _ = await world.everything()
        attempt = asyncio.ensure_future(world.reconciled(LoopTrigger(resync=True)))
        await asyncio.sleep(2.0)
        world.obj["spec"]["bootstrapServers"] = "b2:9092"
        world.obj["metadata"] |= {"generation": 2, "resourceVersion": world.api.next_version()}
        _ = world.cache.cluster_seen(seen(world.obj))
        before = loop.time()
        assert (await attempt).retry
        assert loop.time() - before <= CHECK_SECONDS
        _ = await world.reconciled(LoopTrigger(keys=("prod",)))

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert world.reason("team/alice") == "Synced"


def test_drift_that_begins_while_a_quiet_status_is_written_leaves_the_status_when_it_ends() -> None:
    world, alice = KubeWorld(), entity(user="alice")
    world.put(resource("alice", alice, {Key.PRODUCER_BYTE_RATE: 2048}))
    world.run()
    world.run()
    released = asyncio.Event()

    async def hold_statuses(verb: str, plural: str, *_: object) -> None:
        if (verb, plural) == ("apply", "clientquotas"):
            await released.wait()

    async def settle() -> None:
        for _ in range(300):
            await asyncio.sleep(0)

    async def reconcile(*, resync: bool = False) -> None:
        await world.work(LoopTrigger(keys=("listing",), resync=resync))
        await settle()

    async def story() -> None:
        await world.everything()
        writing = asyncio.ensure_future(world.statuses.run())
        edited = world.objects[
            "team/alice"
        ]  # a status that is written although nothing is said of it
        edited["status"]["conditions"] = []
        edited["metadata"]["resourceVersion"] = world.api.next_version()
        _ = world.cache.observe(seen(edited))
        world.api.before = hold_statuses
        await reconcile(resync=True)
        world.kafka.write(alice, Key.PRODUCER_BYTE_RATE, 8192.0)
        await reconcile()
        released.set()
        await settle()
        assert world.reason("team/alice") == "Drifted"
        world.kafka.write(alice, Key.PRODUCER_BYTE_RATE, 2048.0)
        await reconcile()
        _ = writing.cancel()
        _ = await asyncio.wait({writing})

    asyncio.run(story())
    assert world.reason("team/alice") == "Synced"
