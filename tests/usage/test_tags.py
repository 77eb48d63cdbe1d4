"""Tags of a client and limits of a tag: the rules of Kafka's quota callback, and laws that follow from them."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import ABSENT
from reconciler.quota.keys import Key
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.tags import book, bucket_of, limit_of, tags_of
from tests.quota.strategies import CLIENTS, ENTITIES, USERS

RATE = Key.PRODUCER_BYTE_RATE


def state_of(*entities) -> QuotaState:
    return QuotaState(
        limits={subject: limits_of({RATE: n + 1.0}) for n, subject in enumerate(entities)}
    )


def of(*entities):
    return book(state_of(*entities), RATE)


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
