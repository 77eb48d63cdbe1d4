"""Tests of the rules oracle against cases from Kafka's source, and against brokers."""

import math
from collections.abc import Callable, Iterator

import pytest

from tests.servers.oracle.rules import BatchRefused, RulesOracle
from tests.servers.raw_quotas import Answer, entity

pytestmark = pytest.mark.integration

ALICE, PAIR, IP = entity(user="alice"), entity(user="alice", client_id=None), entity(ip="::1")
EXACT, DEFAULT, ANY = 0, 1, 2
VALUES = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-7, 1.5, 1.0000005, 2.0**31, 2.0**63, 1e20)
KEYS = {
    "producer_byte_rate": ALICE,
    "request_percentage": PAIR,
    "connection_creation_rate": IP,
    "unheard_of": ALICE,
}
StartOracle = Callable[[str], RulesOracle]


@pytest.fixture(scope="module")
def rules() -> Iterator[StartOracle]:
    running: dict[str, RulesOracle] = {}

    def start(version: str) -> RulesOracle:
        if version not in running:
            running[version] = RulesOracle(version)
        running[version].reset()
        return running[version]

    yield start
    for oracle in running.values():
        oracle.__exit__()


def test_valid_entries_are_stored_beside_a_rejected_one(rules: StartOracle) -> None:
    oracle = rules("4.3.1")
    answers = oracle.alter(
        [(ALICE, [("producer_byte_rate", 5.0)]), (PAIR, [("producer_byte_rate", 0.0)])]
    )
    assert sorted(answers, key=lambda answer: answer.error) == [
        Answer(entity=ALICE, error=0, message=None),
        Answer(entity=PAIR, error=42, message="Quota producer_byte_rate must be greater than 0"),
    ]
    assert oracle.describe().quotas == {ALICE: {"producer_byte_rate": 5.0}}


def test_validate_only_stores_nothing(rules: StartOracle) -> None:
    oracle = rules("4.3.1")
    (answer,) = oracle.alter([(ALICE, [("producer_byte_rate", 5.0)])], validate_only=True)
    assert answer.error == 0
    assert oracle.describe().quotas == {}


def test_removing_the_last_key_removes_the_entity(rules: StartOracle) -> None:
    oracle = rules("4.3.1")
    oracle.load({ALICE: {"producer_byte_rate": 5.0}})
    oracle.alter([(ALICE, [("producer_byte_rate", None)])])
    assert oracle.describe().quotas == {}


def test_a_repeated_key_is_rejected(rules: StartOracle) -> None:
    (answer,) = rules("4.3.1").alter(
        [(ALICE, [("producer_byte_rate", 5.0), ("producer_byte_rate", 6.0)])]
    )
    assert answer.error == 42
    assert str(answer.message).startswith("Ignoring duplicate entity")


def test_more_than_ten_thousand_records_are_rejected_from_3_5_on(rules: StartOracle) -> None:
    many = [(entity(user=f"u{n}"), [("producer_byte_rate", 1.0)]) for n in range(10_001)]
    assert len(rules("3.4.1").alter(many)) == 10_001
    with pytest.raises(BatchRefused, match="maximum length of 10000"):
        rules("3.9.1").alter(many)


def test_filters_select_as_the_metadata_image(rules: StartOracle) -> None:
    oracle = rules("4.4.0")
    default = entity(user=None)
    oracle.load({owner: {"request_percentage": 1.0} for owner in (ALICE, PAIR, default)})

    def entities(*components: tuple[str, int, str | None], strict: bool) -> set:
        return set(oracle.describe(components, strict=strict).quotas)

    assert entities(strict=False) == {ALICE, PAIR, default}
    assert entities(strict=True) == set()
    assert entities(("user", EXACT, "alice"), strict=True) == {ALICE}
    assert entities(("user", EXACT, "alice"), strict=False) == {ALICE, PAIR}
    assert entities(("user", ANY, None), strict=True) == {ALICE, default}
    assert entities(("user", DEFAULT, None), strict=False) == {default}


@pytest.mark.parametrize(
    ("components", "code", "words"),
    [
        ([("group", DEFAULT, None)], 35, "Unsupported entity type group"),
        ([("", DEFAULT, None)], 42, "Invalid empty entity type."),
        ([("user", 3, None)], 42, "Unknown match type 3"),
    ],
)
def test_invalid_filters_are_rejected_with_the_message_of_kafka(
    rules: StartOracle, components: list, code: int, words: str
) -> None:
    answer = rules("4.3.1").describe(components)
    assert (answer.code, answer.message, answer.quotas) == (code, words, {})


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        ("3.4.1", 0, None),
        ("4.3.1", 0, None),
        ("4.4.0", 42, "Quota request_percentage must be a finite number"),
    ],
)
def test_nan_is_rejected_from_4_4_on(
    rules: StartOracle, version: str, code: int, words: str | None
) -> None:
    (answer,) = rules(version).alter([(ALICE, [("request_percentage", math.nan)])])
    assert (answer.error, answer.message) == (code, words)
