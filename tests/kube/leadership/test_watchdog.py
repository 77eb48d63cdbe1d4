"""The process ends if its event loop hangs, and never otherwise."""

import threading

from reconciler.kube.leadership.lease_thread import Watchdog
from tests.fakes.clock import FakeClock
from tests.servers.processes import HANG_SECONDS


def watchdog(clock: FakeClock, until: float | None) -> Watchdog:
    return Watchdog(lambda: until, clock=clock, grace=3.0, end=lambda: None)


def test_the_watchdog_is_overdue_only_after_the_grace_time() -> None:
    clock = FakeClock()
    dog = watchdog(clock, clock.monotonic() + 10)
    assert not dog.overdue()
    clock.advance(12.9)
    assert not dog.overdue()
    clock.advance(0.2)
    assert dog.overdue()


def test_without_leadership_the_watchdog_is_never_overdue() -> None:
    clock = FakeClock()
    dog = watchdog(clock, None)
    clock.advance(10**6)
    assert not dog.overdue()


def test_the_thread_ends_the_process_while_the_loop_is_blocked() -> None:
    clock, ended = FakeClock(), threading.Event()
    dog = Watchdog(lambda: clock.monotonic() - 4, clock=clock, grace=3.0, end=ended.set)
    with dog:
        assert ended.wait(HANG_SECONDS)


def test_a_closed_watchdog_does_not_end_the_process() -> None:
    ended = threading.Event()
    clock = FakeClock()
    with Watchdog(lambda: None, clock=clock, end=ended.set):
        pass
    assert not ended.is_set()
