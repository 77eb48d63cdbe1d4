"""What a reconciliation publishes: its progress, if it is long, and a fair part of its events."""

import asyncio
import random
import sys
from collections import Counter
from types import FrameType
from typing import Any

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.kube.status.eligibility import EligibilityIndex
from reconciler.kube.status.events import MOST_EVENTS
from reconciler.kube.status.publisher import CHECK_SECONDS, PENDING_AFTER_SECONDS
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


class SlowSessions(Sessions):
    """Needs longer than a reconciliation may take without a status."""

    async def for_(self, cluster: Any) -> Any:
        await asyncio.sleep(PENDING_AFTER_SECONDS + 1)
        return await super().for_(cluster)


def comparisons_of_all_documents(world: KubeWorld) -> int:
    """How often one reconciliation judges all documents."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is EligibilityIndex.judge_all.__code__

    loop = VirtualLoop(random.Random(1), lambda _: None)
    sys.setprofile(note)
    try:
        _ = loop.run_until_complete(world.reconciled(LoopTrigger(keys=("prod",))))
    finally:
        sys.setprofile(None)
        loop.close()
    return count


def test_a_wait_for_a_slow_kafka_judges_only_documents_without_a_status() -> None:
    world = KubeWorld()
    world.put(resource("alice", entity(user="alice"), {Key.PRODUCER_BYTE_RATE: 2048}))
    world.run()
    usual = comparisons_of_all_documents(world)
    world.sessions = SlowSessions(world.kafka)
    world.begin()
    _ = asyncio.run(world.everything())
    bob = resource("bob", entity(user="bob"), {Key.PRODUCER_BYTE_RATE: 2048})
    world.put(bob)
    _ = world.cache.observe(seen(world.objects["team/bob"]))
    assert comparisons_of_all_documents(world) == usual
    assert world.reason("team/bob") == "Synced"
    assert world.status("team/alice")["observedGeneration"] == 1


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
