"""The start of a run: the right cluster, overrides that begin and end, writes that may still arrive."""

import asyncio
import math

import pytest
from msgspec.structs import replace

from reconciler.errors import PlanRefused, UsageError
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.policy import Policy, Rules
from reconciler.reconcile import NewOverride, observe
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, declared, documents, state

BOBS = EntityPattern(user=NamePattern(exact="bob"))
DESIRED = documents({ALICE: {RATE: 100.0}})


def order(value, *, subject=ALICE, seconds=3600.0, world: World) -> NewOverride:
    return NewOverride(
        entity=subject,
        key=RATE,
        value=value,
        until=world.cluster.clock.now() + seconds,
        principal="me",
        reason="night",
    )


@pytest.mark.parametrize(
    ("rules", "live", "words"),
    [
        ({"scope": (BOBS,)}, 100.0, "outside of the scope"),
        ({"scope": (BOBS,)}, None, "outside of the scope"),
        ({"policy": Policy.CREATE_ONLY}, 100.0, "CreateOnly writes no document with this value"),
        ({"policy": Policy.OBSERVE}, None, "Observe writes no document with this value"),
    ],
)
def test_an_override_that_a_document_could_not_declare_is_refused(rules, live, words):
    world = World({} if live is None else {ALICE: {RATE: live}})
    narrow = Rules(**rules)
    with pytest.raises(PlanRefused, match=words):
        world.plan(DESIRED, rules=narrow, overrides=(order(5.0, world=world),))


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
