"""Drift alone: live values against those applied last, with the time of the first observation."""

import asyncio

from reconciler.errors import WrongCluster
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import drift
from reconciler.reconcile.drift import observe_drift
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE, World, documents

TWO = documents({ALICE: {RATE: 2048.0, SHARE: 50.0}, BOB: {RATE: 4096.0}})


def drifted() -> World:
    world = World()
    world.apply(TWO)
    world.cluster.write(BOB, RATE, 7.0)
    world.cluster.write(ALICE, SHARE, None)
    return world


def drift_of(world: World, **orders):
    findings = asyncio.run(drift(world.ports, world.options(**orders)))
    return {finding.pair: (finding.applied, finding.live, finding.since) for finding in findings}


def test_drift_is_a_difference_from_the_applied_value_independent_of_documents():
    world = drifted()
    now = world.cluster.clock.now()
    assert drift_of(world) == {(BOB, RATE): (4096.0, 7.0, now), (ALICE, SHARE): (50.0, None, now)}
    assert world.cluster.writes == 1


def looked(world: World, *, notes: bool = True) -> Reconciliation:
    return asyncio.run(observe_drift(world.ports, world.orders, None, cluster="prod", notes=notes))


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
