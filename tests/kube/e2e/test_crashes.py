"""An operator that is killed at the worst moment: no loss, no second write, no removal without request."""

from collections.abc import Callable

import pytest

from tests.kube.e2e.seeing import audited, has_finalizer, orphans, sent, through, watched_kafka
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers.fault_proxy import FaultProxy
from tests.servers.faults import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS, Action, Fault

pytestmark = pytest.mark.integration

MIB = 1048576.0
ALONE = "--no-leader-elect"
"""A killed process does not release its Lease, and these tests do not wait for it."""


def _lost_answer(world: World, proxy: FaultProxy, operator: Operator) -> Callable[[], None]:
    """The broker executes the request; the process is killed before it receives the response."""
    del world
    fault = proxy.plant(Fault(action=Action.HOLD_ANSWER, api_key=ALTER_CLIENT_QUOTAS))

    def strike() -> None:
        fault.wait_reached()
        operator.kill()
        proxy.heal()

    return strike


def _lost_status(world: World, proxy: FaultProxy, operator: Operator) -> Callable[[], None]:
    """The broker executes the request and responds; the process is killed before it writes a status."""
    del world
    fault = proxy.plant(Fault(action=Action.HOLD_ANSWER, api_key=ALTER_CLIENT_QUOTAS))

    def strike() -> None:
        fault.wait_reached()
        looking = proxy.plant(Fault(action=Action.HOLD_ANSWER, api_key=DESCRIBE_CLIENT_QUOTAS))
        fault.release()
        looking.wait_reached()
        operator.kill()
        proxy.heal()

    return strike


@pytest.mark.parametrize("crash", [_lost_answer, _lost_status])
def test_a_process_killed_between_kafka_and_the_status_loses_and_repeats_nothing(
    world: World, crash: Callable[[World, FaultProxy, Operator], Callable[[], None]]
) -> None:
    with watched_kafka(world) as proxy:
        world.cluster(bootstrapServers=through(proxy))
        first = world.start(ALONE)
        for name in ("changed", "removed", "still"):
            world.quota(name, deletionPolicy="Delete")
        for name in ("changed", "removed", "still"):
            world.becomes(name, "Synced")

        # One batch with a new and a changed document, because the operator starts after both.
        assert first.stop() == 0
        before = sent(proxy)
        world.kube.apply(
            world.document("new", deletionPolicy="Delete"),
            world.document("changed", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete"),
            namespace=world.team,
        )
        crash(world, proxy, world.start(ALONE, ready=False))()
        assert world.reason("new") in {"", "Pending"}
        assert sent(proxy) == before + 1
        assert world.live()["changed"] == {"producer_byte_rate": 2 * MIB}

        second = world.start(ALONE)
        for name in ("new", "changed"):
            world.becomes(name, "Synced")
        assert sent(proxy) == before + 1, "it was written twice"
        assert audited(second) == []
        # The recovered limit is owned: the keys have its time, and it can be removed.
        assert world.get("new")["status"]["keys"][0]["applied"] == MIB

        # A removal, too.
        strike = crash(world, proxy, second)
        world.delete("removed")
        strike()
        assert has_finalizer(world.get("removed"))
        assert "removed" not in world.live()
        third = world.start(ALONE)
        eventually(lambda: not world.get("removed"), what="the document to be released")
        assert sent(proxy) == before + 2, "it was removed twice"
        for name in ("new", "changed", "still"):
            world.delete(name)
        eventually(lambda: world.live() == {}, what="what was recovered to be removed as ours")
        eventually(lambda: not world.place.items("clientquotas"))
        assert orphans(world) == set()
        assert third.stop() == 0
