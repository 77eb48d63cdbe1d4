"""Validation by a broker's rules, offline."""

from reconciler.quota.entity import entity
from reconciler.quota.outcome import Alteration, Applied, Rejected
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


def test_only_4_4_rejects_nan() -> None:
    alterations = [Alteration(ALICE, (("request_percentage", float("nan")),))]
    results = {name: validate(profile, alterations)[ALICE] for name, profile in PROFILES.items()}
    assert results["3.4"] == results["3.9"] == Applied()
    assert results["4.x"] == Rejected(
        code=42, name="INVALID_REQUEST", message="Quota request_percentage must be a finite number"
    )


def test_any_number_of_entities_is_validated() -> None:
    alterations = [
        Alteration(entity(user=f"u{number}"), (("producer_byte_rate", 1.0),))
        for number in range(10_500)
    ]
    assert set(validate(PROFILES["4.x"], alterations).values()) == {Applied()}


def test_a_repeated_entity_is_refused() -> None:
    twice = [Alteration(ALICE, (("producer_byte_rate", 1.0),))] * 2
    (problem,) = validate(PROFILES["4.x"], twice).values()
    assert isinstance(problem, Rejected)
    assert problem.message.startswith("Ignoring duplicate entity")


def test_host_names_are_accepted_only_if_the_caller_declares_them_resolvable() -> None:
    host = entity(ip="broker.example.com")
    alterations = [Alteration(host, (("connection_creation_rate", 1.0),))]
    assert isinstance(validate(PROFILES["4.x"], alterations)[host], Rejected)
    results = validate(PROFILES["4.x"], alterations, resolvable={"broker.example.com"})
    assert results[host] == Applied()
