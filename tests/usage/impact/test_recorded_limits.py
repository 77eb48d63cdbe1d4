"""Which series hold the same clients during a whole window, and for how many quota snapshots this must be known."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import impact_query
from reconciler.usage.impact.recorded_limits import (
    RecordedLimits,
    past,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import book, bucket_of, tags_of
from tests.usage import whatif_cases

RATE = Key.PRODUCER_BYTE_RATE
APP, ALICE = entity(client_id="app"), entity(user="alice")


def state(limits: dict[Entity, float], key: Key = RATE) -> QuotaState:
    return QuotaState().with_values([(subject, key, value) for subject, value in limits.items()])


def answers(
    recorded: RecordedLimits | None, *, key: Key = RATE
) -> dict[str, tuple[Identifiability, str]]:
    """The mapping for a change of the producer rates of alice and app, if both were observed."""
    before = state({APP: 100.0, ALICE: 100.0}, key)
    after = state({APP: 50.0, ALICE: 50.0}, key)
    kind = QuotaType.PRODUCE if key is RATE else QuotaType.FETCH
    buckets = {kind: {"1": [bucket_of("alice"), bucket_of("", "app")]}}
    requests = impact_query("c1", before, after, buckets, {kind}, recorded=recorded).requests
    return {
        request.bucket.user or request.bucket.client_id: (request.answer, request.reason)
        for request in requests
    }


def test_a_snapshot_between_two_equal_ones_is_compared_too() -> None:
    now, between = state({APP: 100.0, ALICE: 100.0}), state({APP: 100.0})
    assert (
        answers(RecordedLimits(states=(now, between, now)))["app"][0]
        is Identifiability.NOT_IDENTIFIABLE
    )


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_an_unbroken_bucket_contains_the_same_clients_under_both_limits(
    first: int, second: int
) -> None:
    """For all clients: an unbroken bucket has the same clients under both states."""
    now, then = whatif_cases.case(first).before, whatif_cases.case(second).before
    rules, old = book(now, RATE), book(then, RATE)
    clients = [
        (user, client) for user in (*whatif_cases.USERS, "x") for client in whatif_cases.CLIENTS
    ]
    buckets = {tags_of(rules, *each) for each in clients} | {
        tags_of(old, *each) for each in clients
    }
    history = past(RecordedLimits(states=(then,)), RATE)
    intact_buckets = buckets - history.broken(rules, buckets)
    for each in clients if old.limits else ():
        was, comes = tags_of(old, *each), tags_of(rules, *each)
        assert was == comes or not intact_buckets.intersection((was, comes))
