"""Tests of the system clock."""

import asyncio

from reconciler.base.clock import SystemClock


def test_the_real_clock_moves_forward() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    asyncio.run(clock.sleep(-1))
    assert clock.monotonic() >= before
    assert clock.now() > 1_700_000_000
