"""Tags of a client and limits of a tag: the rules of Kafka's quota callback, and laws that follow from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import ABSENT, DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.tags import Bucket, GroupKind, book, bucket_of, entities_of, limit_of, tags_of
from tests.quota.strategies import CLIENTS, ENTITIES, USERS

RATE = Key.PRODUCER_BYTE_RATE


def state_of(*entities) -> QuotaState:
    return QuotaState(
        limits={subject: limits_of({RATE: n + 1.0}) for n, subject in enumerate(entities)}
    )


def of(*entities):
    return book(state_of(*entities), RATE)


@pytest.mark.parametrize(
    ("entities", "client", "empty"),
    [
        pytest.param((), ("", "app"), ("", ""), id="no limit at all"),
        pytest.param((entity(client_id="z"),), ("", "app"), ("", ""), id="client ids only"),
        pytest.param((entity(user="z"),), ("alice", ""), ("alice", ""), id="users only"),
        pytest.param(
            (entity(user="z", client_id="z"),), ("alice", "app"), ("alice", ""), id="pairs only"
        ),
        pytest.param(
            (entity(user="z"), entity(client_id="z")),
            ("", "app"),
            ("", ""),
            id="two kinds, no match",
        ),
        pytest.param(
            (entity(user="alice"), entity(client_id="app")),
            ("alice", ""),
            ("alice", ""),
            id="two kinds, the user is closer",
        ),
        pytest.param(
            (entity(user="alice", client_id=DEFAULT), entity(client_id="app")),
            ("alice", "app"),
            ("alice", ""),
            id="an empty client id is an ordinary name",
        ),
    ],
)
def test_tags_follow_from_the_kinds_of_level_that_have_a_limit(entities, client, empty):
    assert tags_of(of(*entities), "alice", "app") == bucket_of(*client)
    assert tags_of(of(*entities), "alice", "") == bucket_of(*empty)


def test_only_limits_of_the_key_count():
    state = QuotaState(limits={entity(user="alice"): limits_of({Key.CONSUMER_BYTE_RATE: 1.0})})
    assert not book(state, RATE).measured
    assert book(state, Key.CONSUMER_BYTE_RATE).measured


def test_an_address_brings_no_client_level_into_use():
    key = Key.CONNECTION_CREATION_RATE
    rules = book(QuotaState(limits={entity(ip=DEFAULT): limits_of({key: 7.0})}), key)
    assert not rules.in_use
    assert limit_of(rules, bucket_of(ip="10.0.0.1")) == (entity(ip=DEFAULT), 7.0)


@pytest.mark.parametrize(
    ("bucket", "levels"),
    [
        (bucket_of("u", "c"), [("u", "c"), ("u", None), (None, "c"), (None, None)]),
        (bucket_of("u"), [("u", ABSENT), (None, ABSENT)]),
        (bucket_of("", "c"), [(ABSENT, "c"), (ABSENT, None)]),
        (bucket_of(), []),
    ],
)
def test_tags_can_only_be_limited_by_their_own_levels(bucket, levels):
    assert entities_of(bucket) == tuple(entity(user=u, client_id=c) for u, c in levels)


def test_the_limit_of_a_pair_does_not_apply_to_the_bucket_of_its_user():
    rules = of(entity(user="alice", client_id=DEFAULT))
    assert limit_of(rules, bucket_of("alice")) is None
    assert limit_of(rules, bucket_of("alice", "x")) == (
        entity(user="alice", client_id=DEFAULT),
        1.0,
    )


def test_the_names_determine_the_kind_of_a_bucket():
    assert bucket_of() == Bucket(kind=GroupKind.NONE)
    assert bucket_of(ip="::1").kind is GroupKind.IP


OF_CLIENTS = [subject for subject in ENTITIES if subject[2] is ABSENT]


@given(
    st.lists(st.sampled_from(OF_CLIENTS), unique=True, max_size=8),
    st.sampled_from([user for user in USERS if user]),
    st.sampled_from(CLIENTS),
)
def test_the_limit_of_its_tags_applies_to_a_client(entities, user, client):
    """Two ways to one number: by precedence, and by tags and then the limit of the tags."""
    (effective,) = resolve(
        state_of(*entities), Principal(user=user, client_id=client), [RATE]
    ).effective
    rules = of(*entities)
    limit = limit_of(rules, tags_of(rules, user, client))
    assert limit == (None if effective.value is None else (effective.source, effective.value))
    if effective.value is not None:
        assert tags_of(rules, user, client) == bucket_of(*effective.bucket)
