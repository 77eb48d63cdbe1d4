"""A saved plan is applied only where cluster, records, documents and clock still agree."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.codecs.plan import read_plan, saved_plan
from reconciler.errors import StalePlan
from reconciler.quota.ownership import Owner, RecordDropped, Recorded
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import Cause
from reconciler.quota.state import limits_of
from reconciler.reconcile import NewOverride, check_approved, check_digest
from reconciler.render.json_values import dump
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, ANYONE, BOB, RATE, SHARE, World, documents

OLD = documents({ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}})
NEW = documents({ALICE: {RATE: 200.0}, BOB: {SHARE: 5.0}})
"""One set, one change, one removal."""


def reviewed(world: World, desired=NEW):
    """A plan that was written to a file and read back."""
    text = dump(saved_plan(world.plan(desired).preview))
    return read_plan(text, location="plan.json")


def started() -> World:
    world = World({ANYONE: {RATE: 10.0}})
    world.apply(OLD)
    return world


def check(world: World, saved, desired=NEW, **more) -> None:
    check_approved(saved, world.plan(desired).preview, now=world.cluster.clock.now(), **more)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (ALICE, RATE, 150.0),
            "user=alice producer_byte_rate: live was 100 B/s, is 150 B/s; its cause was Spec, is SpecOverDrift",
        ),
        (
            (BOB, SHARE, 7.0),
            "user=bob request_percentage: live was not set, is 7 %; its cause was Create, is Takeover",
        ),
        (
            (ALICE_SHOP, RATE, None),
            "producer_byte_rate: reviewed remove, now nothing (Gone, live is not set)",
        ),
        (
            (ANYONE, RATE, None),
            "user=<default> producer_byte_rate: live was 10 B/s, is not set; clients of a removal fall back to it",
        ),
    ],
)
def test_a_changed_cluster_makes_the_plan_stale_with_the_difference(change, words):
    world = started()
    saved = reviewed(world)
    world.cluster.write(*change)
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.exit_code == 4
    assert len(caught.value.differences) == 1
    assert words in caught.value.differences[0]


def test_a_limit_that_the_plan_does_not_rely_on_may_change():
    world = started()
    saved = reviewed(world)
    world.cluster.write(BOB, RATE, 7.0)
    check(world, saved)


@pytest.mark.parametrize(
    "change",
    [
        RecordDropped(entity=ALICE, key=RATE),
        Recorded(entity=ALICE, key=RATE, value=99.0, owner=Owner(document="team/x")),
    ],
)
def test_changed_records_make_the_plan_stale(change):
    world = started()
    saved = reviewed(world)
    asyncio.run(world.inventory.write("fake-cluster", [change]))
    with pytest.raises(StalePlan, match="no longer fits"):
        check(world, saved)


def override(world: World, value: float, *, seconds: float) -> NewOverride:
    until = world.cluster.clock.now() + seconds
    return NewOverride(
        entity=ALICE, key=RATE, value=value, until=until, principal="ops", reason="incident\n"
    )


@pytest.mark.parametrize("seconds", [3600.0, 60.0], ids=["in force", "over"])
@pytest.mark.parametrize("value", [100.0, 500.0])
def test_an_override_that_begins_or_ends_since_the_plan_does_not_make_it_stale(value, seconds):
    world = started()
    saved = reviewed(world)
    world.apply(OLD, overrides=(override(world, value, seconds=seconds),))
    world.cluster.clock.advance(120.0)
    check(world, saved)
    assert world.apply(NEW).complete
    is_over = seconds == 60.0
    assert world.cluster.truth.value(ALICE, RATE) == (200.0 if is_over else value)
    world.cluster.clock.advance(3600.0)
    world.apply(NEW)
    assert world.cluster.truth.value(ALICE, RATE) == 200.0


def test_the_end_of_a_document_since_the_plan_does_not_make_it_stale():
    world = started()
    raised = Declaration(
        document="team/raise",
        entity=ALICE,
        limits=limits_of({RATE: 300.0}),
        until=world.cluster.clock.now() + 60,
    )
    lasting = [claim for claims in NEW.claims.values() for claim in claims]
    saved = reviewed(world, merge([*lasting, raised]))
    assert Cause.TEMPORARY in {change.cause for change in saved.plan.changes}
    world.cluster.clock.advance(60)
    check(world, saved, merge([*lasting, raised], now=world.cluster.clock.now()))
    with pytest.raises(StalePlan, match="no longer fits"):
        check(world, saved, merge(lasting))  # It was deleted before its end.


def test_a_plan_that_was_reviewed_under_an_override_fits_after_its_end():
    world = started()
    world.apply(OLD, overrides=(override(world, 500.0, seconds=60.0),))
    saved = reviewed(world)
    assert [change.pair for change in saved.plan.pending] == [(ALICE, RATE)]
    world.cluster.clock.advance(120.0)
    check(world, saved)


def test_a_declaration_that_changes_under_an_override_makes_a_plan_stale():
    world = started()
    world.apply(OLD, overrides=(override(world, 500.0, seconds=60.0),))
    saved = reviewed(world)
    changed = documents({ALICE: {RATE: 300.0}, BOB: {SHARE: 5.0}})
    with pytest.raises(StalePlan):
        check(world, saved, changed)


def test_a_plan_without_the_records_of_the_run_is_stale_and_says_what_both_need():
    world = started()
    elsewhere = World({ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}, ANYONE: {RATE: 10.0}})
    with pytest.raises(StalePlan) as caught:
        check(world, reviewed(elsewhere))
    assert "planning and applying need the same records" in caught.value.differences[-1]


def test_another_cluster_makes_the_plan_stale():
    saved = reviewed(started())
    with pytest.raises(StalePlan) as caught:
        check(World(cluster_id="other"), saved)
    assert "cluster fake-cluster, the current cluster is other" in caught.value.differences[0]


def test_a_plan_of_no_cluster_is_stale_and_says_so():
    with pytest.raises(StalePlan) as caught:
        check(started(), reviewed(World(cluster_id="")))
    assert "the plan was made offline and names no cluster" in caught.value.differences[0]


def test_a_plan_expires():
    world = started()
    saved = reviewed(world)
    world.cluster.clock.advance(86_401.0)
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.differences == ("the plan is 1 d old; 1 d is allowed (--max-age)",)
    check(world, saved, max_age=100_000.0)


def test_only_a_plan_with_the_approved_digest_is_applied():
    world = started()
    saved = reviewed(world)
    check(world, saved, digest=saved.digest)
    with pytest.raises(StalePlan):
        check(world, saved, digest="sha256:other")
    check_digest(world.plan(NEW).preview, saved.digest)
    with pytest.raises(StalePlan):
        check_digest(world.plan(OLD).preview, saved.digest)


@pytest.mark.parametrize(
    "change", [(ANYONE, RATE, None), (ANYONE, RATE, 20.0), (ALICE, RATE, 150.0)]
)
def test_an_approved_digest_alone_binds_the_values_that_were_reviewed(change):
    """The default would have limited the clients of the removal; without it they would be unlimited."""
    world = started()
    approved = world.plan(NEW).preview.digest
    check_digest(world.plan(NEW).preview, approved)
    world.cluster.write(*change)
    with pytest.raises(StalePlan):
        check_digest(world.plan(NEW).preview, approved)


def test_a_limit_of_another_document_is_another_effect_and_is_told():
    world = started()
    prepared = world.plan(NEW)
    saved = reviewed(world)
    moved = tuple(
        replace(change, claim=replace(change.claim, document="team/moved"))
        if change.claim is not None
        else change
        for change in prepared.plan.changes
    )
    preview = replace(prepared.preview, plan=replace(prepared.plan, changes=moved))
    with pytest.raises(StalePlan) as caught:
        check_approved(saved, preview, now=preview.created_at)
    assert len(caught.value.differences) == 2
    assert all(", is team/moved" in difference for difference in caught.value.differences)


def test_two_plans_on_disjoint_pairs_are_applied_in_any_order():
    world = started()
    base = {ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}}
    alice_limits, bob_limits = base | {ALICE: {RATE: 200.0}}, base | {BOB: {SHARE: 5.0}}
    first, second = reviewed(world, documents(alice_limits)), reviewed(world, documents(bob_limits))
    check(world, first, documents(alice_limits))
    world.apply(documents(alice_limits))
    merged = documents(base | {ALICE: {RATE: 200.0}, BOB: {SHARE: 5.0}})
    check(world, second, merged)
    assert world.apply(merged).complete
