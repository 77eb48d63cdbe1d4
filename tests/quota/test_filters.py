"""The result of a describe with a filter, as in Kafka's metadata image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.state import ALL, ANY, Component, Filter, exactly
from tests.quota.log_model import ENTITIES

PAIR = entity(user="alice", client_id="app")
USER = entity(user="alice")
LITERAL = entity(user="<default>")
EVERY_USER = entity(user=DEFAULT)
EVERY_PAIR = entity(user="alice", client_id=DEFAULT)
CLIENT = entity(client_id="app")
ADDRESS = entity(ip="10.0.0.1")
SEVEN = (PAIR, USER, LITERAL, EVERY_USER, EVERY_PAIR, CLIENT, ADDRESS)


def wanting(*, strict: bool = False, **types: object) -> Filter:
    return Filter(
        components=tuple(
            Component(entity_type=kind.replace("_", "-"), match=match)
            for kind, match in types.items()
        ),
        strict=strict,
    )


@pytest.mark.parametrize(
    ("quota_filter", "expected"),
    [
        pytest.param(ALL, SEVEN, id="open without components: everything"),
        pytest.param(wanting(strict=True), (), id="strict without components: nothing"),
        pytest.param(
            wanting(user="alice"), (PAIR, USER, EVERY_PAIR), id="a name, other types free"
        ),
        pytest.param(wanting(user="alice", strict=True), (USER,), id="a name and no other type"),
        pytest.param(wanting(user=DEFAULT), (EVERY_USER,), id="the default is not a name"),
        pytest.param(wanting(user="<default>"), (LITERAL,), id="a name is not the default"),
        pytest.param(
            wanting(user=ANY, strict=True), (USER, LITERAL, EVERY_USER), id="any, default included"
        ),
        pytest.param(wanting(client_id=ANY), (PAIR, EVERY_PAIR, CLIENT), id="any client id"),
        pytest.param(wanting(user="alice", client_id=ANY), (PAIR, EVERY_PAIR), id="both types"),
        pytest.param(wanting(client_id=DEFAULT), (EVERY_PAIR,), id="the default client id"),
        pytest.param(wanting(ip=ANY), (ADDRESS,), id="addresses"),
        pytest.param(wanting(user="bob"), (), id="no match"),
        pytest.param(wanting(user=""), (), id="the empty name is a name"),
    ],
)
def test_a_filter_selects_its_entities(quota_filter, expected):
    assert tuple(subject for subject in SEVEN if quota_filter.matches(subject)) == expected


@given(st.sampled_from(ENTITIES))
def test_the_exact_filter_of_an_entity_selects_it_alone(subject):
    assert [candidate for candidate in ENTITIES if exactly(subject).matches(candidate)] == [subject]


@pytest.mark.parametrize(
    "types", [("",), ("user", "user"), ("group", "group")], ids=["empty", "twice", "other twice"]
)
def test_an_empty_or_repeated_type_is_refused(types):
    with pytest.raises(QuotaValueError, match="empty or given twice"):
        _ = Filter(components=tuple(Component(entity_type=type_, match=ANY) for type_ in types))
