"""Rollbacks: the earlier values are restored and stay until the document changes, or a day has passed."""

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.quota.policy import Cause, Policy
from reconciler.quota.results.report import Outcome
from reconciler.reconcile import rollback_orders
from reconciler.render.json_values import dump
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE, World, documents, state

OLD = documents({ALICE: {RATE: 100.0}})
NEW = documents({ALICE: {RATE: 900.0}, BOB: {SHARE: 5.0}})


def roll_back(world: World, outcome: Outcome, desired, **more) -> Outcome:
    undo = read_undo(dump(outcome_document(outcome)), location="OUTCOME.json")
    orders = rollback_orders(
        undo.before, now=world.cluster.clock.now(), principal="me", reason="oops", **more
    )
    pairs = {(order.entity, order.key) for order in orders}
    return world.apply(desired, overrides=orders, only=lambda e, k: (e, k) in pairs)


def rolled_back(policy: Policy = Policy.UPSERT) -> World:
    world = World(policy=policy)
    world.apply(OLD)
    outcome = roll_back(world, world.apply(NEW), NEW)
    assert outcome.complete
    assert {pair.change.cause for pair in outcome.pairs} == {Cause.OVERRIDE}
    return world


def test_values_from_before_are_restored_and_kept():
    world = rolled_back()
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})
    assert world.apply(NEW).pairs == ()


def test_declared_values_apply_again_once_a_document_changes():
    world = rolled_back()
    fixed = documents({ALICE: {RATE: 300.0}, BOB: {SHARE: 5.0}})
    world.apply(fixed)
    assert world.cluster.truth == state({ALICE: {RATE: 300.0}})
    world.apply(documents({ALICE: {RATE: 300.0}, BOB: {SHARE: 6.0}}))
    assert world.cluster.truth == state({ALICE: {RATE: 300.0}, BOB: {SHARE: 6.0}})


def test_declared_values_apply_again_after_a_day():
    world = rolled_back()
    world.cluster.clock.advance(86_400.0)
    assert world.apply(NEW).complete
    assert world.cluster.truth == state({ALICE: {RATE: 900.0}, BOB: {SHARE: 5.0}})


def test_a_rollback_applies_for_at_most_a_day():
    orders = rollback_orders(
        [(ALICE, RATE, 1.0)], now=0.0, principal="me", reason="", seconds=10**9
    )
    assert orders[0].until == 86_400.0
    assert orders[0].ends_with_document


def test_rejected_and_held_changes_are_not_rolled_back():
    world = World()
    world.cluster.faults.rejected[BOB] = (42, "INVALID_REQUEST", "no")
    undo = read_undo(dump(outcome_document(world.apply(NEW))), location="OUTCOME.json")
    assert undo.before == ((ALICE, RATE, None),)
