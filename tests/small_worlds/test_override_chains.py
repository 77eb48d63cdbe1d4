"""Overrides of overrides: after the end of all, the limit has the value from before the first, whichever were written."""

from collections.abc import Mapping

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from tests.hypothesis_profiles import count_examples
from tests.small_worlds.pair_world import (
    FATES,
    NOTHING,
    Action,
    BegunRun,
    PairState,
    Product,
    actions,
    begin_override_of,
    declare,
    end_override,
    foreign,
    land_late_write,
    let_writes_land,
    runs,
)

SYNC = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)
VALUES = (None, 2.0, 3.0)


class RefusesDocuments(Product):
    """Runs in which a guard refuses every change that a document asks for, so that only overrides write."""

    def begin(self, state: PairState, *, is_refused: bool) -> BegunRun:
        return super().begin(state, is_refused=True)


def _first_states() -> Mapping[str, PairState]:
    product = Product(SYNC)
    in_sync, to_delete = (
        product.run(declare(1.0, policy)(NOTHING), "answered")
        for policy in (None, DeletionPolicy.DELETE)
    )
    return {
        "declared": in_sync,
        "suspended": declare(1.0, None, suspended=True)(in_sync),
        "suspended with another value": declare(4.0, None, suspended=True)(in_sync),
        "declared with a refused value": declare(4.0, None)(in_sync),
        "deleted": declare(None, None)(to_delete),
        "of another writer": foreign(NOTHING, 1.0),
        "without a limit": NOTHING,
    }


def _steps(product: Product) -> Mapping[str, Action]:
    table = {**actions(overrides=True), **runs(product, overrides=True)}
    steps = {name: table[name] for name in ("65 s pass", *(f"run, {fate}" for fate in FATES))}
    for value in VALUES:
        steps[f"override {value}"] = begin_override_of(value, ends_with_document=False)
        steps[f"the late write of {value} lands"] = land_late_write(value)
    return steps | {"the override is over": end_override}


PRODUCT = RefusesDocuments(SYNC)
FIRST, STEPS = _first_states(), _steps(PRODUCT)
WRITTEN, CRASHED = "run, answered", "run, crash before sending"


@settings(max_examples=count_examples(200))
@given(steps=st.lists(st.sampled_from(list(STEPS)), max_size=8))
@pytest.mark.parametrize("first", list(FIRST))
# The second override is never written.
@example(steps=["override 2.0", WRITTEN, "override 3.0"])
@example(steps=["override None", WRITTEN, "override 3.0"])
# Nor is it when a third one replaces it, which may be written.
@example(steps=["override 2.0", WRITTEN, "override 3.0", "override None"])
@example(steps=["override 2.0", WRITTEN, "override 3.0", "override None", WRITTEN])
# The write of the first lands after the second began.
@example(
    steps=["override 2.0", "run, lost and late", "override 3.0", "the late write of 2.0 lands"]
)
@example(
    steps=[
        "override 2.0",
        WRITTEN,
        "override 3.0",
        "run, lost and late",
        "override None",
        "the late write of 3.0 lands",
    ]
)
# The second one is the first one again.
@example(steps=["override 2.0", WRITTEN, "override 3.0", CRASHED, "override 2.0"])
def test_after_the_end_of_all_overrides_a_limit_has_the_value_from_before_the_first(first, steps):
    before = state = FIRST[first]
    for step in steps:
        state = STEPS[step](state)
        assume(state.live not in state.late)  # It was sent again: docs/adr/intent-expiry.md.
    state = end_override(let_writes_land(state))
    for _ in range(3):
        state = let_writes_land(PRODUCT.run(state, "answered"))
    assert state.live == before.live
