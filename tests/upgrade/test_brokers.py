"""Brokers that are upgraded one after the other, from 3.9 to 4.4, while reconciliations change hundreds of quotas."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from reconciler.client import QuotaClient
from reconciler.errors import KquotaError
from reconciler.inventory.memory import MemoryInventory
from reconciler.ports import QuotaStore
from reconciler.quota.planner.desired_state import DesiredState
from tests.e2e.recorder import recording
from tests.e2e.runs import addresses, config, converged, reconciled, settled
from tests.e2e.test_intermediate_limits import QUICK, random_state
from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster

pytestmark = pytest.mark.integration

EARLIER, LATER = "3.9.1", "4.4.0"

COMPLETED_SECONDS = 300.0
"""Maximum time until a reconciliation completes after the upgrade of a broker."""


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    with KafkaCluster(EARLIER, nodes=3, extra=QUICK) as cluster:
        yield cluster


async def roll(cluster: KafkaCluster, completed: asyncio.Event) -> None:
    """Upgrade followers first, the active controller last; then raise the metadata version.

    After each broker a reconciliation completes before the next step, however slow the machine is.
    """
    leader = await asyncio.to_thread(cluster.active_controller)
    for node in sorted(cluster.numbers, key=lambda number: number == leader):
        await asyncio.to_thread(cluster.upgrade, node, LATER)
        _ = await asyncio.to_thread(cluster.active_controller)
        completed.clear()
        async with asyncio.timeout(COMPLETED_SECONDS):
            _ = await completed.wait()
    _ = await asyncio.to_thread(cluster.finalize_upgrade)


async def reconcile_until(
    store: QuotaStore,
    inventory: MemoryInventory,
    wishes: tuple[DesiredState, DesiredState],
    rolled: "asyncio.Task[None]",
    completed: asyncio.Event,
) -> int:
    """Reconcile repeatedly, to one of two states in turn; return how many reconciliations there were."""
    runs = 0
    while not rolled.done():
        wish_in_turn = wishes[runs % 2]
        runs += 1
        try:
            outcome = await reconciled(store, inventory, wish_in_turn)
        except KquotaError:
            continue
        if outcome.complete:
            completed.set()
    return runs


def test_no_client_is_without_its_limit_while_brokers_are_upgraded_during_reconciliations(
    three: KafkaCluster,
) -> None:
    async def story() -> None:
        rng = random.Random(39)
        first, second = random_state(rng, 0.6), random_state(rng, 0.6)
        inventory = MemoryInventory()
        async with QuotaClient(config(three.bootstrap())) as client:
            assert (await reconciled(client, inventory, first)).complete
            before = await settled(client)
            with recording(addresses(three)) as recordings:
                completed = asyncio.Event()
                rolled = asyncio.create_task(roll(three, completed))
                wishes = (second, first)
                runs = await reconcile_until(client, inventory, wishes, rolled, completed)
                await rolled
                _ = await converged(client, inventory, second)
                after = await settled(client)
            assert dict(after) == dict(second.limits)
            assert recordings.unlawful(before, after) == []
            assert min(recordings.looks.values()) > runs
            # All brokers show the same quotas, and the new version keeps those of the old one.
            broker_quotas = [raw_quotas.describe(three.port(node)) for node in three.numbers]
            assert broker_quotas[0] == broker_quotas[1] == broker_quotas[2]
            assert len(broker_quotas[0]) == len(after)
            again = await reconciled(client, inventory, second)
            assert again.complete
            assert again.pairs == ()

    asyncio.run(story())
