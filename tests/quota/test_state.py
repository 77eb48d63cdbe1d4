"""Quota states: lossless, sorted, and immutable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, entity, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import NO_LIMITS, Cluster, QuotaState, limits_of, set_values, with_value
from tests.quota.strategies import entities, keys_of, numbers, states

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


@given(st.dictionaries(st.sampled_from(Key), numbers))
def test_limits_contain_exactly_the_given_pairs(values):
    limits = limits_of(values)
    assert dict(set_values(limits)) == values
    assert type(limits) is tuple


@given(st.sampled_from(Key), st.none() | numbers)
def test_replacing_one_column_keeps_the_others(key, value):
    full = (1.0, 2.0, 3.0, 4.0, 5.0)
    changed = with_value(full, key, value)
    assert [changed[i] for i in range(5) if COLUMNS[i] is not key] == [
        full[i] for i in range(5) if COLUMNS[i] is not key
    ]
    assert changed[COLUMNS.index(key)] == value


@given(states())
def test_pairs_are_listed_by_entity_and_column(state):
    pairs = list(state.pairs())
    assert pairs == sorted(pairs, key=lambda pair: (sort_key(pair[0]), COLUMNS.index(pair[1])))
    assert QuotaState().with_values(pairs) == state
    assert all(state.value(subject, key) == value for subject, key, value in pairs)
    assert state.entities() == sorted(state.limits, key=sort_key)


def test_a_pair_that_is_not_set_has_no_value():
    assert QuotaState().value(entity(user="a"), RATE) is None


@given(states(), st.data())
def test_setting_and_removing_change_one_pair_of_a_new_state(state, data):
    subject = data.draw(entities)
    key = data.draw(st.sampled_from(keys_of(subject)))
    before = dict(state.limits)
    value = data.draw(st.none() | numbers)
    after = state.with_values([(subject, key, value)])
    assert after.value(subject, key) == value
    assert state.limits == before
    assert after.with_values([(subject, key, state.value(subject, key))]) == state


def test_an_entity_without_values_disappears():
    state = QuotaState(limits={entity(user="a"): limits_of({RATE: 1.0})})
    assert state.with_values([(entity(user="a"), RATE, None)]).limits == {}
    assert state.with_values([(entity(user="b"), RATE, None)]).limits == state.limits


def test_an_entity_with_foreign_values_remains_without_known_values():
    subject = entity(user=DEFAULT)
    foreign = (("new_key", 7.0),)
    state = QuotaState(limits={subject: limits_of({SHARE: 1.0})}, foreign_values={subject: foreign})
    after = state.with_values([(subject, SHARE, None)])
    assert after.limits == {subject: NO_LIMITS}
    assert after.foreign_values == {subject: foreign}


def test_foreign_entities_survive_every_change():
    strange = ((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),))
    state = QuotaState(foreign_entities=(strange,))
    assert state.with_values([(entity(user="a"), RATE, 1.0)]).foreign_entities == (strange,)


@pytest.mark.parametrize(
    ("rights", "may_alter"),
    [(None, False), (frozenset(), False), (frozenset({"AlterConfigs", "DescribeConfigs"}), True)],
)
def test_altering_requires_the_right_to_alter_configs(
    rights: frozenset[str] | None, may_alter: bool
) -> None:
    cluster = Cluster(id="c", nodes=(), rights=rights, version_hint="4.1+", behaves_as="4.x")
    assert cluster.may_alter is may_alter
