"""Entities, keys, duplicates, removals, validate-only and the size of a request, on every target."""

import pytest

from tests.contract.expectations import (
    CONSUMER,
    ENTITIES,
    KEYS,
    OK,
    PRODUCER,
    REQUEST,
    REQUESTS,
    USER,
    Request,
    Row,
)
from tests.contract.raw import Names, Quotas
from tests.contract.targets import Target

RECORDS = 10_000
TOO_MANY = (44, "Request parameters do not satisfy the configured policy.")
FAILED = (-1, "The server experienced an unexpected error when processing the request.")


def users(count: int) -> list[tuple[Names, tuple[tuple[str, float | None], ...]]]:
    return [((("user", f"u{number}"),), ((PRODUCER, 1.0),)) for number in range(count)]


@pytest.mark.parametrize("row", [*ENTITIES, *KEYS], ids=lambda row: row.name[:40])
def test_an_alteration_has_the_result_and_the_stored_values_of_its_row(
    empty: Target, row: Row
) -> None:
    names = tuple(sorted(row.parts))
    expected = {names: empty.expected(row.verdict)}
    with empty.connect() as connection:
        assert connection.verdicts((row.parts, row.operations), validate_only=True) == expected
        assert connection.quotas() == {}
        assert connection.verdicts((row.parts, row.operations)) == expected
        connection.settled({names: dict(row.stored)} if row.stored else {})


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.name)
def test_a_request_has_the_result_and_the_stored_values_of_its_row(
    empty: Target, request_: Request
) -> None:
    with empty.connect() as connection:
        assert connection.verdicts(*request_.alterations, validate_only=True) == request_.verdicts
        assert connection.quotas() == {}
        assert connection.verdicts(*request_.alterations) == request_.verdicts
        connection.settled(request_.stored)


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_both_apis_give_the_same_results(empty: Target, version: int) -> None:
    names = (("client-id", None), ("user", "\u65e5"))
    with empty.connect() as connection:
        answer = connection.alter((names, ((PRODUCER, 5.0),)), version=version)
        assert answer.results == ((names, 0, None),)
        connection.settled({names: {PRODUCER: 5.0}})
        described = connection.describe(version=version)
    assert described.quotas == {names: {PRODUCER: 5.0}}
    assert described.verdict == (0, "")


def test_an_entity_keeps_its_other_keys_and_disappears_with_its_last(empty: Target) -> None:
    with empty.connect() as connection:
        connection.verdicts((USER, ((PRODUCER, 1.0), (CONSUMER, 2.0))))
        connection.settled({USER: {PRODUCER: 1.0, CONSUMER: 2.0}})
        connection.verdicts((USER, ((REQUEST, 3.0), (PRODUCER, None))))
        connection.settled({USER: {CONSUMER: 2.0, REQUEST: 3.0}})
        connection.verdicts((USER, ((CONSUMER, None), (REQUEST, None))))
        connection.settled({})


def test_setting_the_same_value_again_succeeds(empty: Target) -> None:
    with empty.connect() as connection:
        for _ in range(2):
            assert connection.verdicts((USER, ((PRODUCER, 1.0),))) == {USER: OK}
            connection.settled({USER: {PRODUCER: 1.0}})


def test_an_entity_is_altered_as_a_whole_or_not_at_all(empty: Target) -> None:
    with empty.connect() as connection:
        connection.verdicts((USER, ((PRODUCER, 1.0), (CONSUMER, 2.0))))
        connection.settled({USER: {PRODUCER: 1.0, CONSUMER: 2.0}})
        (verdict,) = connection.verdicts((USER, ((PRODUCER, None), (CONSUMER, 0.5)))).values()
        assert verdict[0] == 42
        # A visible later change proves that no part of the earlier one is still pending.
        connection.verdicts(((("user", "later"),), ((PRODUCER, 9.0),)))
        connection.settled(
            {USER: {PRODUCER: 1.0, CONSUMER: 2.0}, (("user", "later"),): {PRODUCER: 9.0}}
        )


def test_ten_thousand_records_are_accepted_and_one_more_is_rejected(empty: Target) -> None:
    with empty.connect() as connection:
        more = users(RECORDS + 1)
        values = set(connection.verdicts(*more, validate_only=True).values())
        assert values == {empty.expected({"3.4": OK, "all": TOO_MANY})}
        verdicts = connection.verdicts(*more)
        assert len(verdicts) == RECORDS + 1
        assert set(verdicts.values()) == {empty.expected({"3.4": FAILED, "all": TOO_MANY})}
        assert set(connection.verdicts(*users(RECORDS)).values()) == {OK}
        quotas: Quotas = {names: {PRODUCER: 1.0} for names, _ in users(RECORDS)}
        connection.settled(quotas)
        # A request without a change writes no record.
        assert set(connection.verdicts(*more, validate_only=True).values()) == {OK}


def test_rejected_entities_do_not_count_and_fail_with_the_whole_request(empty: Target) -> None:
    bad = ((("user", "bad"),), ((PRODUCER, 1.0), (CONSUMER, 0.5)))
    nameless = ((("user", ""),), ((PRODUCER, 1.0),))
    with empty.connect() as connection:
        verdicts = connection.verdicts(*users(RECORDS), bad, validate_only=True)
        assert verdicts.pop(bad[0])[0] == 42
        assert set(verdicts.values()) == {OK}
        verdicts = connection.verdicts(*users(RECORDS + 1), nameless, validate_only=True)
        expected = {"3.4": (42, "Empty user not supported"), "all": TOO_MANY}
        assert verdicts[nameless[0]] == empty.expected(expected)


def test_a_removal_counts_as_a_record(empty: Target) -> None:
    with empty.connect() as connection:
        connection.verdicts(*users(1))
        connection.settled({names: {PRODUCER: 1.0} for names, _ in users(1)})
        removal = (users(1)[0][0], ((PRODUCER, None),))
        sets = users(RECORDS + 1)[1:]
        verdicts = connection.verdicts(removal, *sets, validate_only=True)
        assert set(verdicts.values()) == {empty.expected({"3.4": OK, "all": TOO_MANY})}
        never = (users(1)[0][0], ((CONSUMER, None),))
        assert set(connection.verdicts(never, *sets, validate_only=True).values()) == {OK}
