"""Tests of an operator whose watch stops at an earlier revision or misses an event, or whose start reads an old memory.

A history of user actions is replayed for each of its events, as in Sieve (OSDI 2022): the watch reports nothing newer
until the actions have ended, or never reports that event. And it is replayed for each action with an API server whose
memory stands still before the action, and an operator that starts after it. All laws must hold, and the end must be as
declared.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from tests.reconcile.scenarios import OPEN
from tests.simulation.kube.api_network import ApiNetwork
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.resources import NAME_OF, TEAM, client_quota
from tests.simulation.scenario import Scenario
from tests.simulation.world import WorldResult

ALICE, BOB = entity(user="alice"), entity(user="bob")
PRODUCED, CONSUMED = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
STEP_SECONDS = 15.0
MEMORY_LAG_SECONDS = 60.0
STRIDE = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 12
"""The quick suite replays every twelfth event."""

RULES = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)


def declare(world: OperatorWorld, user: str, values: dict[Key, float]) -> None:
    """Create or change a document."""
    obj = client_quota(entity(user=user), values, policy=DeletionPolicy.DELETE, suspended=False)
    _ = world.server.put("author", "clientquotas", obj)


def delete(world: OperatorWorld, user: str) -> None:
    """Delete a document."""
    world.server.remove("author", ("clientquotas", TEAM, NAME_OF[entity(user=user)]))


STEPS: tuple[Callable[[OperatorWorld], None], ...] = (
    lambda world: declare(world, "alice", {PRODUCED: 100_000.0, CONSUMED: 100_000.0}),
    lambda world: declare(world, "bob", {PRODUCED: 100_000.0}),
    lambda world: declare(world, "alice", {PRODUCED: 200_000.0}),
    lambda world: delete(world, "bob"),
    lambda world: declare(world, "bob", {PRODUCED: 300_000.0}),
    lambda world: world.configure(suspend=True),
    lambda world: world.configure(),
    lambda world: delete(world, "alice"),
)


class ScriptedWorld(OperatorWorld):
    """A fixed history of user actions with one operator and one fault of its watch."""

    def __init__(self, spoil: Callable[[ApiNetwork], None]) -> None:
        scenario = Scenario(
            seed=1,
            world="operator",
            days=STEP_SECONDS * (len(STEPS) + 3) / 86_400,
            actors=("operators", "script"),
            faults=(),
        )
        super().__init__(scenario)
        self.settings = replace(
            self.settings,
            rules=RULES,
            guards=OPEN,
            interval=60.0,
            election_pace=6.0,
            removals=10_000,
        )
        self.laws.rules, self.laws.max_removals = RULES, 10_000
        self.replicas = ("operator-a",)
        spoil(self.api)

    def _prepare(self) -> None:
        _ = self.server.put(
            "admin",
            "customresourcedefinitions",
            {"metadata": {"name": "clientquotas.kafka-quotas.io"}},
        )
        self.configure()

    async def script(self) -> None:
        """Run the user actions."""
        for step in STEPS:
            await asyncio.sleep(STEP_SECONDS)
            step(self)

    programs: ClassVar = {"operators": OperatorWorld.operate, "script": script}


class RestartedWorld(ScriptedWorld):
    """The same history; after an action that the API server's memory lacks, the operator ends and starts anew."""

    def __init__(self, number: int) -> None:
        super().__init__(lambda _: None)
        self.number = number

    async def script(self) -> None:
        """Run the user actions; end the operator after one of them."""
        for number, step in enumerate(STEPS):
            await asyncio.sleep(STEP_SECONDS)
            if number != self.number:
                step(self)
                continue
            self.server.cached_at = self.server.revision
            _ = self.loop.call_later(MEMORY_LAG_SECONDS, setattr, self.server, "cached_at", None)
            self.api.lags["operator-a-2", "clientquotas"] = self.loop.time() + MEMORY_LAG_SECONDS
            step(self)
            await asyncio.sleep(STEP_SECONDS)
            for stop in self.stops.values():
                stop.set()

    programs: ClassVar = {"operators": OperatorWorld.operate, "script": script}


def replay(spoil: Callable[[ApiNetwork], None]) -> tuple[WorldResult, ScriptedWorld]:
    world = ScriptedWorld(spoil)
    return world.run(), world


@pytest.fixture(scope="module")
def revisions() -> list[int]:
    """The revisions of all events of the history without faults."""
    result, world = replay(lambda _: None)
    assert not result.violation, result.violation
    history = [
        event.revision
        for event in world.server.history
        if event.place[0] in {"clientquotas", "quotaclusters"}
    ]
    assert len(history) > 2 * len(STEPS)
    return history


def test_a_watch_that_stops_at_any_version_breaks_no_law(revisions: list[int]) -> None:
    for revision in revisions[::STRIDE]:
        result, _ = replay(lambda api, at=revision: setattr(api, "held_at", at))  # type: ignore[misc]
        assert not result.violation, f"held at {revision}: {result.violation}"


def test_a_watch_that_misses_any_event_breaks_no_law(revisions: list[int]) -> None:
    for revision in revisions[::STRIDE]:
        result, _ = replay(lambda api, at=revision: api.dropped.add(at))  # type: ignore[misc]
        assert not result.violation, f"without {revision}: {result.violation}"


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_start_that_reads_an_outdated_watch_cache_breaks_no_law(number: int) -> None:
    world = RestartedWorld(number)
    result = world.run()
    assert not result.violation, result.violation
    assert sum(sentence == "starts" for _, _, sentence in result.trace) == 2
