"""The start of a run: the right cluster, overrides that begin and end, writes that may still arrive."""

import math

import pytest

from reconciler.errors import PlanRefused, UsageError
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.policy import Policy, Rules
from reconciler.reconcile import NewOverride
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, documents

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
        ({"policy": Policy.CREATE_ONLY}, 100.0, "CreateOnly changes no live limit"),
        ({"policy": Policy.OBSERVE}, None, "Observe is in force"),
    ],
)
def test_an_override_that_a_document_could_not_declare_is_refused(rules, live, words):
    world = World({} if live is None else {ALICE: {RATE: live}})
    narrow = Rules(**rules)
    with pytest.raises(PlanRefused, match=words):
        world.plan(DESIRED, rules=narrow, overrides=(order(5.0, world=world),))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_an_override_with_a_value_that_kafka_does_not_enforce_is_refused(value):
    world = World()
    with pytest.raises(UsageError, match="cannot be set"):
        world.plan(DESIRED, overrides=(order(value, world=world),))


def test_a_pair_with_a_live_value_that_cannot_be_restored_is_not_overridden():
    world = World({BOB: {RATE: math.nan}})
    with pytest.raises(UsageError, match="Kafka would not accept"):
        world.plan(DESIRED, overrides=(order(5.0, subject=BOB, world=world),))
