"""Quota states: lossless, sorted, and immutable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import Cluster, QuotaState, limits_of
from tests.quota.strategies import entities, keys_of, numbers, states

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


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
