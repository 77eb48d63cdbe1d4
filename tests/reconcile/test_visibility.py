"""A few of the last changes represent all of them; those that another writer touched do not."""

import asyncio
import math

from reconciler.quota.state import Alteration
from reconciler.reconcile.visibility import VisibilityProbes
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, ANYONE, BOB, RATE, World, documents

TABLE = {ALICE: {RATE: 1.0}, BOB: {RATE: 2.0}, ANYONE: {RATE: 3.0}, ALICE_SHOP: {RATE: 4.0}}


def witnessed(world: World) -> tuple[VisibilityProbes, list[Alteration]]:
    changes = world.plan(documents(TABLE)).plan.changes
    witnesses = VisibilityProbes(world.ports, changes)
    alterations = [
        Alteration(change.entity, ((str(change.key), change.after),)) for change in changes
    ]
    asyncio.run(world.cluster.alter(alterations))
    for alteration in alterations:
        witnesses.add(alteration)
    return witnesses, alterations


def wait(world: World, witnesses: VisibilityProbes, seconds: float = 30.0):
    """The states that the brokers showed, and the duration."""
    started = world.cluster.clock.monotonic()
    process = asyncio.run(witnesses.wait(seconds))
    return process, world.cluster.clock.monotonic() - started


def test_the_wait_ends_at_the_deadline_and_names_the_lagging_brokers():
    world = World()
    world.cluster.faults.lag[3] = math.inf
    witnesses, _ = witnessed(world)
    visibility, took = wait(world, witnesses)
    assert visibility.lagging == (3,)
    assert 30.0 <= took < 36.0


def test_an_awaited_change_that_another_writer_replaced_is_dropped():
    world = World()
    witnesses, alterations = witnessed(world)
    world.cluster.write(alterations[-1].entity, RATE, 99.0)
    visibility, took = wait(world, witnesses)
    assert visibility.everywhere
    assert took < 12.0


def test_a_broker_that_stops_during_the_wait_does_not_end_it():
    world = World()
    world.cluster.faults.lag[3] = math.inf
    witnesses, _ = witnessed(world)

    def leave(name: str) -> None:
        if name == "describe":
            world.cluster.faults.unreachable[3] = "gone"

    world.cluster.faults.before = leave
    visibility, _ = wait(world, witnesses)
    assert visibility.everywhere
    assert visibility.unreachable == {3: "gone"}
