"""Entities: three states per slot, ten shapes, one order, one overlap rule."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import (
    ABSENT,
    DEFAULT,
    LEVEL_NAMES,
    MAX_NAME_BYTES,
    Entity,
    canonical_address,
    entity,
    from_parts,
    is_legal,
    kinds,
    level,
    parts,
    sort_key,
)
from reconciler.quota.precedence import candidates, ip_candidates
from tests.quota.reference import may_match_same
from tests.quota.strategies import ENTITIES, entities

SLOTS = (ABSENT, DEFAULT, "<default>", "", "a")


def test_the_default_the_literal_name_and_the_empty_name_are_three_entities():
    three = [entity(user=DEFAULT), entity(user="<default>"), entity(user="")]
    assert len(set(three)) == 3
    assert [kinds(subject)[0] for subject in three] == ["default", "named", "named"]
    assert [parts(subject) for subject in three] == [
        (("user", None),),
        (("user", "<default>"),),
        (("user", ""),),
    ]


def test_exactly_the_ten_shapes_are_legal():
    legal = set()
    for slots in itertools.product(SLOTS, repeat=3):
        subject = Entity(slots)
        if is_legal(subject):
            legal.add(kinds(subject))
            assert entity(user=slots[0], client_id=slots[1], ip=slots[2]) == slots
        else:
            with pytest.raises(QuotaValueError):
                entity(user=slots[0], client_id=slots[1], ip=slots[2])
    assert len(legal) == 10


def test_a_name_that_does_not_fit_a_kafka_string_is_refused():
    assert entity(user="é" * (MAX_NAME_BYTES // 2))
    assert entity(user="\ud800")
    with pytest.raises(QuotaValueError, match="more than 32767 bytes"):
        entity(client_id="é" * (MAX_NAME_BYTES // 2) + "xx")


def test_levels_run_from_the_closest_to_the_widest():
    closest_first = [
        entity(user="u", client_id="c"),
        entity(user="u", client_id=DEFAULT),
        entity(user="u"),
        entity(user=DEFAULT, client_id="c"),
        entity(user=DEFAULT, client_id=DEFAULT),
        entity(user=DEFAULT),
        entity(client_id="c"),
        entity(client_id=DEFAULT),
        entity(ip="10.0.0.1"),
        entity(ip=DEFAULT),
    ]
    assert [level(subject) for subject in closest_first] == list(range(1, 11)) == list(LEVEL_NAMES)
    with pytest.raises(KeyError):
        level(Entity((ABSENT, ABSENT, ABSENT)))


@given(entities)
def test_parts_and_entities_are_converted_in_both_directions(subject):
    assert from_parts(parts(subject)) == subject
    assert from_parts(reversed(parts(subject))) == subject


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ([("group", "a")], "'group' is unknown"),
        ([("user", "a"), ("user", "b")], "'user' is given twice"),
        ([], "needs a user"),
    ],
)
def test_parts_without_a_legal_entity_are_refused(named, words):
    with pytest.raises(QuotaValueError, match=words):
        from_parts(named)


def test_the_order_of_entities_is_total_and_by_level_first():
    keys = [sort_key(subject) for subject in ENTITIES]
    assert len(set(keys)) == len(ENTITIES)
    ordered = sorted(ENTITIES, key=sort_key)
    assert [level(subject) for subject in ordered] == sorted(level(subject) for subject in ENTITIES)


NAMES = ("alice", "<default>", "", "app", "x", "stranger", "10.0.0.1", "10.0.0.2")


@given(entities, st.data())
def test_two_entities_may_match_the_same_client_exactly_if_some_client_matches_both(first, data):
    second = data.draw(entities)
    # An empty user does not occur, and clients without a client-id are among those with any other.
    names = {*NAMES, *(slot for slot in (*first, *second) if isinstance(slot, str))}
    clients = [frozenset(candidates(u or "?", c or "?")) for u in names for c in names]
    clients += [frozenset(ip_candidates(ip)) for ip in names]
    first, second = (
        Entity(tuple("?" if slot == "" else slot for slot in e)) for e in (first, second)
    )
    met = any({first, second} <= client for client in clients)
    assert may_match_same(first, second) == may_match_same(second, first) == met


# ---- addresses of ip entities ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("::1%lo", "::1"),
        ("fe80::1%2", "fe80::1"),
    ],
)
def test_every_spelling_of_an_address_has_one_canonical_text(spelling, address):
    assert canonical_address(spelling) == address


@pytest.mark.parametrize(
    "name",
    [
        "",
        "localhost",
        "10.1",
        "010.0.0.1",
        "[::1]",
        "10.0.0.256",
        "1.2.3.4.5",
        "10.0.0.0/8",
        " 10.0.0.1",
    ],
)
def test_a_text_that_is_not_a_literal_address_has_no_canonical_text(name):
    assert canonical_address(name) is None
