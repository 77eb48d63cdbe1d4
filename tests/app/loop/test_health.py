"""Tests of liveness and readiness, which all processes with loops share."""

import asyncio

import pytest

from reconciler.app.loop.cluster_loop import ClusterLoop, LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.app.loop.service import (
    GRACE_SECONDS,
    LONGEST_SECONDS,
    hung_loops,
    is_late,
    late_loops,
)
from tests.fakes.clock import FakeClock


async def nothing(_: LoopTrigger) -> LoopOutcome:
    return LoopOutcome()


def new_loop() -> ClusterLoop:
    clock = FakeClock()
    return ClusterLoop(
        "prod",
        work=nothing,
        pace=lambda: LoopIntervals(interval=60.0),
        clock=clock,
        random=lambda: 0.5,
    )


@pytest.mark.parametrize(
    ("started", "running", "hangs"),
    [
        (None, False, False),
        (0.0, True, True),
        (0.0, False, False),
        (LONGEST_SECONDS, True, False),
    ],
)
def test_a_loop_is_reported_as_hung_while_its_reconciliation_does_not_end(started, running, hangs):
    loop = new_loop()
    loop.last_started, loop.is_running = started, running
    problems = hung_loops([loop], LONGEST_SECONDS + 10)
    assert bool(problems) == hangs
    assert all(problem.startswith("prod: a reconciliation has lasted for ") for problem in problems)


LATE = 1.0 + 3 * 60.0 + GRACE_SECONDS


@pytest.mark.parametrize(
    ("running", "ended", "now", "problems"),
    [
        (False, None, 0.0, ["prod: first reconciliation pending"]),
        (True, None, 0.0, ["prod: first reconciliation pending"]),
        (False, 1.0, 1.0, []),
        (False, 1.0, LATE, []),
        (False, 1.0, LATE + 1, [f"prod: no reconciliation for {LATE:.0f} s"]),
        (True, 1.0, LATE + 1, []),
    ],
    ids=["never", "the first under way", "just ended", "three intervals ago", "late", "under way"],
)
def test_a_loop_is_late_if_no_reconciliation_ended_for_three_intervals(
    running, ended, now, problems
):
    loop = new_loop()
    loop.is_running, loop.last_ended = running, ended
    assert late_loops([loop], now) == problems


def test_a_source_is_late_after_three_intervals():
    assert not is_late(1.0, 60.0, LATE)
    assert is_late(1.0, 60.0, LATE + 1)


@pytest.mark.parametrize("jump", [-60.0, 60.0])
def test_a_clock_that_is_set_during_a_reconciliation_does_not_hide_its_end(jump):
    async def story() -> list[str]:
        clock = FakeClock()

        async def work(_: LoopTrigger) -> LoopOutcome:
            assert loop.is_running
            clock.jump(jump)
            return LoopOutcome()

        pace = LoopIntervals(interval=7200.0)
        loop = ClusterLoop("prod", work=work, pace=lambda: pace, clock=clock)
        await loop._pass(LoopTrigger(resync=True))
        assert not loop.is_running
        return hung_loops([loop], clock.now() + LONGEST_SECONDS + 61)

    assert asyncio.run(story()) == []
