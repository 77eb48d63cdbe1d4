"""The result of the last describe for each change: one table."""

import asyncio

import pytest

from reconciler.errors import ConnectError
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import PairVisibility
from reconciler.quota.state import Applied, Held, Rejected, Unknown, Visibility
from reconciler.reconcile.verification import judge
from tests.reconcile.scenarios import ALICE, RATE, World, documents, state

CHANGE = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC)
ALL, SOME = (
    Visibility(visible=(1, 2), lagging=(), unreachable={}),
    Visibility(visible=(1,), lagging=(2,), unreachable={}),
)
YES, LOST = Applied(), Unknown(reason="lost")


@pytest.mark.parametrize(
    ("result", "visibility", "live_value", "pair_visibility"),
    [
        (YES, ALL, 2.0, PairVisibility.VISIBLE),
        (YES, SOME, 2.0, PairVisibility.NOT_YET),
        (YES, SOME, 1.0, PairVisibility.NOT_YET),
        (YES, ALL, 1.0, PairVisibility.CHANGED),
        (YES, ALL, 9.0, PairVisibility.CHANGED),
        (YES, SOME, 9.0, PairVisibility.CHANGED),
        (YES, None, 2.0, PairVisibility.NOT_YET),
        (LOST, ALL, 2.0, PairVisibility.VISIBLE),
        (LOST, None, 2.0, PairVisibility.VISIBLE),
        (LOST, ALL, 1.0, PairVisibility.NOT_YET),
        (LOST, ALL, 9.0, PairVisibility.CHANGED),
        (Rejected(code=1, name="X", message=""), ALL, 2.0, PairVisibility.UNCHECKED),
        (Held(waits_for=()), ALL, 2.0, PairVisibility.UNCHECKED),
        (None, ALL, 2.0, PairVisibility.UNCHECKED),
    ],
)
def test_each_change_is_verified_by_its_result_and_the_live_value(
    result, visibility, live_value, pair_visibility
):
    results = {} if result is None else {(ALICE, RATE): result}
    (pair,) = judge(
        [CHANGE], results, live=state({ALICE: {RATE: live_value}}), visibility=visibility
    )
    assert pair.visibility is pair_visibility
    assert pair.observed_value == (live_value if isinstance(result, Applied | Unknown) else None)


def test_without_a_describe_changes_are_unchecked():
    (pair,) = judge([CHANGE], {(ALICE, RATE): YES}, live=None, visibility=ALL)
    assert (pair.visibility, pair.observed_value) == (PairVisibility.UNCHECKED, None)


def test_a_failed_describe_is_reported_and_keeps_the_intents():
    world = World()
    texts: list[str] = []

    def cut(name: str) -> None:
        texts.append(name)
        if name == "describe" and texts.count(name) == 2:
            raise ConnectError("all brokers went away")

    world.cluster.faults.before = cut
    outcome = world.apply(documents({ALICE: {RATE: 2.0}}))
    assert [(pair.status_text, pair.visibility) for pair in outcome.pairs] == [
        ("APPLIED", PairVisibility.UNCHECKED)
    ]
    assert outcome.failure == "the result could not be verified: all brokers went away"
    assert set(world.owned().intents) == {(ALICE, RATE)}
    world.cluster.faults.before = lambda _: None
    assert world.apply(documents({ALICE: {RATE: 2.0}})).pairs == ()
    assert asyncio.run(world.inventory.load("fake-cluster")).intents == {}
