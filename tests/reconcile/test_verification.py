"""The result of the last describe for each change: one table."""

import asyncio

from reconciler.errors import ConnectError
from reconciler.quota.outcome import Applied, Unknown
from reconciler.quota.results.report import PairVisibility
from reconciler.quota.state import Visibility
from tests.reconcile.scenarios import ALICE, RATE, World, documents

ALL, SOME = (
    Visibility(visible=(1, 2), lagging=(), unreachable={}),
    Visibility(visible=(1,), lagging=(2,), unreachable={}),
)
YES, LOST = Applied(), Unknown(reason="lost")


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
