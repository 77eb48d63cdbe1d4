"""Rollbacks: the earlier values are restored and stay until the document changes, or a day has passed."""

import pytest
from msgspec.structs import replace

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.planner.guards import Guard
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy, Policy
from reconciler.quota.results.report import Outcome
from reconciler.reconcile import NewOverride, rollback_orders
from reconciler.render.json_values import dump
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import (
    ALICE,
    BOB,
    OPEN,
    RATE,
    SHARE,
    World,
    declared,
    documents,
    state,
)

OLD = documents({ALICE: {RATE: 100.0}})
NEW = documents({ALICE: {RATE: 900.0}, BOB: {SHARE: 5.0}})


def roll_back(world: World, outcome: Outcome, desired, **more) -> Outcome:
    undo = read_undo(dump(outcome_document(outcome)), location="OUTCOME.json")
    orders = rollback_orders(
        undo.changes, now=world.cluster.clock.now(), principal="me", reason="oops", **more
    )
    pairs = {(order.entity, order.key) for order in orders}
    return world.apply(desired, overrides=orders, only=lambda e, k: (e, k) in pairs)


def test_a_rollback_applies_for_at_most_a_day():
    change = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC)
    (order,) = rollback_orders([change], now=0.0, principal="me", reason="", seconds=10**9)
    assert (order.until, order.value, order.rolls_back) == (86_400.0, 1.0, change)


def test_a_rollback_that_the_broker_refuses_leaves_the_records_as_they_were():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome, owned = world.apply(NEW), world.owned()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    world.cluster.faults.rejected[BOB] = (42, "INVALID_REQUEST", "no")
    roll_back(world, outcome, NEW)
    assert world.owned() == owned


@pytest.mark.parametrize(
    ("before", "policy", "returns"),
    [
        (None, DeletionPolicy.DELETE, {}),
        (100.0, DeletionPolicy.DELETE, {}),
        (700.0, None, {ALICE: {RATE: 700.0}}),
    ],
    ids=["created by the apply", "applied before", "of another writer"],
)
def test_after_a_rollback_and_the_deletion_of_its_document_a_limit_has_the_owner_from_before(
    before, policy, returns
):
    """What another writer had set before the apply is not removed with the document."""
    world = World(policy=Policy.UPSERT)
    old, new = (
        merge([replace(declared(ALICE, {RATE: value}), deletion_policy=DeletionPolicy.DELETE)])
        for value in (100.0, 900.0)
    )
    if before == 700.0:
        world.cluster.write(ALICE, RATE, 700.0)
    elif before is not None:
        world.apply(old)
    owned = world.owned().records
    roll_back(world, world.apply(new), new)
    assert world.cluster.truth.value(ALICE, RATE) == before
    assert {**world.owned().records} == {**owned}
    for _ in range(2):
        world.apply(merge([]))
    assert world.cluster.truth == state(returns)
    assert (world.owned().records, world.owned().overrides) == ({}, {})


def test_after_rollbacks_of_rollbacks_the_next_run_does_not_remove_the_limit_again():
    world, desired = World(policy=Policy.UPSERT), declared(ALICE, {RATE: 100.0})
    world.apply(merge([replace(desired, deletion_policy=DeletionPolicy.DELETE)]))
    outcome = world.apply(merge([]))
    for value in (100.0, None, 100.0):
        assert world.cluster.truth.value(ALICE, RATE) != value
        outcome = roll_back(world, outcome, merge([]))
        for _ in range(2):
            assert world.cluster.truth.value(ALICE, RATE) == value
            world.apply(merge([]))
    world.cluster.clock.advance(86_400.0)
    for _ in range(2):
        world.apply(merge([]))
    assert world.cluster.truth == state({})


def test_a_write_that_is_late_when_its_apply_is_rolled_back_is_overwritten():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    world.cluster.faults.unknown[ALICE] = LOST
    outcome = world.apply(documents({ALICE: {RATE: 900.0}}))
    world.cluster.faults.unknown.clear()
    roll_back(world, outcome, NEW)
    world.cluster.write(ALICE, RATE, 900.0)
    world.apply(documents({ALICE: {RATE: 900.0}}))
    assert world.cluster.truth.value(ALICE, RATE) == 100.0
    world.apply(OLD)
    assert world.cluster.truth.value(ALICE, RATE) == 100.0
    assert world.owned().overrides == {}


@pytest.mark.parametrize("times", [1, 2])
def test_a_declared_value_that_was_never_applied_is_judged_after_a_rollback(times):
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome = world.apply(NEW)
    slip = documents({ALICE: {RATE: 9e9}, BOB: {SHARE: 5.0}})
    for _ in range(times):
        roll_back(world, outcome, slip)
    world.orders = world.options(guards=replace(OPEN, max_change_factor=30.0))
    for _ in range(2):
        (violation,) = world.plan(slip).preview.violations
        assert (violation.guard, violation.entity) == (Guard.MAX_CHANGE_FACTOR, ALICE)
        world.cluster.clock.advance(86_400.0)
    assert world.plan(NEW).preview.violations == ()


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "of another writer"])
def test_the_rollback_of_an_override_ends_it_and_holds_nothing(is_declared):
    """A value that returns by itself is not held for a day: the next change of its document is written at once."""
    world = World(policy=Policy.UPSERT)
    desired = OLD if is_declared else documents({})
    if is_declared:
        world.apply(OLD)
    else:
        world.cluster.write(ALICE, RATE, 100.0)
    records = world.owned().records
    outcome = world.apply(desired, overrides=(raise_for_an_hour(world, 900.0),))
    assert world.cluster.truth.value(ALICE, RATE) == 900.0
    roll_back(world, outcome, desired)
    assert world.cluster.truth.value(ALICE, RATE) == 100.0
    assert world.owned().overrides == {}
    assert world.owned().records.keys() == records.keys()


def test_the_rollback_of_an_override_whose_value_another_writer_replaced_restores_the_value_from_before():
    """The end alone would leave the value of the other writer, which returns a day later."""
    world, nothing = World(policy=Policy.UPSERT), documents({})
    outcome = world.apply(nothing, overrides=(raise_for_an_hour(world, 900.0),))
    world.cluster.write(ALICE, RATE, 700.0)
    roll_back(world, outcome, nothing)
    world.apply(nothing)
    assert world.cluster.truth == state({})
    world.cluster.clock.advance(86_400.0)
    world.apply(nothing)
    assert world.cluster.truth == state({ALICE: {RATE: 700.0}})


def test_the_rollback_of_an_override_holds_the_value_of_a_deleted_document():
    """The end alone would restore it until the next run, which removes it."""
    world = World(policy=Policy.UPSERT)
    world.apply(merge([declared(ALICE, {RATE: 100.0}, policy=DeletionPolicy.DELETE)]))
    outcome = world.apply(OLD, overrides=(raise_for_an_hour(world, 900.0),))
    roll_back(world, outcome, merge(()))
    world.apply(merge(()))
    assert world.cluster.truth.value(ALICE, RATE) == 100.0


def test_the_rollback_of_an_override_that_has_ended_begins_none():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome = world.apply(OLD, overrides=(raise_for_an_hour(world, 900.0),))
    world.cluster.clock.advance(3_601.0)
    world.apply(OLD)
    roll_back(world, outcome, OLD)
    assert (world.cluster.truth.value(ALICE, RATE), world.owned().overrides) == (100.0, {})


def test_the_rollback_of_an_override_above_another_holds_the_value_of_that_one():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    world.apply(OLD, overrides=(raise_for_an_hour(world, 900.0),))
    outcome = world.apply(OLD, overrides=(raise_for_an_hour(world, 1_800.0),))
    roll_back(world, outcome, OLD)
    assert world.cluster.truth.value(ALICE, RATE) == 900.0
    assert world.owned().overrides[ALICE, RATE].before == 100.0


def raise_for_an_hour(world: World, value: float) -> NewOverride:
    return NewOverride(
        entity=ALICE,
        key=RATE,
        value=value,
        until=world.cluster.clock.now() + 3_600.0,
        principal="eve",
        reason="INC-1",
    )
