"""Whether the broker would accept a plan: by the broker where it may be asked, else by its rules; the plan names which."""

import asyncio

import pytest

from reconciler.errors import AuthorizationError, PlanRefused
from reconciler.quota.outcome import Applied, Rejected
from reconciler.quota.state import QuotaState
from reconciler.reconcile import Observation, ValidationMode, preview
from reconciler.reconcile.validation import requests, validate
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE, World, documents

TWO = documents({ALICE: {RATE: 2048.0}, BOB: {RATE: 4096.0}})
NO = Rejected(code=42, name="INVALID_REQUEST", message="no")


def rules(line, alterations):
    return {
        alteration.entity: NO if alteration.entity == BOB else Applied()
        for alteration in alterations
    }


def verdict(world: World, *, validator=None, **orders):
    ports = type(world.ports)(
        store=world.cluster,
        inventory=world.inventory,
        clock=world.cluster.clock,
        validator=validator,
    )
    world.ports = ports
    return world.plan(TWO, **orders).preview.verdict


def test_the_broker_is_asked_where_the_credential_may_already():
    world = World()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    result = verdict(world, validator=rules)
    assert (result.source, dict(result.rejections), result.reason) == ("broker", {ALICE: NO}, "")
    assert world.cluster.sent == []
    assert len(world.cluster.validated) == 1


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        (frozenset({"Describe"}), "lacks the AlterConfigs permission"),
        (None, "does not report the permissions of the principal"),
    ],
)
def test_without_the_right_the_rules_of_the_clusters_line_are_asked(rights, why):
    world = World(rights=rights, behaves_as="3.9")
    result = verdict(world, validator=rules)
    assert (result.source, dict(result.rejections)) == ("sandbox 3.9", {BOB: NO})
    assert why in result.reason
    assert world.cluster.validated == []


def test_a_right_that_proves_missing_falls_back_to_the_rules():
    world = World()

    def deny(name: str) -> None:
        if name == "validate":
            raise AuthorizationError("AlterConfigs is missing", code=31)

    world.cluster.faults.before = deny
    assert verdict(world, validator=rules).source == "sandbox 4.x"
    with pytest.raises(AuthorizationError):
        verdict(world, validator=rules, validation=ValidationMode.BROKER)


def test_nobody_at_hand_is_told_as_such():
    world = World(rights=None)
    assert verdict(world).source == "none"
    with pytest.raises(PlanRefused, match="rules are not available"):
        verdict(world, validation=ValidationMode.SANDBOX)


def test_none_asks_nobody():
    world = World()
    result = verdict(world, validator=rules, validation=ValidationMode.NONE)
    assert (result.source, world.cluster.validated) == ("none", [])


def test_an_empty_plan_needs_no_verdict():
    world = World()
    world.apply(TWO)
    assert world.plan(TWO).preview.verdict.reason == "there is nothing to validate"


def test_a_refusal_makes_the_plan_errored_but_still_applyable():
    world = World()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    displayed_preview = world.plan(TWO).preview
    assert displayed_preview.errored
    assert displayed_preview.applyable


def test_an_entity_that_is_set_and_removed_from_stands_once_in_each_pass():
    world = World()
    world.apply(documents({ALICE: {SHARE: 5.0}}))
    passes = requests(world.plan(documents({ALICE: {RATE: 5.0}})).plan.changes)
    assert [[alteration.operations for alteration in chunk] for chunk in passes] == [
        [(("producer_byte_rate", 5.0),)],
        [(("request_percentage", None),)],
    ]


def test_a_snapshot_is_judged_by_the_rules_without_any_request():
    world = World()
    ports = type(world.ports)(
        store=world.cluster, inventory=world.inventory, clock=world.cluster.clock, validator=rules
    )
    owned = asyncio.run(world.inventory.load("lkc"))
    observation = Observation(
        cluster=None, cluster_id="lkc", live=QuotaState(), owned=owned, at=100.0, snapshot_at=40.0
    )
    from_snapshot = preview(
        observation,
        TWO,
        world.orders,
        verdict=asyncio.run(validate(ports, world.orders, observation, ())),
    )
    process = asyncio.run(validate(ports, world.orders, observation, from_snapshot.plan.changes))
    assert process.source == "sandbox 4.x"
    assert world.cluster.requests == []
    assert from_snapshot.preview.snapshot_at == 40.0
