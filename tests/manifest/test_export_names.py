"""Names of documents: readable, valid, and different for different entities."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest.export import document_name, document_names
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from tests.manifest.samples import names


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (entity(user="alice"), "user.alice"),
        (entity(user="alice", client_id="app"), "user.alice.client.app"),
        (entity(user="alice", client_id=DEFAULT), "user.alice.default-client"),
        (entity(user=DEFAULT), "default-user"),
        (entity(user=DEFAULT, client_id=DEFAULT), "default-user.default-client"),
        (entity(client_id="app"), "client.app"),
        (entity(ip="10.0.0.7"), "ip.10-0-0-7"),
        (entity(ip=DEFAULT), "default-ip"),
        (entity(user="Alice"), "user.alice.x"),
        (entity(user="<default>"), "user.default.x"),
        (entity(user="/"), "user.name.x"),
    ],
)
def test_a_document_is_named_after_its_entity(subject: Entity, name: str) -> None:
    assert document_name(subject).startswith(name)
    assert name.endswith("x") or document_name(subject) == name


tricky = st.one_of(
    names,
    st.sampled_from(
        (
            "user",
            "client",
            "default-client",
            "a",
            "a.client.b",
            "x0123456789abcdef",
            "A",
            "a-",
            "-",
            "É",
        )
    ),
)
slots = st.one_of(tricky, st.just(DEFAULT), st.just(ABSENT))


@given(st.sets(st.tuples(slots, slots).filter(lambda pair: pair != (ABSENT, ABSENT)), max_size=30))
def test_two_entities_never_have_the_same_name_and_every_name_is_valid(
    pairs: set[tuple[object, object]],
) -> None:
    subjects = [Entity((user, client_id, ABSENT)) for user, client_id in pairs]
    new_names = [document_name(subject) for subject in subjects]
    assert len(set(new_names)) == len(subjects)
    for name in new_names:
        assert len(name) <= 253
        assert re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name
        )


@given(st.sets(st.tuples(slots, slots).filter(lambda pair: pair != (ABSENT, ABSENT)), max_size=30))
def test_names_of_many_entities_are_unique_and_do_not_depend_on_the_order(
    pairs: set[tuple[object, object]],
) -> None:
    subjects = [Entity((user, client_id, ABSENT)) for user, client_id in pairs]
    new_names = document_names(subjects)
    assert len(set(new_names.values())) == len(subjects)
    assert document_names(reversed(subjects)) == new_names
    for name in new_names.values():
        assert re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name
        )
