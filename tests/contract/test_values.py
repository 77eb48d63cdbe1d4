"""Every row of the tables of values and addresses, asked of every target with validate-only."""

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
from tests.contract.raw import Said
from tests.contract.targets import Target


def test_every_value_is_judged_as_its_line_judges_it(target: Target) -> None:
    with target.connect() as connection:
        found = [
            (key, value, connection.said((OWNERS[key], ((key, value),)), validate_only=True))
            for key, value, _ in VALUES
        ]
    wrong = [
        (key, value, said, target.expected(table))
        for (key, value, said), (_, _, table) in zip(found, VALUES, strict=True)
        if said != {OWNERS[key]: target.expected(table)}
    ]
    assert not wrong


def test_accepted_values_come_back_as_they_were_stored(empty: Target) -> None:
    accepted = [
        (key, value)
        for key, value, table in VALUES
        if target_accepts(empty, table) and not math.isnan(value)
    ]
    kept = {}
    alterations = []
    for place, (key, value) in enumerate(accepted):
        names = (("ip", f"10.0.1.{place}"),) if key == CONNECTION else (("user", f"v{place}"),)
        kept[names] = {key: value}
        alterations.append((names, ((key, value),)))
    with empty.connect() as connection:
        assert set(connection.said(*alterations).values()) == {OK}
        connection.settled(kept)


def target_accepts(target: Target, table: Mapping[str, Said]) -> bool:
    return target.expected(table) == OK


def test_every_address_is_judged_as_java_judges_it(target: Target) -> None:
    rows = dict.fromkeys(RESOLVED, OK) | {
        text: invalid(f"{text} is not a valid IP or resolvable host.") for text in UNRESOLVED
    }
    with target.connect() as connection:
        said = connection.said(
            *(((("ip", text),), ((CONNECTION, 5.0),)) for text in rows), validate_only=True
        )
    assert said == {(("ip", text),): answer for text, answer in rows.items()}


def test_nan_is_stored_where_it_is_accepted(empty: Target) -> None:
    """The lines before 4.4 keep a NaN, and removing it works like any removal."""
    names = (("user", "not a number"),)
    nan = float("nan")
    with empty.connect() as connection:
        (said,) = connection.said((names, ((PRODUCER, nan),))).values()
        if said == OK:
            connection.settled({names: {PRODUCER: nan}})
        assert said == empty.expected(
            {"all": OK, "4.0-4.3": OK, "4.x": invalid(f"Quota {PRODUCER} must be a finite number")}
        )
        assert connection.said((names, ((PRODUCER, None),))) == {names: OK}
        connection.settled({})
