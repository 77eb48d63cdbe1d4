"""Quota states: lossless, sorted, and immutable."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.keys import Key
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
