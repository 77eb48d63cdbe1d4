"""Tests of commands that set overrides at the same time, with an operator that reconciles meanwhile."""

import asyncio
from typing import ClassVar

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.reconcile import NewOverride
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.people import run_override
from tests.simulation.kube.scripted_world import (
    CONSUMED,
    PRODUCED,
    STEP_SECONDS,
    ScriptedWorld,
    Story,
    declare,
    ignored,
)

ALICE = entity(user="alice")
APART = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two commands."""


class SimultaneousWorld(ScriptedWorld):
    """Two commands that set overrides of two keys, some seconds apart."""

    def __init__(self, apart: float) -> None:
        story = Story(steps=(declare("alice", {PRODUCED: 100_000.0, CONSUMED: 100_000.0}),))
        super().__init__(story, ignored)
        self.apart = apart
        self.limits: list[float | None] = []
        self.scenario = replace(self.scenario, days=400.0 / 86_400)

    async def script(self) -> None:
        """Declare both limits, and override them."""
        await super().script()
        await asyncio.sleep(STEP_SECONDS)
        for key in (PRODUCED, CONSUMED):
            until = self.clock.now() + 120.0
            order = NewOverride(
                entity=ALICE, key=key, value=300_000.0, until=until, principal="me", reason="test"
            )
            run_override(self, order, (ALICE, key))
            await asyncio.sleep(self.apart)
        await asyncio.sleep(60.0)
        self.limits = [self.laws.live((ALICE, key)) for key in (PRODUCED, CONSUMED)]

    programs: ClassVar = {"operators": OperatorWorld.operate, "script": script}


def test_two_commands_at_the_same_time_keep_both_overrides_and_both_learn_of_it() -> None:
    for apart in APART:
        world = SimultaneousWorld(apart)
        result = world.run()
        assert not result.violation, (apart, result.violation)
        assert world.limits == [300_000.0, 300_000.0], apart
        answers = [line for _, _, line in result.trace if line.startswith("its request was")]
        assert answers == ["its request was handled"] * 2, apart
