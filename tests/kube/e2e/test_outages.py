"""Outages of brokers and API servers: what waits, its status, and removals only on request."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from reconciler.base.clock import SystemClock
from reconciler.kube.status.client_quota import GRACE_SECONDS
from tests.kube.e2e.seeing import cluster_events, orphans
from tests.kube.e2e.world import World, eventually

pytestmark = pytest.mark.integration

MIB = 1048576.0


@pytest.fixture
def outage(world: World) -> Iterator[World]:
    """A world whose broker may be killed; it is restarted at the end."""
    try:
        yield world
    finally:
        if not world.kafka.running():
            world.kafka.start(1)


def test_a_stopped_broker_delays_changes_and_deletions_end_at_their_timeout(outage: World) -> None:
    world = outage
    world.cluster(properties={"default.api.timeout.ms": 2000, "request.timeout.ms": 2000})
    first = world.start("--deletion-timeout=8s", "--no-leader-elect")
    for name in ("late", "early", "restarted", "stays"):
        world.quota(name, deletionPolicy="Delete")
    for name in ("late", "early", "restarted", "stays"):
        world.becomes(name, "Synced")

    stopped = datetime.fromtimestamp(SystemClock().now(), UTC)
    world.kafka.kill(1)
    world.quota("late", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete")
    world.quota("new", deletionPolicy="Delete")
    deleted = time.monotonic()
    world.delete("early")
    for name in ("late", "new"):
        world.becomes(name, "BrokerUnavailable")
        assert world.condition(name, "Reconciling")["status"] == "True"
    world.becomes("prod", "BrokerUnavailable", kind="quotacluster")
    # A short outage causes no write to a document in sync.
    stays = world.condition("stays", "Ready")
    written = datetime.fromisoformat(stays["lastTransitionTime"])
    assert stays["status"] == "True" or (written - stopped).total_seconds() >= GRACE_SECONDS - 1
    eventually(lambda: not world.get("early"), what="the deletion to give up")
    assert time.monotonic() - deleted > 6, "the deletion did not wait for the broker"
    assert orphans(world) == {"user=early producer_byte_rate"}
    assert f"{world.team}/early" in cluster_events(world, "Released")["Released"]

    # A process that starts during the outage has the same knowledge.
    first.kill()
    world.start("--deletion-timeout=8s", "--no-leader-elect", ready=False)
    started = time.monotonic()
    world.delete("restarted")
    eventually(lambda: not world.get("restarted"), what="the deletion to give up")
    assert time.monotonic() - started > 6, "the deletion did not wait for the broker"
    assert orphans(world) == {f"user={user} producer_byte_rate" for user in ("early", "restarted")}

    world.kafka.start(1)
    for name in ("late", "new", "stays"):
        world.becomes(name, "Synced")
    assert world.live() == {
        "late": {"producer_byte_rate": 2 * MIB},
        **{user: {"producer_byte_rate": MIB} for user in ("early", "restarted", "new", "stays")},
    }
    counts = world.becomes("prod", "Synced", kind="quotacluster")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"]) == (2, 0)


def test_an_api_server_restart_during_changes_only_delays_them(world: World) -> None:
    world.cluster()
    operator = world.start()
    world.kube.apply(
        *(world.document(f"user-{number}", deletionPolicy="Delete") for number in range(8)),
        namespace=world.team,
    )
    world.kube.stop_apiserver()
    world.kube.start_apiserver()
    world.kube.apply(
        world.document("user-1", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete"),
        world.document("later"),
        namespace=world.team,
    )
    world.delete("user-0")
    world.becomes("later", "Synced")
    world.becomes("user-1", "Synced")
    eventually(lambda: not world.get("user-0"))
    for number in range(1, 8):
        world.becomes(f"user-{number}", "Synced")
    assert operator.child.running
    expected = {f"user-{number}": {"producer_byte_rate": MIB} for number in range(2, 8)}
    expected["user-1"] = {"producer_byte_rate": 2 * MIB}
    expected["later"] = {"producer_byte_rate": MIB}
    assert world.live() == expected
    eventually(operator.ready)
