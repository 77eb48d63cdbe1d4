"""What a reconciliation publishes: its progress, if it is long, and a fair part of its events."""

import asyncio
import random
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.kube.status.eligibility import EligibilityIndex, assess_eligibility
from reconciler.kube.status.events import MOST_EVENTS
from reconciler.kube.status.publisher import CHECK_SECONDS, PENDING_AFTER_SECONDS, StatusPublisher
from reconciler.kube.status.writer import ResourceWriter
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.kube.worlds import KubeWorld, Sessions, resource, seen
from tests.simulation.virtual_loop import VirtualLoop

DOCUMENTS = 60
"""More than the number of concurrent writes."""


@pytest.mark.parametrize("ends_after", [0, 5, DOCUMENTS])
def test_documents_are_pending_only_while_the_reconciliation_runs(ends_after: int) -> None:
    world = KubeWorld()
    for number in range(DOCUMENTS):
        name = f"user{number}"
        world.put(resource(name, entity(user=name), {Key.PRODUCER_BYTE_RATE: 2048}))
    publisher = StatusPublisher(
        "prod",
        writes=ResourceWriter(world.api, cache=world.cache, clock=world.clock, identity="op"),
        statuses=world.statuses,
        inventory=world.inventory,
        clock=world.clock,
        deletion_timeout=600.0,
    )
    eligibilities = [assess_eligibility(seen(obj), {}) for obj in world.objects.values()]

    def written() -> int:
        return sum(bool(obj.get("status")) for obj in world.objects.values())

    asyncio.run(publisher.pending(eligibilities, is_over=lambda: written() >= ends_after))
    if ends_after == DOCUMENTS:
        assert written() == DOCUMENTS
    else:
        assert ends_after <= written() < DOCUMENTS
    assert ends_after or not written()


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
