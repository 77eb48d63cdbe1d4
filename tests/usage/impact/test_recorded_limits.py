"""Which series hold the same clients during a whole window, and for how many quota snapshots this must be known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.bucket_mapping import HISTORY_BREAKS, Identifiability
from reconciler.usage.impact.query import FOREIGN_ENTITIES, impact_query
from reconciler.usage.impact.recorded_limits import (
    MOST_WAYS,
    CountingWays,
    KeyLimitHistory,
    RecordedLimits,
    past,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import book, bucket_of, tags_of
from tests.usage import whatif_cases

RATE = Key.PRODUCER_BYTE_RATE
APP, ALICE = entity(client_id="app"), entity(user="alice")
ODD = ((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),))


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


def test_a_series_that_contained_other_clients_for_half_the_window_is_not_replayed() -> None:
    """Days 1 to 7 have limits of client ids only, so alice is counted in app; then she gets her own limit."""
    now, then = state({APP: 100.0, ALICE: 100.0}), state({APP: 100.0})
    assert answers(None)["app"] == (Identifiability.EXACT, "")
    assert answers(RecordedLimits(states=(now,)))["app"] == (Identifiability.EXACT, "")
    broken = answers(RecordedLimits(states=(then, now)))
    assert broken["app"] == broken["alice"] == (Identifiability.NOT_IDENTIFIABLE, HISTORY_BREAKS)


def test_a_snapshot_between_two_equal_ones_is_compared_too() -> None:
    now, between = state({APP: 100.0, ALICE: 100.0}), state({APP: 100.0})
    assert (
        answers(RecordedLimits(states=(now, between, now)))["app"][0]
        is Identifiability.NOT_IDENTIFIABLE
    )


def test_a_time_without_any_limit_breaks_no_history_because_nothing_was_recorded() -> None:
    now = state({APP: 100.0, ALICE: 100.0})
    assert answers(RecordedLimits(states=(QuotaState(), now)))["app"] == (Identifiability.EXACT, "")


def test_limits_of_another_key_break_no_history() -> None:
    then = state({APP: 100.0}, Key.CONSUMER_BYTE_RATE)
    assert answers(RecordedLimits(states=(then,)))["app"] == (Identifiability.EXACT, "")
    assert (
        answers(RecordedLimits(states=(then,)), key=Key.CONSUMER_BYTE_RATE)["app"][0]
        is Identifiability.NOT_IDENTIFIABLE
    )


def test_if_limits_changed_too_often_no_series_is_replayed() -> None:
    results = answers(RecordedLimits(beyond=frozenset({RATE})))
    assert set(results.values()) == {(Identifiability.NOT_IDENTIFIABLE, HISTORY_BREAKS)}
    assert (
        answers(RecordedLimits(beyond=frozenset({Key.CONSUMER_BYTE_RATE})))["app"][0]
        is Identifiability.EXACT
    )


def test_with_earlier_foreign_entities_nothing_is_identifiable() -> None:
    then = QuotaState(foreign_entities=(ODD,))
    assert answers(RecordedLimits(states=(then,)))["app"] == (
        Identifiability.NOT_IDENTIFIABLE,
        FOREIGN_ENTITIES,
    )


def test_only_snapshots_that_count_clients_differently_are_kept() -> None:
    ways = CountingWays()
    assert ways.add(state({ALICE: 1.0}))
    assert not ways.add(state({ALICE: 2.0}))
    assert not ways.add(state({ALICE: 1.0, entity(user="bob"): 1.0}))  # by user, as before
    assert ways.add(state({ALICE: 1.0, APP: 1.0}))
    assert not ways.add(state({ALICE: 3.0, APP: 3.0}))
    assert ways.add(state({ALICE: 1.0, entity(user="bob"): 1.0, APP: 1.0}))
    assert not ways.add(QuotaState())
    assert ways.add(QuotaState(foreign_entities=(ODD,)))
    assert ways.add(state({entity(ip="10.0.0.1"): 1.0}, Key.CONNECTION_CREATION_RATE))
    assert not ways.add(state({entity(ip="10.0.0.2"): 1.0}, Key.CONNECTION_CREATION_RATE))
    assert not ways.beyond


def test_a_key_with_too_many_ways_of_counting_is_reported() -> None:
    ways = CountingWays()
    for number in range(MOST_WAYS):
        assert ways.add(state({APP: 1.0, entity(user=f"u{number}"): 1.0}))
    assert not ways.beyond
    assert not ways.add(state({APP: 1.0, ALICE: 1.0}))
    assert ways.add(state({APP: 1.0}, Key.CONSUMER_BYTE_RATE))
    assert ways.beyond == {RATE}


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


def test_without_known_history_nothing_is_broken() -> None:
    rules = book(state({entity(user=DEFAULT): 1.0}), RATE)
    assert past(None, RATE) == KeyLimitHistory()
    assert KeyLimitHistory().broken(rules, [bucket_of("alice")]) == set()


@pytest.mark.parametrize("value", [100.0, 99.0])
def test_the_note_counts_buckets_whose_limit_differed_in_any_snapshot(value: float) -> None:
    now, then = state({APP: 100.0, ALICE: 100.0}), state({APP: value, ALICE: 100.0})
    history = past(RecordedLimits(states=(now, then)), RATE)
    buckets = [bucket_of("alice"), bucket_of("", "app")]
    assert history.otherwise(book(now, RATE), buckets) == (value != 100.0)
