"""One definition of healthy for all processes of loops."""

import pytest

from reconciler.app.loop.cluster_loop import ClusterLoop, LoopOutcome, LoopTrigger
from reconciler.app.loop.health import LONGEST_SECONDS, hung_loops
from reconciler.app.loop.intervals import LoopIntervals
from reconciler.app.loop.mailbox import Mailbox
from tests.fakes.clock import FakeClock


async def nothing(_: LoopTrigger) -> LoopOutcome:
    return LoopOutcome()


@pytest.mark.parametrize(
    ("started", "ended", "hangs"),
    [
        (None, None, False),
        (0.0, None, True),
        (0.0, 1.0, False),
        (5.0, 1.0, True),
        (LONGEST_SECONDS, None, False),
    ],
)
def test_a_loop_hangs_while_its_reconciliation_does_not_end(started, ended, hangs):
    clock = FakeClock()
    loop = ClusterLoop(
        "prod",
        mailbox=Mailbox(clock=clock),
        work=nothing,
        pace=lambda: LoopIntervals(interval=60.0),
        clock=clock,
        random=lambda: 0.5,
    )
    loop.last_started, loop.last_ended = started, ended
    problems = hung_loops([loop], LONGEST_SECONDS + 10)
    assert bool(problems) == hangs
    assert all(problem.startswith("prod: a reconciliation has lasted for ") for problem in problems)
