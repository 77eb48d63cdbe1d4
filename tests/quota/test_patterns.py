"""Patterns: the entities that a grant, a scope or an ignore rule matches, and those that it must not match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.patterns import (
    EVERYTHING,
    FORMS,
    USER_FORMS,
    EntityForm,
    EntityPattern,
    NamePattern,
    form,
)
from tests.quota.strategies import ENTITIES, entities

A = NamePattern(prefix="a")
ALICE = NamePattern(exact="alice")


def covered(pattern: EntityPattern) -> set[EntityForm]:
    return {form(subject) for subject in ENTITIES if pattern.matches(subject)}


def test_every_form_belongs_to_some_entity():
    assert {form(subject) for subject in ENTITIES} == set(EntityForm) == set(FORMS.values())


def test_a_name_pattern_is_exact_or_a_prefix():
    assert ALICE.matches("alice")
    assert not ALICE.matches("alice2")
    assert A.matches("alice")
    assert A.matches("a")
    assert not A.matches("bob")
    assert NamePattern(prefix="").matches("")
    assert NamePattern(exact="").matches("")
    assert not NamePattern(exact="").matches("a")


@pytest.mark.parametrize("names", [{}, {"exact": "a", "prefix": "a"}])
def test_a_name_pattern_is_exactly_one_of_the_two(names):
    with pytest.raises(QuotaValueError, match="exactly one"):
        NamePattern(**names)


def test_an_empty_entity_pattern_is_refused():
    with pytest.raises(QuotaValueError, match="needs at least one of forms, user, clientId and ip"):
        EntityPattern()


@pytest.mark.parametrize(
    ("pattern", "forms"),
    [
        (EntityPattern(user=A), USER_FORMS),
        (EntityPattern(client_id=A), {EntityForm.CLIENT_ID}),
        (EntityPattern(user=A, client_id=A), {EntityForm.USER_CLIENT_ID}),
        (EntityPattern(ip=NamePattern(prefix="10.")), {EntityForm.IP}),
        (EntityPattern(user=A, ip=NamePattern(prefix="10.")), {*USER_FORMS, EntityForm.IP}),
        (EntityPattern(forms=frozenset({EntityForm.DEFAULT_USER})), {EntityForm.DEFAULT_USER}),
        (EVERYTHING, set(EntityForm)),
    ],
)
def test_a_pattern_covers_its_names_and_covers_defaults_only_if_listed(pattern, forms):
    assert covered(pattern) == pattern.covered_forms == forms


LOOPBACK = ["::1", "0:0:0:0:0:0:0:1", "0000::0001", "::1%lo"]
PRIVATE = ["10.0.0.1", "::ffff:10.0.0.1", "::FFFF:A00:1"]
SPELLINGS = [*((name, "::1") for name in LOOPBACK), *((name, "10.0.0.1") for name in PRIVATE)]


@given(st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS), st.integers(0, 8))
def test_an_ip_pattern_matches_an_address_in_every_spelling(first, second, length):
    """Brokers apply a limit to the address: a rule for one spelling must not be avoided by another."""
    (exact, address), (name, other_address) = first, second
    pattern = EntityPattern(ip=NamePattern(exact=exact))
    assert pattern.matches(entity(ip=name)) == (address == other_address)
    prefix = EntityPattern(ip=NamePattern(prefix=address[:length]))
    assert not other_address.startswith(address[:length]) or prefix.matches(entity(ip=name))


def test_an_ip_pattern_matches_a_host_name_as_it_is_written():
    pattern = EntityPattern(ip=NamePattern(exact="host"))
    assert pattern.matches(entity(ip="host"))
    assert not pattern.matches(entity(ip="hosts"))
    assert not pattern.matches(entity(ip="::1"))
    assert not EntityPattern(ip=NamePattern(exact="::1")).matches(entity(ip="host"))
    assert not EntityPattern(ip=NamePattern(prefix="::2")).matches(entity(ip="0:0:0:0:0:0:0:1"))


def test_a_user_pattern_never_covers_other_users():
    pattern = EntityPattern(user=ALICE)
    assert pattern.matches(entity(user="alice"))
    assert pattern.matches(entity(user="alice", client_id="x"))
    assert pattern.matches(entity(user="alice", client_id=DEFAULT))
    assert not pattern.matches(entity(user="bob"))
    assert not pattern.matches(entity(user=DEFAULT))
    assert not pattern.matches(entity(user=DEFAULT, client_id="x"))
    assert not pattern.matches(entity(client_id="alice"))
    assert not pattern.matches(entity(ip="alice"))


@given(entities, st.sampled_from(["user", "client_id", "ip"]))
def test_a_listed_form_must_match_the_names_too(subject, slot):
    pattern = EntityPattern(forms=frozenset(EntityForm), **{slot: NamePattern(exact="<default>")})
    name = subject[("user", "client_id", "ip").index(slot)]
    assert pattern.matches(subject) == (not isinstance(name, str) or name == "<default>")
