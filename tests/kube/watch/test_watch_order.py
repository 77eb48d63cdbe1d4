"""Events of one watch are in order, except in a burst; those of several watches are unordered."""

from reconciler.kube.watch.watch_order import BURST_EVENTS, BURST_SECONDS, WatchOrder
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


def test_several_watches_have_no_common_order() -> None:
    assert not WatchOrder(FakeClock(), watches=2).is_kept()
