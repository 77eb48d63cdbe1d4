"""Signals of a command: the first one cancels it, and the handlers from before return."""

import asyncio
import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from reconciler.app.event_loop import run, signals_handled
from tests.servers.processes import HANG_SECONDS

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def outer(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal outside of the loop."""


@pytest.fixture(autouse=True)
def outer_handlers() -> Iterator[None]:
    """Handlers that a program set before the loop."""
    previous = {number: signal.signal(number, outer) for number in SIGNALS}
    # An open Spark session has a handler of its own.
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in previous.items():
        _ = signal.signal(number, handler)


async def interrupted(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGINT])
def test_a_signal_cancels_the_work(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(interrupted(number))


def test_the_handlers_from_before_return_with_the_end_of_the_work() -> None:
    run(asyncio.sleep(0))
    with pytest.raises(KeyboardInterrupt):
        run(interrupted(signal.SIGTERM))
    assert [signal.getsignal(number) for number in SIGNALS] == [outer, outer]


class Unprintable:
    """A result that counts how often its representation is built."""

    printed = 0

    def __repr__(self) -> str:
        self.printed += 1
        return "a plan of 300,000 changes"


def test_the_representation_of_a_result_is_never_built() -> None:
    async def work() -> Unprintable:
        return Unprintable()

    assert run(work()).printed == 0


def test_an_ignored_hangup_stays_ignored_during_the_work() -> None:
    async def handler() -> object:
        await asyncio.sleep(0)
        return signal.getsignal(signal.SIGHUP)

    _ = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert run(handler()) is signal.SIG_IGN


def test_a_signal_calls_its_function_in_the_loop() -> None:
    async def work() -> None:
        received = asyncio.Event()
        with signals_handled({signal.SIGHUP: received.set}):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.wait_for(received.wait(), HANG_SECONDS)
        assert signal.getsignal(signal.SIGHUP) is not outer, "the handler of the command"

    run(work())


def test_outside_of_the_main_thread_no_signal_is_handled() -> None:
    async def in_a_thread() -> str:
        return await asyncio.to_thread(run, work())

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(in_a_thread()) == "done"
