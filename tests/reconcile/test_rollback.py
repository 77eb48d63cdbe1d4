"""Rollbacks: the earlier values are restored and stay until the document changes, or a day has passed."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.codecs.outcome import outcome_document, read_undo
from reconciler.errors import ConnectError
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.planner.guards import Guard
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy, Policy
from reconciler.quota.results.report import Outcome
from reconciler.reconcile import NewOverride, observe, rollback_orders
from reconciler.reconcile.drift import as_applied
from reconciler.render.json_values import dump
from tests.fakes.cluster import LANDED, LOST, Faults
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
    change = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC)
    (order,) = rollback_orders([change], now=0.0, principal="me", reason="", seconds=10**9)
    assert (order.until, order.value, order.rolls_back) == (86_400.0, 1.0, change)


def test_rejected_and_held_changes_are_not_rolled_back():
    world = World()
    world.cluster.faults.rejected[BOB] = (42, "INVALID_REQUEST", "no")
    undo = read_undo(dump(outcome_document(world.apply(NEW))), location="OUTCOME.json")
    assert [(change.pair, change.before) for change in undo.changes] == [((ALICE, RATE), None)]


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


def test_the_rollback_of_an_override_leaves_no_temporary_value_for_good():
    """After it and the deletion of the document, the limit from before both overrides returns, and is removed with it."""
    world = World(policy=Policy.UPSERT)
    limited = merge(
        [replace(declared(ALICE, {RATE: 100.0}), deletion_policy=DeletionPolicy.DELETE)]
    )
    world.apply(limited)
    outcomes = []
    for value in (500.0, 700.0):
        order = NewOverride(
            entity=ALICE, key=RATE, value=value, until=1e12, principal="me", reason="night"
        )
        outcomes.append(world.apply(limited, overrides=(order,)))
    roll_back(world, outcomes[-1], limited)
    assert world.cluster.truth == state({ALICE: {RATE: 500.0}})
    world.apply(merge([]))
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})
    world.apply(merge([]))
    assert world.cluster.truth == state({})


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


def test_a_second_rollback_ends_with_its_document_too():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome = world.apply(NEW)
    for _ in range(2):
        roll_back(world, outcome, NEW)
    assert world.plan(NEW).plan.reviewed == ()
    world.apply(documents({ALICE: {RATE: 300.0}, BOB: {SHARE: 5.0}}))
    assert world.cluster.truth == state({ALICE: {RATE: 300.0}})


def test_a_rollback_over_an_unapplied_value_that_the_broker_refuses_leaves_the_records():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome = world.apply(NEW)
    before = world.owned()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    roll_back(world, outcome, documents({ALICE: {RATE: 700.0}, BOB: {SHARE: 5.0}}))
    after = world.owned()
    assert (ALICE, RATE) not in after.overrides
    assert after.records[ALICE] == before.records[ALICE]


def test_a_second_rollback_without_readable_documents_stays_once_they_can_be_read():
    world = World(policy=Policy.UPSERT)
    world.apply(OLD)
    outcome = world.apply(NEW)
    for _ in range(2):
        observation = asyncio.run(observe(world.ports, world.orders))
        world.orders = world.options(rules=replace(world.orders.rules, complete=False))
        roll_back(world, outcome, as_applied(observation))
    world.orders = world.options(rules=replace(world.orders.rules, complete=True))
    assert world.apply(NEW).pairs == ()
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})


@pytest.mark.parametrize("begins", ["override", "rollback"])
def test_a_write_that_landed_before_an_override_began_is_recorded_below_it(begins):
    """The answer was lost and the run was killed; the next run begins an override and adopts nothing else."""
    deleting = DeletionPolicy.DELETE

    def wanted(value):
        bob = declared(BOB, {RATE: 5.0})
        return merge([declared(ALICE, {RATE: value}, policy=deleting), bob])

    world = World({BOB: {RATE: 5.0}}, policy=Policy.UPSERT)
    world.apply(wanted(100.0), only=lambda e, _: e == ALICE)
    world.cluster.faults.unknown[ALICE] = LANDED
    world.cluster.faults.before = _fails_after_alter()
    outcome = world.apply(wanted(200.0), only=lambda e, _: e == ALICE)
    world.cluster.faults = Faults()
    assert (ALICE, RATE) in world.owned().intents
    if begins == "rollback":
        roll_back(world, outcome, wanted(200.0))
        recorded = 100.0
    else:
        until = world.cluster.clock.now() + 60.0
        order = NewOverride(
            entity=ALICE, key=RATE, value=900.0, until=until, principal="me", reason="night"
        )
        world.apply(wanted(200.0), overrides=(order,), only=lambda e, _: e == ALICE)
        recorded = 200.0
    owned = world.owned()
    assert (owned.applied_value((ALICE, RATE)), dict(owned.intents)) == (recorded, {})
    assert BOB not in owned.records
    assert [entry.outcome for entry in world.audit.entries].count("APPLIED") == 3
    world.cluster.clock.advance(86_400.0)
    only_bob = merge([declared(BOB, {RATE: 5.0})])
    for _ in range(2):
        world.apply(only_bob)
    assert world.cluster.truth == state({BOB: {RATE: 5.0}})


def _fails_after_alter():
    requests = []

    def before(name):
        requests.append(name)
        if "alter" in requests and name in {"describe", "wait_visible"}:
            raise ConnectError("gone")

    return before
