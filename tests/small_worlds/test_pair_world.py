"""One pair through all histories: the laws hold in every state, and each law detects a broken variant."""

import os

import pytest

from reconciler.quota.policy import DriftMode, Policy, Rules
from tests.small_worlds.pair_world import (
    Product,
    explore,
)

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
MOST_STATES = 20_000
DEEP_STATES = {False: 3_000_000, True: 200_000}
"""With `make small-worlds`, by whether values can end (an override, or a document with an end).

Without an end the world is searched completely, with one in part: three million states are not all of them.
"""
RULES = {
    policy.value: Rules(policy=policy, sync_confirmed=True, drift=DriftMode.CORRECT)
    for policy in Policy
}


@pytest.mark.parametrize(
    ("overrides", "raises"),
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["faults", "documents with an end", "overrides", "both"],
)
@pytest.mark.parametrize("policy", list(RULES))
def test_the_laws_hold_in_all_histories_of_a_pair(policy, overrides, raises):
    has_ends = overrides or raises
    most = DEEP_STATES[has_ends] if DEEP else MOST_STATES
    exploration = explore(
        Product(RULES[policy]), overrides=overrides, raises=raises, most_states=most
    )
    is_part = has_ends or not DEEP
    assert exploration.complete or (is_part and exploration.states >= most)
