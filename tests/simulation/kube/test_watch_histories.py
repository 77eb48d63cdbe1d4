"""Tests of an operator whose watch stops at an earlier revision or misses an event, or whose start reads an old memory.

Histories of user actions are replayed for each of their events, as in Sieve (OSDI 2022): the watch reports nothing newer
until the actions have ended, or never reports that event. And they are replayed for each action with an API server whose
memory stands still before the action, and an operator that starts after it. All laws must hold, and the end must be as
declared.
"""

import asyncio
import os
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import settings

from reconciler.quota.policy import DeletionPolicy, Policy
from tests.simulation.kube.api_network import ApiNetwork
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.scripted_world import (
    CONSUMED,
    PRODUCED,
    STEP_SECONDS,
    ScriptedWorld,
    Story,
    configure,
    declare,
    delete,
    end_override,
    ignored,
    log_in,
    override,
)
from tests.simulation.world import WorldResult

MEMORY_LAG_SECONDS = 60.0
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
STRIDE = 1 if DEEP else 300 // settings().max_examples
"""`make test-all` replays every twelfth event, `make test` every sixtieth."""

WATCHED = frozenset({"clientquotas", "quotaclusters", "secrets"})

STORIES = {
    "limits": Story(
        steps=(
            declare("alice", {PRODUCED: 100_000.0, CONSUMED: 100_000.0}),
            declare("bob", {PRODUCED: 100_000.0}),
            declare("alice", {PRODUCED: 200_000.0}),
            delete("bob"),
            declare("bob", {PRODUCED: 300_000.0}),
            configure(suspend=True),
            configure(),
            delete("alice"),
        )
    ),
    "policies": Story(
        policy=Policy.UPSERT,
        steps=(
            declare("alice", {PRODUCED: 100_000.0, CONSUMED: 100_000.0}, DeletionPolicy.RETAIN),
            declare("alice", {PRODUCED: 100_000.0}, DeletionPolicy.RETAIN),
            declare("bob", {PRODUCED: 100_000.0}, None),
            declare("bob", {PRODUCED: 200_000.0}, suspended=True),
            delete("alice"),
            declare("bob", {PRODUCED: 200_000.0}),
            delete("bob"),
        ),
    ),
    "overrides": Story(
        steps=(
            declare("alice", {PRODUCED: 100_000.0}),
            override(200_000.0),
            declare("alice", {PRODUCED: 300_000.0}),
            end_override,
            override(None),
            delete("alice"),
        )
    ),
    "login": Story(
        has_login=True,
        steps=(
            declare("alice", {PRODUCED: 100_000.0}),
            log_in("rotate"),
            declare("alice", {PRODUCED: 200_000.0}),
            log_in("withdraw"),
            declare("bob", {PRODUCED: 100_000.0}),
            log_in("restore"),
            log_in("delete_secret"),
            delete("alice"),
        ),
    ),
}
"""Name -> history."""


class RestartedWorld(ScriptedWorld):
    """The same history; after an action that the API server's memory lacks, the operator ends and starts anew."""

    def __init__(self, story: Story, number: int) -> None:
        super().__init__(story, ignored)
        self.number = number

    async def script(self) -> None:
        """Run the user actions; end the operator after one of them."""
        for number, step in enumerate(self.story.steps):
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


def replay(story: Story, spoil: Callable[[ApiNetwork], None]) -> tuple[WorldResult, ScriptedWorld]:
    world = ScriptedWorld(story, spoil)
    return world.run(), world


@pytest.fixture(scope="module", params=list(STORIES))
def history(request: pytest.FixtureRequest) -> tuple[Story, list[int]]:
    """A history, and the revisions of all its events without faults."""
    story = STORIES[request.param]
    result, world = replay(story, ignored)
    assert not result.violation, result.violation
    revisions = [event.revision for event in world.server.history if event.place[0] in WATCHED]
    assert len(revisions) >= 2 * len(story.steps)
    return story, revisions


def test_a_watch_that_stops_at_any_version_breaks_no_law(history: tuple[Story, list[int]]) -> None:
    story, revisions = history
    for revision in revisions[::STRIDE]:
        result, _ = replay(story, lambda api, at=revision: setattr(api, "held_at", at))  # type: ignore[misc]
        assert not result.violation, f"held at {revision}: {result.violation}"


def test_a_watch_that_misses_any_event_breaks_no_law(history: tuple[Story, list[int]]) -> None:
    story, revisions = history
    for revision in revisions[::STRIDE]:
        result, _ = replay(story, lambda api, at=revision: api.dropped.add(at))  # type: ignore[misc]
        assert not result.violation, f"without {revision}: {result.violation}"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (name, number)
        for name, story in STORIES.items()
        for number in range(len(story.steps))
        if DEEP or name == "limits"
    ],
)
def test_a_start_that_reads_an_outdated_watch_cache_breaks_no_law(name: str, number: int) -> None:
    world = RestartedWorld(STORIES[name], number)
    result = world.run()
    assert not result.violation, result.violation
    assert sum(sentence == "starts" for _, _, sentence in result.trace) == 2
