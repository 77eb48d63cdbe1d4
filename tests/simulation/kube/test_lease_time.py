"""Tests of the time of candidates: sleeps last as long as it passes, and no time is lost or passes twice."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from tests.simulation.kube.lease_time import LeaseTime
from tests.simulation.virtual_loop import VirtualLoop


def run(history: Any) -> list[tuple[float, float]]:
    """Run a history with a loop and its time of candidates; return both times at each end of a sleep."""
    loop = VirtualLoop(random.Random(1), lambda _: None)
    time, ends = LeaseTime(loop), list[tuple[float, float]]()

    async def sleep(seconds: float) -> None:
        await time.sleep(seconds)
        ends.append((loop.time(), time.time()))

    work: Coroutine[Any, Any, None] = history(time, sleep)
    asyncio.set_event_loop(loop)
    loop.run_until_complete(work)
    asyncio.set_event_loop(None)
    loop.close()
    return ends


def test_without_a_stop_both_times_are_equal() -> None:
    async def history(_: LeaseTime, sleep: Any) -> None:
        await sleep(2.0)
        await sleep(3.0)

    assert run(history) == [(2.0, 2.0), (5.0, 5.0)]


def test_a_sleep_goes_on_for_the_rest_of_its_time_after_a_stop() -> None:
    async def history(time: LeaseTime, sleep: Any) -> None:
        sleeping = asyncio.ensure_future(sleep(5.0))
        await asyncio.sleep(2.0)
        time.stop()
        time.stop()
        beginning = asyncio.ensure_future(sleep(1.0))
        await asyncio.sleep(100.0)
        assert time.time() == 2.0
        time.go_on()
        time.go_on()
        _ = await asyncio.gather(sleeping, beginning)

    assert run(history) == [(103.0, 3.0), (105.0, 5.0)]


def test_a_cancelled_sleep_does_not_begin_again() -> None:
    async def history(time: LeaseTime, sleep: Any) -> None:
        sleeping = asyncio.ensure_future(sleep(5.0))
        await asyncio.sleep(2.0)
        time.stop()
        _ = sleeping.cancel()
        await asyncio.sleep(1.0)
        time.go_on()
        await sleep(1.0)

    assert run(history) == [(4.0, 3.0)]
