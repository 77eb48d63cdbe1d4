"""Whether the broker would accept a plan: by the broker where permitted, otherwise by its rules, as the plan says."""

import pytest

from reconciler.errors import AuthorizationError, PlanRefused
from reconciler.quota.state import Applied, Rejected
from reconciler.reconcile import ValidationMode
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, documents

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


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        (frozenset({"Describe"}), "lacks the AlterConfigs permission"),
        (None, "does not report the permissions of the principal"),
    ],
)
def test_without_the_right_the_rules_of_the_version_line_are_used(rights, why):
    world = World(rights=rights, behaves_as="3.9")
    result = verdict(world, validator=rules)
    assert (result.source, dict(result.rejections)) == ("sandbox 3.9", {BOB: NO})
    assert why in result.reason
    assert world.cluster.validated == []


def test_a_right_that_is_missing_at_the_broker_falls_back_to_the_rules():
    world = World()

    def deny(name: str) -> None:
        if name == "validate":
            raise AuthorizationError("AlterConfigs is missing", code=31)

    world.cluster.faults.before = deny
    assert verdict(world, validator=rules).source == "sandbox 4.x"
    with pytest.raises(AuthorizationError):
        verdict(world, validator=rules, validation=ValidationMode.BROKER)


def test_without_a_validator_the_plan_is_not_validated():
    world = World(rights=None)
    assert verdict(world).source == "none"
    with pytest.raises(PlanRefused, match="rules are not available"):
        verdict(world, validation=ValidationMode.SANDBOX)
