"""Tests of the precedence oracle against cases computed by hand from Kafka's documentation."""

from collections.abc import Iterator

import pytest

from tests.servers.oracle.precedence import Caller, PrecedenceOracle, Verdict
from tests.servers.raw_quotas import entity

pytestmark = pytest.mark.integration

# The eight levels, closest first; level n has the limit n.
LEVELS = (
    entity(user="alice", client_id="app"),
    entity(user="alice", client_id=None),
    entity(user="alice"),
    entity(user=None, client_id="app"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="app"),
    entity(client_id=None),
)
ALICE = Caller(user="alice", client_id="app")
BOB = Caller(user="bob", client_id="other")
NAMELESS = Caller(user="alice", client_id="")


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def oracle(request: pytest.FixtureRequest) -> Iterator[PrecedenceOracle]:
    with PrecedenceOracle(request.param) as running:
        yield running


def from_level(first: int) -> dict:
    return {LEVELS[level - 1]: float(level) for level in range(first, 9)}


def test_each_level_applies_once_the_closer_ones_are_removed(oracle: PrecedenceOracle) -> None:
    answers = oracle.resolve((from_level(level), [ALICE]) for level in range(1, 9))
    assert [verdict.limit for (verdict,) in answers] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_unknown_clients_match_defaults_only(oracle: PrecedenceOracle) -> None:
    ((everything,), (no_pairs,), (only_clients,)) = oracle.resolve(
        [(from_level(1), [BOB]), (from_level(6), [BOB]), (from_level(7), [BOB])]
    )
    assert everything == Verdict(limit=5.0, tags={"user": "bob", "client-id": "other"})
    assert no_pairs == Verdict(limit=6.0, tags={"user": "bob", "client-id": ""})
    assert only_clients == Verdict(limit=8.0, tags={"user": "", "client-id": "other"})


def test_an_empty_client_id_matches_users_only(oracle: PrecedenceOracle) -> None:
    ((user,), (nothing,)) = oracle.resolve(
        [(from_level(1), [NAMELESS]), (from_level(7), [NAMELESS])]
    )
    assert user == Verdict(limit=3.0, tags={"user": "alice", "client-id": ""})
    assert nothing.limit is None


def test_the_literal_name_default_is_not_the_default(oracle: PrecedenceOracle) -> None:
    literal = {entity(user="<default>"): 1.0}
    ((bob, himself),) = oracle.resolve([(literal, [BOB, Caller(user="<default>", client_id="x")])])
    assert bob.limit is None
    assert himself == Verdict(limit=1.0, tags={"user": "%3Cdefault%3E", "client-id": ""})


def test_all_subsets_of_the_levels_fit_in_one_request(oracle: PrecedenceOracle) -> None:
    cases = [
        {level: n + 1.0 for n, level in enumerate(LEVELS) if mask >> n & 1} for mask in range(256)
    ]
    answers = oracle.resolve((limits, [ALICE, BOB]) for limits in cases)
    assert len(answers) == 256
    for limits, (alice, _bob) in zip(cases, answers, strict=True):
        assert alice.limit == min(limits.values(), default=None)
