"""Events of one watch are in order, except in a burst; those of several watches are unordered."""

import asyncio

import pytest

from reconciler.kube.watch.watch_order import BURST_EVENTS, BURST_SECONDS, ORDER_SECONDS, WatchOrder
from tests.fakes.clock import FakeClock


def test_a_burst_of_events_has_no_order_until_its_seconds_have_passed() -> None:
    clock = FakeClock()
    order = WatchOrder(clock, watches=1)
    for _ in range(BURST_EVENTS - 1):
        order.note_event()
    assert order.is_kept()
    order.note_event()
    assert not order.is_kept()
    clock.advance(BURST_SECONDS)
    assert order.is_kept()


def test_the_order_is_certain_once_earlier_events_had_time_to_arrive() -> None:
    clock = FakeClock()
    order = WatchOrder(clock, watches=1)
    assert asyncio.run(order.is_certain())
    order.note_event()
    clock.advance(0.1)
    assert asyncio.run(order.is_certain())
    assert clock.slept == [pytest.approx(ORDER_SECONDS - 0.1)]


def test_a_burst_in_the_meantime_makes_the_order_uncertain() -> None:
    clock = FakeClock()
    order = WatchOrder(clock, watches=1)
    order.note_event()

    async def burst() -> None:
        for _ in range(BURST_EVENTS):
            order.note_event()

    async def both() -> bool:
        certain, _ = await asyncio.gather(order.is_certain(), burst())
        return certain

    assert not asyncio.run(both())


def test_several_watches_have_no_common_order() -> None:
    assert not WatchOrder(FakeClock(), watches=2).is_kept()
