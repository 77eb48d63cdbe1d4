"""One pair through all histories: the laws hold in every state."""

import os
import sys

import pytest

from reconciler.quota.policy import DriftMode, Policy, Rules
from tests.small_worlds.pair_world import CERTAIN_FATES, POLICIES, Product, explore

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
PART = 500
"""Explored states of a world with temporary limits, unless it is explored completely (`make small-worlds`)."""
RULES = {
    policy.value: Rules(policy=policy, sync_confirmed=True, drift=DriftMode.CORRECT)
    for policy in Policy
}


STATES = {"Observe": 2, "CreateOnly": 145, "Upsert": 1_100, "Sync": 1_240}
"""All states of a pair under each policy, without temporary limits."""

WITH_ENDS = {
    "documents with an end": {"raises": True},
    "overrides": {"overrides": True},
    "both": {"raises": True, "overrides": True, "fates": CERTAIN_FATES},
}
"""Worlds with temporary limits. Documents say Delete or nothing: what Retain retains is decided without such limits.

Where a document that ends meets an override, each request has an answer, or its process ends: what is on its way is
explored with each of them alone.
"""


@pytest.mark.parametrize("policy", list(RULES))
def test_the_laws_hold_in_all_histories_of_a_pair(policy):
    exploration = explore(Product(RULES[policy]))
    assert (exploration.states, exploration.complete) == (STATES[policy], True)


@pytest.mark.parametrize("world", list(WITH_ENDS))
@pytest.mark.parametrize("policy", list(RULES))
def test_the_laws_hold_in_all_histories_of_a_pair_with_temporary_limits(policy, world):
    """`-rP` shows how many states a world has."""
    product, most = Product(RULES[policy]), sys.maxsize if DEEP else PART
    options = WITH_ENDS[world]
    exploration = explore(product, policies=POLICIES[:2], most_states=most, **options)
    sys.stdout.write(f"{exploration.states:,} states, {exploration.steps:,} steps\n")
    assert exploration.complete or (not DEEP and exploration.states >= PART)
