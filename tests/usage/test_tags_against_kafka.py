"""Tags, also of unlimited clients, against Kafka's own quota manager: every subset of the levels."""

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from reconciler.quota.entity import DEFAULT, Entity, entity, parts
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.tags import book, limit_of, tags_of
from tests.servers.oracle.precedence import Caller, PrecedenceOracle

pytestmark = pytest.mark.integration

RATE = Key.PRODUCER_BYTE_RATE
LEVELS: list[Entity] = [
    entity(user=user, client_id=client)
    for user, client in itertools.product(("alice", DEFAULT, False), ("app", DEFAULT, False))
    if (user, client) != (False, False)
]
CALLERS = [
    Caller(user=user, client_id=client)
    for user in ("alice", "CN=zoë,O=b c")
    for client in ("app", "other", "<default>", "")
]


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def oracle(request: pytest.FixtureRequest) -> Iterator[PrecedenceOracle]:
    with PrecedenceOracle(version=request.param) as running:
        yield running


def test_tags_and_limit_equal_those_of_kafka_for_limited_and_unlimited_clients(oracle):
    subsets = [
        {subject: n + 1.0 for n, subject in enumerate(LEVELS) if mask >> n & 1}
        for mask in range(256)
    ]
    questions = [
        ({tuple(sorted(parts(subject))): value for subject, value in limits.items()}, CALLERS)
        for limits in subsets
    ]
    for limits, verdicts in zip(subsets, oracle.resolve(questions), strict=True):
        rules = book(
            QuotaState(
                limits={subject: limits_of({RATE: value}) for subject, value in limits.items()}
            ),
            RATE,
        )
        for caller, verdict in zip(CALLERS, verdicts, strict=True):
            bucket = tags_of(rules, caller.user, caller.client_id)
            limit = limit_of(rules, bucket)
            tags = {"user": quote(bucket.user, safe="-._"), "client-id": bucket.client_id}
            assert (tags, limit and limit[1]) == (dict(verdict.tags), verdict.limit), (
                limits,
                caller,
            )
