"""Limits during an apply, on three real brokers: a mixed plan of 500 changes, one rejected set, a killed controller.
No client ever has a limit that differs from its own before and its own after.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Progress
from reconciler.client import QuotaClient
from reconciler.inventory.memory import MemoryInventory
from reconciler.ports import QuotaStore
from reconciler.quota.entity import Entity, entity
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.state import Alteration, Rejected, Result
from reconciler.reconcile import ReconcilePorts, apply, prepare
from tests.e2e.recorder import RecordedStore, recording
from tests.e2e.runs import (
    EVERYTHING,
    addresses,
    cleared,
    config,
    converged,
    ports,
    reconciled,
    settled,
)
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def entities(users: int = 16, clients: int = 10, addresses: int = 20) -> list[Entity]:
    """All ten forms over a small set of names, so that every client has several relevant levels."""
    named = [f"user-{number}" for number in range(users)]
    ids = [f"app-{number}" for number in range(clients)]
    slots = [(user, client) for user, client in product([*named, None, False], [*ids, None, False])]
    forms = [
        entity(user=user, client_id=client)
        for user, client in slots
        if (user, client) != (False, False)
    ]
    return (
        forms
        + [entity(ip=f"10.0.0.{number}") for number in range(1, addresses)]
        + [entity(ip=None)]
    )


def random_state(rng: random.Random, share: float) -> DesiredState:
    """A random set of documents: one per entity, some keys each."""

    def value() -> float | None:
        return float(rng.randrange(1, 1000) * 1024) if rng.random() < 0.8 else None

    declarations = []
    for number, subject in enumerate(entities()):
        if rng.random() > share:
            continue
        if subject[2] is not False:
            limits = (None, None, None, None, float(rng.randrange(1, 500)))
        else:
            limits = (value(), value(), value(), None, None)
        if any(limits):
            declarations.append(
                Declaration(document=f"team/doc-{number}", entity=subject, limits=limits)
            )
    return merge(declarations)


class Refusing:
    """A store that refuses some entities like a broker; the rest goes to the real one."""

    def __init__(self, store: QuotaStore, refused: set[Entity]) -> None:
        self._store, self._refused = store, refused
        self.observe, self.cluster, self.describe = store.observe, store.cluster, store.describe
        self.wait_visible = store.wait_visible

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: dict[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        answers = {} if results is None else results
        for alteration in alterations:
            if alteration.entity in self._refused:
                answers[alteration.entity] = Rejected(
                    code=42, name="INVALID_REQUEST", message="refused by the test"
                )
        allowed = [
            alteration for alteration in alterations if alteration.entity not in self._refused
        ]
        if allowed:
            await self._store.alter(
                allowed, validate_only=validate_only, progress=progress, results=answers
            )
        return answers


async def run_recorded(cluster: KafkaCluster, seed: int, *, refuse: int = 0) -> None:
    """From one random state to another with ``refuse`` of the sets refused; then again without refusals."""
    rng = random.Random(seed)
    inventory = MemoryInventory()
    async with QuotaClient(config(cluster.bootstrap())) as client:
        first = await reconciled(client, inventory, random_state(rng, 0.7))
        assert first.complete, first.failure
        before = await settled(client)
        second = random_state(rng, 0.6)
        input_ports = ports(client, inventory)
        prepared = await prepare(input_ports, EVERYTHING, second)
        changes = prepared.plan.changes
        assert len(changes) >= 500
        assert sum(change.removes for change in changes) >= 50
        sets = sorted({change.entity for change in changes if not change.removes}, key=str)
        store = RecordedStore(Refusing(client, set(rng.sample(sets, refuse))))
        with recording(addresses(cluster)) as recordings:
            outcome = await apply(ports(store, inventory), EVERYTHING, prepared)
        after = await settled(client)
        # Before, after, and at least one intermediate state; a busy machine observes fewer of them.
        assert min(len(states) for states in recordings.states.values()) >= 3
        assert recordings.unlawful(before, after) == []
        assert recordings.contradictions(before, store) == []
        assert outcome.complete is (refuse == 0)
        if refuse:
            assert outcome.count("REJECTED")
            assert outcome.count("HELD")
            with recording(addresses(cluster)) as recordings:
                assert (await reconciled(client, inventory, second)).complete
            assert recordings.unlawful(after, await settled(client)) == []
        assert dict((await settled(client)).items()) == dict(second.limits)
        again = await prepare(input_ports, EVERYTHING, second)
        assert again.plan.changes == ()


@pytest.fixture(scope="module")
def three():
    with KafkaCluster("4.3.1", nodes=3, extra=QUICK) as cluster:
        yield cluster


def test_a_mixed_plan_shows_only_allowed_states_on_every_broker(three: KafkaCluster) -> None:
    asyncio.run(run_recorded(cleared(three), seed=1))


def test_the_recorder_detects_a_client_without_a_limit_in_a_plan_that_removes_first(
    three: KafkaCluster,
) -> None:
    async def story() -> None:
        cluster = cleared(three)
        pair, user = entity(user="user-0", client_id="app-0"), entity(user="user-0")
        async with QuotaClient(config(cluster.bootstrap())) as client:
            await client.alter([Alteration(pair, (("producer_byte_rate", 1024.0),))])
            await client.wait_visible(
                [Alteration(pair, (("producer_byte_rate", 1024.0),))], timeout=HANG_SECONDS
            )
            before = await settled(client)
            with recording(addresses(cluster)) as recordings:
                for alteration in (
                    Alteration(pair, (("producer_byte_rate", None),)),
                    Alteration(user, (("producer_byte_rate", 2048.0),)),
                ):
                    await client.alter([alteration])
                    await client.wait_visible([alteration], timeout=HANG_SECONDS)
            assert recordings.unlawful(before, await settled(client))

    asyncio.run(story())


@pytest.mark.parametrize("seed", [2, 3])
def test_rejected_sets_hold_dependent_operations_and_the_next_run_completes_them(
    three: KafkaCluster, seed: int
) -> None:
    asyncio.run(run_recorded(cleared(three), seed=seed, refuse=12))


def test_a_controller_killed_during_an_apply_leaves_only_allowed_states_and_the_next_run_converges(
    three: KafkaCluster,
) -> None:
    async def story() -> None:
        rng = random.Random(4)
        inventory = MemoryInventory()
        cluster = cleared(three)
        async with QuotaClient(config(cluster.bootstrap())) as client:
            assert (await reconciled(client, inventory, random_state(rng, 0.7))).complete
            before = await settled(client)
            second = random_state(rng, 0.6)
            input_ports = ports(client, inventory)
            prepared = await prepare(input_ports, EVERYTHING, second)
            doomed = cluster.active_controller()
            survivors = {
                number: address
                for number, address in addresses(cluster).items()
                if number != doomed
            }
            sent = asyncio.Event()

            def progress(phase: str, done: int, total: int) -> None:
                if phase == "apply" and done >= total // 3:
                    sent.set()

            async def killer() -> None:
                await sent.wait()
                await asyncio.to_thread(cluster.kill, doomed)

            reported_ports = ReconcilePorts(
                store=client, inventory=inventory, clock=SystemClock(), progress=progress
            )
            with recording(survivors) as recordings:
                killing = asyncio.create_task(killer())
                outcome = await apply(reported_ports, EVERYTHING, prepared)
                await killing
            after = await settled(client)
            assert recordings.unlawful(before, after) == []
            assert not outcome.complete or outcome.count("APPLIED") == len(prepared.plan.changes)
            await asyncio.to_thread(cluster.start, doomed)
            _ = await converged(client, inventory, second)
            assert dict(await settled(client)) == dict(second.limits)

    asyncio.run(story())
