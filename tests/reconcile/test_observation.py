"""The start of a run: the right cluster, overrides that begin and end, writes that may still arrive."""

import asyncio
import math
from dataclasses import replace

import pytest

from reconciler.errors import UsageError
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    Override,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordChange,
    Recorded,
)
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.policy import Cause, Policy
from reconciler.reconcile import NewOverride, observe
from reconciler.reconcile.observation import begin_override
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, declared, documents, state

DESIRED = documents({ALICE: {RATE: 100.0}})


def order(value, *, subject=ALICE, seconds=3600.0, world: World, ends=False) -> NewOverride:
    return NewOverride(
        entity=subject,
        key=RATE,
        value=value,
        until=world.cluster.clock.now() + seconds,
        principal="me",
        reason="night",
        ends_with_document=ends,
    )


def test_an_override_replaces_the_declared_value_until_it_ends():
    world = World()
    world.apply(DESIRED)
    world.apply(DESIRED, overrides=(order(500.0, world=world),))
    assert world.cluster.truth == state({ALICE: {RATE: 500.0}})
    override = world.owned().overrides[ALICE, RATE]
    assert (override.before, override.declared, override.author) == (100.0, 100.0, "me")

    assert world.apply(DESIRED).pairs == ()
    world.cluster.clock.advance(3601.0)
    outcome = world.apply(DESIRED)
    assert [pair.change.cause for pair in outcome.pairs] == [Cause.OVERRIDE_EXPIRED]
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})
    assert world.owned().overrides == {}
    assert world.apply(DESIRED).pairs == ()


def test_an_override_of_an_undeclared_pair_restores_the_earlier_value_and_owns_nothing():
    world = World({BOB: {RATE: 7.0}}, policy=Policy.UPSERT)
    world.apply(DESIRED, overrides=(order(9.0, subject=BOB, world=world),))
    assert world.cluster.truth.value(BOB, RATE) == 9.0
    world.cluster.clock.advance(3601.0)
    world.apply(DESIRED)
    assert world.cluster.truth.value(BOB, RATE) == 7.0
    assert BOB not in world.owned().records
    assert world.apply(DESIRED).pairs == ()


def test_an_override_may_remove_a_limit_and_be_overridden_itself():
    world = World()
    world.apply(DESIRED)
    world.apply(DESIRED, overrides=(order(None, world=world),))
    assert world.cluster.truth == state({})
    world.apply(DESIRED, overrides=(order(50.0, world=world),))
    assert world.owned().overrides[ALICE, RATE].before == 100.0


def test_an_override_replaces_what_the_first_replaced_whichever_of_those_between_was_written():
    owner = Owner(document="team/alice")

    def owned(*changes: RecordChange) -> OwnershipRecords:
        return OwnershipRecords(cluster_id="c").with_changes(changes)

    def recorded(value: float) -> Recorded:
        return Recorded(entity=ALICE, key=RATE, value=value, owner=owner)

    def override(value: float | None, *, is_rollback: bool = False) -> Override:
        return Override(
            entity=ALICE,
            key=RATE,
            value=value,
            until=1.0,
            author="me",
            reason="night",
            declared=value,
            ends_with_document=is_rollback,
        )

    first = begin_override(override(10.0), owned(recorded(5.0)), 5.0)
    assert (first.before, first.before_owner, first.earlier_values) == (5.0, owner, ())
    # It is written, and its record has the name of the document.
    written = recorded(10.0)
    second = begin_override(override(20.0), owned(written, OverrideSet(override=first)), 10.0)
    assert (second.before, second.declared, second.before_owner) == (5.0, 10.0, owner)
    assert second.earlier_values == (10.0,)
    intent = Intent(value=20.0, owner=owner, at=1.0)
    begun = IntentStarted(entity=ALICE, key=RATE, intent=intent)
    third_records = owned(written, OverrideSet(override=second), begun)
    third = begin_override(override(None), third_records, 10.0)
    assert (third.before, third.before_owner, third.earlier_values) == (5.0, owner, (20.0, 10.0))
    fourth_records = owned(written, OverrideSet(override=third), begun)
    fourth = begin_override(override(10.0), fourth_records, 10.0)
    assert (fourth.before, fourth.declared, fourth.earlier_values) == (5.0, 10.0, (None, 20.0))
    # A rollback ends with a change of what is declared now.
    rollback = begin_override(override(40.0, is_rollback=True), fourth_records, 10.0)
    assert (rollback.before, rollback.declared) == (5.0, 40.0)
    assert rollback.earlier_values == (None, 20.0, 10.0)
    # Values that were neither applied nor may be written any more are left out.
    fifth = begin_override(override(30.0), owned(recorded(20.0), OverrideSet(override=third)), 20.0)
    assert (fifth.before, fifth.earlier_values) == (5.0, (None, 20.0))
    # Another writer wrote meanwhile.
    foreign = begin_override(override(30.0), owned(written, OverrideSet(override=second)), 7.0)
    assert (foreign.before, foreign.declared, foreign.before_owner) == (7.0, 30.0, None)
    assert foreign.earlier_values == (20.0, 10.0)


def test_an_override_of_which_no_answer_came_leaves_nothing_of_the_one_before_it():
    world = World()
    world.apply(DESIRED)
    world.apply(DESIRED, overrides=(order(500.0, world=world),))
    for value in (600.0, 700.0):
        world.cluster.faults.unknown[ALICE] = LOST
        world.apply(DESIRED, overrides=(order(value, world=world),))
        world.cluster.clock.advance(66.0)
    assert world.cluster.truth == state({ALICE: {RATE: 500.0}})
    assert world.owned().overrides[ALICE, RATE].before == 100.0
    world.cluster.clock.advance(3601.0)
    world.cluster.faults.unknown.clear()
    world.apply(merge([replace(declared(ALICE, {RATE: 100.0}), suspended=True)]))
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})


def test_an_override_can_be_ended_early():
    world = World()
    world.apply(DESIRED)
    world.apply(DESIRED, overrides=(order(500.0, world=world),))
    world.apply(DESIRED, ended=frozenset({(ALICE, RATE)}))
    assert world.cluster.truth == state({ALICE: {RATE: 100.0}})
    assert world.owned().overrides == {}
    with pytest.raises(UsageError, match="no override of user=alice, producer_byte_rate"):
        world.plan(DESIRED, ended=frozenset({(ALICE, RATE)}))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_an_override_with_a_value_that_kafka_does_not_enforce_is_refused(value):
    world = World()
    with pytest.raises(UsageError, match="cannot be set"):
        world.plan(DESIRED, overrides=(order(value, world=world),))


def test_a_pair_with_a_live_value_that_cannot_be_restored_is_not_overridden():
    world = World({BOB: {RATE: math.nan}})
    with pytest.raises(UsageError, match="Kafka would not accept"):
        world.plan(DESIRED, overrides=(order(5.0, subject=BOB, world=world),))


def test_a_plan_with_an_override_records_nothing():
    world = World()
    world.plan(DESIRED, overrides=(order(500.0, world=world),))
    assert world.inventory.written == []


def test_a_write_may_still_land_for_65_seconds_unless_it_has_landed():
    world = World()
    world.cluster.faults.unknown[ALICE] = LOST
    world.apply(DESIRED)
    process = asyncio.run(observe(world.ports, world.orders))
    at = process.owned.intents[ALICE, RATE].at
    assert set(process.unsettled(at + 64.9)) == {(ALICE, RATE)}
    assert process.unsettled(at + 65.0) == {}
    assert "may still take effect" in world.plan(DESIRED).preview.warnings[-1]
    world.cluster.write(ALICE, RATE, 100.0)
    landed = asyncio.run(observe(world.ports, world.orders))
    assert landed.unsettled(at + 1.0) == {}
