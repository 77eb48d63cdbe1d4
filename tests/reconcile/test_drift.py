"""Drift alone: live values against those applied last, with the time of the first observation."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.errors import WrongCluster
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.policy import DriftMode, Policy, Rules
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import NewOverride, note_drift, observe, prepare, rollback_orders
from reconciler.reconcile.drift import as_applied, find_expired, observe_drift
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE, World, declared, documents, state

TWO = documents({ALICE: {RATE: 2048.0, SHARE: 50.0}, BOB: {RATE: 4096.0}})


def drifted() -> World:
    world = World()
    world.apply(TWO)
    world.cluster.write(BOB, RATE, 7.0)
    world.cluster.write(ALICE, SHARE, None)
    return world


def drift_of(world: World, **orders):
    options = world.options(**orders)
    observed = asyncio.run(observe_drift(world.ports, options, None, cluster="", notes=False))
    if observed.error is not None:
        raise observed.error
    return {
        finding.pair: (finding.applied, finding.live, finding.since)
        for finding in observed.preview.plan.drift
    }


def test_drift_is_a_difference_from_the_applied_value_independent_of_documents():
    world = drifted()
    now = world.cluster.clock.now()
    assert drift_of(world) == {(BOB, RATE): (4096.0, 7.0, now), (ALICE, SHARE): (50.0, None, now)}
    assert world.cluster.writes == 1


def test_the_time_of_the_first_observation_is_kept_until_drift_ends():
    world = drifted()
    first = world.cluster.clock.now()

    async def noted():
        await note_drift(world.ports, await prepare(world.ports, world.orders, TWO))

    asyncio.run(noted())
    world.cluster.clock.advance(500.0)
    assert drift_of(world)[BOB, RATE][2] == first
    written = len(world.inventory.written)
    asyncio.run(noted())
    assert len(world.inventory.written) == written
    world.cluster.write(BOB, RATE, 4096.0)
    asyncio.run(noted())
    assert set(world.owned().drift_since) == {(ALICE, SHARE)}


@pytest.mark.parametrize("new_value", [None, 700.0, 100.0], ids=["removed", "changed", "restored"])
@pytest.mark.parametrize("owner", ["declared", "suspended", "none"])
def test_a_value_that_replaced_that_of_an_ended_override_is_reported_until_what_was_applied_returns(
    new_value, owner
):
    world = World()
    applied = declared(ALICE, {RATE: 100.0})
    if owner == "none":
        world.cluster.write(ALICE, RATE, 100.0)
    else:
        world.apply(merge([applied]))
    desired = {
        "declared": merge([applied]),
        "suspended": merge([replace(applied, suspended=True)]),
        "none": merge([]),
    }[owner]
    until = world.cluster.clock.now() + 100.0
    new_override = NewOverride(
        entity=ALICE, key=RATE, value=500.0, until=until, principal="me", reason="incident"
    )
    world.apply(desired, overrides=(new_override,))
    assert world.cluster.truth == state({ALICE: {RATE: 500.0}})
    world.cluster.write(ALICE, RATE, new_value)
    world.cluster.clock.advance(101.0)
    reconciliation = looked(world)
    rows = [(expired.expected, expired.live) for expired in reconciliation.expired_overrides]
    is_open = owner != "none" and new_value != 100.0
    assert rows == ([(100.0, new_value)] if is_open else [])
    # The correction, whose options permit drift to be written.
    upsert = Rules(policy=Policy.UPSERT, drift=DriftMode.CORRECT)
    for _ in range(2):
        observation = asyncio.run(observe(world.ports, world.orders))
        world.apply(as_applied(observation), rules=upsert)
    value = new_value if owner == "none" else 100.0
    assert world.cluster.truth == state({} if value is None else {ALICE: {RATE: value}})
    assert world.owned().overrides == {}


def looked(world: World, *, notes: bool = True) -> Reconciliation:
    return asyncio.run(observe_drift(world.ports, world.orders, None, cluster="prod", notes=notes))


def test_a_drift_observation_writes_nothing_to_the_cluster():
    world = drifted()
    reconciliation = looked(world)
    assert (
        reconciliation.cluster,
        reconciliation.error,
        reconciliation.outcome,
        reconciliation.in_order,
    ) == ("prod", None, None, True)
    assert {finding.pair for finding in reconciliation.preview.plan.drift} == {
        (BOB, RATE),
        (ALICE, SHARE),
    }
    assert reconciliation.live.value(BOB, RATE) == 7.0
    assert world.cluster.writes == 1
    assert looked(world).drift_since == {
        (BOB, RATE): reconciliation.started_at,
        (ALICE, SHARE): reconciliation.started_at,
    }


def test_a_read_only_observation_does_not_change_the_records():
    world = drifted()
    written = len(world.inventory.written)
    assert looked(world, notes=False).in_order
    assert len(world.inventory.written) == written


def test_a_failed_observation_reports_the_reason_and_no_drift():
    world = drifted()
    world.orders = world.options(expected_cluster_id="another")
    reconciliation = looked(world)
    assert isinstance(reconciliation.error, WrongCluster)
    assert (reconciliation.preview, reconciliation.live, reconciliation.in_order) == (
        None,
        None,
        False,
    )


def test_after_a_rollback_only_the_documents_say_that_its_value_should_have_ended():
    world = World()
    world.apply(documents({ALICE: {RATE: 2048.0}}))
    declared_now = documents({ALICE: {RATE: 4096.0}})
    outcome = world.apply(declared_now)
    now = world.cluster.clock.now()
    orders = rollback_orders(
        [pair.change for pair in outcome.pairs], now=now, principal="me", reason="undo", seconds=9
    )
    world.apply(declared_now, overrides=orders)
    world.cluster.clock.advance(99.0)
    observation = asyncio.run(observe(world.ports, world.orders))
    assert find_expired(observation, world.orders.rules) == ()
    (expired,) = find_expired(observation, world.orders.rules, declared_now)
    assert (expired.live, expired.expected) == (2048.0, 4096.0)
