"""Validation by a broker's rules, offline."""

from reconciler.quota.entity import entity
from reconciler.quota.state import Alteration, Applied, Rejected
from reconciler.sandbox import PROFILES, validate

ALICE, BOB, PLACE = entity(user="alice"), entity(user="bob"), entity(ip="10.0.0.0/8")


def test_each_entity_is_validated_by_the_rules_of_the_version_line() -> None:
    alterations = [
        Alteration(ALICE, (("producer_byte_rate", 0.0),)),
        Alteration(BOB, (("producer_byte_rate", None), ("request_percentage", 200.0))),
        Alteration(PLACE, (("connection_creation_rate", 1.0),)),
    ]
    refused = Rejected(
        code=42, name="INVALID_REQUEST", message="10.0.0.0/8 is not a valid IP or resolvable host."
    )
    assert validate(PROFILES["3.4"], alterations) == {
        ALICE: Applied(),
        BOB: Applied(),
        PLACE: refused,
    }
    assert validate(PROFILES["3.9"], alterations)[ALICE] == Rejected(
        code=42, name="INVALID_REQUEST", message="Quota producer_byte_rate must be greater than 0"
    )


def test_a_repeated_entity_is_refused() -> None:
    twice = [Alteration(ALICE, (("producer_byte_rate", 1.0),))] * 2
    (problem,) = validate(PROFILES["4.x"], twice).values()
    assert isinstance(problem, Rejected)
    assert problem.message.startswith("Ignoring duplicate entity")
