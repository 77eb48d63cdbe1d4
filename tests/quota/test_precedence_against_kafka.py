"""The resolution against Kafka's own quota manager: every subset of the eight levels, clients and buckets."""

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from reconciler.quota.entity import DEFAULT, Entity, entity, parts
from reconciler.quota.keys import Key
from reconciler.quota.precedence import ANONYMOUS, Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from tests.servers import raw_quotas
from tests.servers.oracle.precedence import Caller, PrecedenceOracle, Verdict

pytestmark = pytest.mark.integration

RATE = Key.PRODUCER_BYTE_RATE
NAMES = ("alice", "<default>", "CN=zoë,O=b c", "a%3Cb*")


def eight(user: str, client_id: str) -> list[Entity]:
    """The eight levels for one user and client-id."""
    users, clients = (user, DEFAULT, False), (client_id, DEFAULT, False)
    return [
        entity(user=u, client_id=c)
        for u, c in itertools.product(users, clients)
        if (u, c) != (False, False)
    ]


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def oracle(request: pytest.FixtureRequest) -> Iterator[PrecedenceOracle]:
    with PrecedenceOracle(version=request.param) as running:
        yield running


def oracle_limits(limits: dict[Entity, float]) -> dict[raw_quotas.Entity, float]:
    return {tuple(sorted(parts(subject))): value for subject, value in limits.items()}


def encoded(name: str) -> str:
    """Kafka's Sanitizer: URL encoding, with ``*`` and blanks percent-encoded."""
    return quote(name, safe="-._")


def core_verdict(limits: dict[Entity, float], caller: Caller) -> Verdict:
    state = QuotaState(
        limits={subject: limits_of({RATE: value}) for subject, value in limits.items()}
    )
    principal = Principal(
        user=None if caller.user == ANONYMOUS else caller.user, client_id=caller.client_id
    )
    (limit,) = (
        effective for effective in resolve(state, principal).effective if effective.key is RATE
    )
    if limit.value is None:
        return Verdict(limit=None, tags={})
    user, client_id = limit.bucket
    return Verdict(limit=limit.value, tags={"user": encoded(user), "client-id": client_id})


def agree(oracle: PrecedenceOracle, cases: list[tuple[dict[Entity, float], list[Caller]]]) -> int:
    """The number of compared verdicts, all of them equal; an unlimited client's bucket has no limit."""
    answers = oracle.resolve((oracle_limits(limits), callers) for limits, callers in cases)
    compared = 0
    for (limits, callers), verdicts in zip(cases, answers, strict=True):
        for caller, kafka in zip(callers, verdicts, strict=True):
            expected = kafka if kafka.limit is not None else Verdict(limit=None, tags={})
            assert core_verdict(limits, caller) == expected, (limits, caller)
            compared += 1
    return compared


@pytest.mark.parametrize("user", NAMES)
def test_every_combination_of_levels_gives_every_client_kafkas_limit_and_bucket(oracle, user):
    levels = eight(user, "app")
    callers = [
        Caller(user=name, client_id=client)
        for name in (user, "a stranger", "<default>", ANONYMOUS)
        for client in ("app", "other", "<default>", "")
    ]
    cases = [
        ({level: n + 1.0 for n, level in enumerate(levels) if mask >> n & 1}, callers)
        for mask in range(256)
    ]
    assert agree(oracle, cases) == 256 * len(callers)


def test_named_levels_of_several_users_are_independent(oracle):
    everything = [*eight("alice", "app"), *eight("<default>", "<default>"), *eight("bob", "x")]
    limits = {subject: n + 1.0 for n, subject in enumerate(dict.fromkeys(everything))}
    callers = [
        Caller(user=user, client_id=client)
        for user in ("alice", "<default>", "bob", "stranger")
        for client in ("app", "<default>", "x", "stranger", "")
    ]
    without_one = [
        ({o: v for o, v in limits.items() if o != remaining_limit}, callers)
        for remaining_limit in limits
    ]
    assert agree(oracle, [(limits, callers), *without_one]) == len(callers) * (len(limits) + 1)
