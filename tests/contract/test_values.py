"""Every row of the tables of values and addresses, sent to every target with validate-only."""

import math
from collections.abc import Mapping

from tests.contract.expectations import (
    CONNECTION,
    OK,
    OWNERS,
    PRODUCER,
    RESOLVED,
    UNRESOLVED,
    VALUES,
    invalid,
)
from tests.contract.raw import Verdict
from tests.contract.targets import Target


def test_every_value_has_the_verdict_of_its_version_line(target: Target) -> None:
    with target.connect() as connection:
        verdicts = [
            (key, value, connection.verdicts((OWNERS[key], ((key, value),)), validate_only=True))
            for key, value, _ in VALUES
        ]
    wrong = [
        (key, value, verdict, target.expected(table))
        for (key, value, verdict), (_, _, table) in zip(verdicts, VALUES, strict=True)
        if verdict != {OWNERS[key]: target.expected(table)}
    ]
    assert not wrong


def test_accepted_values_are_read_back_as_stored(empty: Target) -> None:
    accepted = [
        (key, value)
        for key, value, table in VALUES
        if target_accepts(empty, table) and not math.isnan(value)
    ]
    quotas = {}
    alterations = []
    for place, (key, value) in enumerate(accepted):
        names = (("ip", f"10.0.1.{place}"),) if key == CONNECTION else (("user", f"v{place}"),)
        quotas[names] = {key: value}
        alterations.append((names, ((key, value),)))
    with empty.connect() as connection:
        assert set(connection.verdicts(*alterations).values()) == {OK}
        connection.settled(quotas)


def target_accepts(target: Target, table: Mapping[str, Verdict]) -> bool:
    return target.expected(table) == OK


def test_every_address_has_the_verdict_of_java(target: Target) -> None:
    rows = dict.fromkeys(RESOLVED, OK) | {
        text: invalid(f"{text} is not a valid IP or resolvable host.") for text in UNRESOLVED
    }
    with target.connect() as connection:
        verdicts = connection.verdicts(
            *(((("ip", text),), ((CONNECTION, 5.0),)) for text in rows), validate_only=True
        )
    assert verdicts == {(("ip", text),): answer for text, answer in rows.items()}


def test_nan_is_stored_where_it_is_accepted(empty: Target) -> None:
    """Versions before 4.4 store a NaN, and it can be removed like any value."""
    names = (("user", "not a number"),)
    nan = float("nan")
    with empty.connect() as connection:
        (verdict,) = connection.verdicts((names, ((PRODUCER, nan),))).values()
        if verdict == OK:
            connection.settled({names: {PRODUCER: nan}})
        assert verdict == empty.expected(
            {"all": OK, "4.0-4.3": OK, "4.x": invalid(f"Quota {PRODUCER} must be a finite number")}
        )
        assert connection.verdicts((names, ((PRODUCER, None),))) == {names: OK}
        connection.settled({})
