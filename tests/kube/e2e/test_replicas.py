"""Two operators: one leads, the other takes over. No double write, and no write by an operator that lost the Lease."""

import json
import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.kube.e2e.seeing import audited, sent, through, watched_kafka
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers import raw_quotas
from tests.servers.faults import ALTER_CLIENT_QUOTAS, Action, Fault

pytestmark = pytest.mark.integration

MIB = 1048576.0
NAMES = ("one", "two", "three")


def leads(operator: Operator) -> bool:
    return operator.child.running and operator.metric("kquota_leader") == 1.0


def pair(world: World, *arguments: str) -> tuple[Operator, Operator]:
    """A leader, and a standby that is ready."""
    first = world.start(*arguments)
    eventually(lambda: leads(first), what="the first one to lead")
    second = world.start()
    assert not leads(second)
    return first, second


def lease_name(world: World) -> str:
    """The name of the Lease in the chart."""
    named = [argument for argument in world.place.arguments if argument.startswith("--lease-name=")]
    return named[0].partition("=")[2]


def lease(world: World) -> dict[str, Any]:
    completed = world.kube.kubectl(
        "get", "lease", lease_name(world), "-n", world.place.namespace, "-o", "json"
    )
    obj: dict[str, Any] = json.loads(completed.stdout)
    return obj


def set_limits(world: World, text: str) -> None:
    documents = [world.document(name, limits={"producerByteRate": text}) for name in NAMES]
    world.kube.apply(*documents, namespace=world.team)


def all_synced(world: World) -> None:
    for name in NAMES:
        world.becomes(name, "Synced")


def changes(*operators: Operator) -> list[tuple[str, Any]]:
    """Users and new values in the audit logs of these processes."""
    return sorted(
        (dict(entry["entity"])["user"], entry["after"])
        for each in operators
        for entry in audited(each)
    )


def measured(sentence: str) -> None:
    """Printed by `pytest -s`, and when a test fails."""
    sys.stdout.write(f"\n{sentence}\n")


def test_a_killed_leader_is_replaced_and_nothing_is_written_twice(
    world: World,
) -> None:
    with watched_kafka(world) as proxy:
        world.cluster(bootstrapServers=through(proxy))
        first, second = pair(world)
        set_limits(world, "1Mi")
        all_synced(world)
        assert audited(second) == [], "a standby writes nothing"

        # It is killed after the broker executed the request and before the response.
        fault = proxy.plant(Fault(action=Action.HOLD_ANSWER, api_key=ALTER_CLIENT_QUOTAS))
        before = sent(proxy)
        set_limits(world, "2Mi")
        fault.wait_reached()
        eventually(
            lambda: (
                all(world.live()[name]["producer_byte_rate"] == 2 * MIB for name in NAMES)
                or sent(proxy) > before
            )
        )
        died = time.monotonic()
        first.kill()
        proxy.heal()
        eventually(lambda: leads(second), what="the standby to lead")
        took = time.monotonic() - died
        all_synced(world)
        done = time.monotonic() - died
        measured(f"takeover after SIGKILL: leads after {took:.1f} s, all Synced after {done:.1f} s")
        altered = sent(proxy)
        assert changes(first, second).count(("one", 2 * MIB)) <= 1

        # The request of the old one may arrive only now: that is not drift, and is not reported.
        raw_quotas.set_quotas(
            world.kafka.port(), {raw_quotas.entity(user="two"): {"producer_byte_rate": MIB}}
        )
        passes = second.metric("kquota_passes_total")
        eventually(lambda: second.metric("kquota_passes_total") >= passes + 3)
        for name in NAMES:
            is_different = name == "two"
            drifted = "Unknown" if is_different else "False"
            assert world.condition(name, "Drifted").get("status") == drifted, name
        assert not [event for event in world.events() if "Drift" in event["reason"]]
        assert sent(proxy) == altered, "there was no request since"

        # An ordered stop: SIGTERM releases the Lease.
        third = world.start()
        stopped = time.monotonic()
        assert second.stop() == 0
        assert not lease(world)["spec"]["holderIdentity"].startswith("operator-1_"), "not released"
        eventually(lambda: leads(third), what="the third one to lead")
        took = time.monotonic() - stopped
        measured(f"handover after SIGTERM: {took:.1f} s, the old one's end included")
        set_limits(world, "3Mi")
        all_synced(world)
        assert len(changes(third)) == len(NAMES)


def test_a_leader_that_hung_ends_without_writing_when_it_continues(world: World) -> None:
    world.cluster()
    first, second = pair(world)
    set_limits(world, "1Mi")
    all_synced(world)
    os.kill(first.child.process.pid, signal.SIGSTOP)
    try:
        set_limits(world, "2Mi")
        all_synced(world)
        assert {values["producer_byte_rate"] for values in world.live().values()} == {2 * MIB}
        set_limits(world, "3Mi")
        all_synced(world)
    finally:
        os.kill(first.child.process.pid, signal.SIGCONT)
    assert first.child.ended_within(15), "it continues without its Lease"
    assert first.child.process.returncode == 1
    assert changes(first) == sorted((name, MIB) for name in NAMES)
    assert len(changes(second)) == 2 * len(NAMES)
    assert {values["producer_byte_rate"] for values in world.live().values()} == {3 * MIB}
