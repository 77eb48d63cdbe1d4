"""Runs a command's coroutine on an event loop, with signal handling that lets it report its state before it ends.

The first Ctrl-C, SIGTERM or SIGHUP cancels the command's task, which may still report. ``reconcile`` turns the
cancellation of an apply into ``Interrupted``, once results are recorded.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, on_stop: Callable[[], None] = lambda: None) -> T:
    """Return the result of a coroutine.

    Args:
        on_stop: Called at the first signal, before the work is cancelled.

    Raises:
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP was received, and the coroutine raised nothing else.
    """
    results: list[T] = []
    with asyncio.Runner() as runner:
        runner.run(_terminable(work, on_stop, results))
    return results[0]


@contextlib.contextmanager
def signals_handled(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Call a function in the running loop when its signal arrives; the previous handlers return at the end.

    ``loop.add_signal_handler`` is not used: it ends with the default action, so that a signal between the end of the loop
    and the end of the process would kill it. Outside of the main thread no signal is handled.
    """
    loop = asyncio.get_running_loop()
    previous_handlers: dict[signal.Signals, Any] = {}

    def receive(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(handlers[signal.Signals(number)])

    with contextlib.suppress(ValueError):
        for number in handlers:
            previous_handlers[number] = signal.signal(number, receive)
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            _ = signal.signal(number, handler)


async def _terminable(
    work: Coroutine[Any, Any, T], on_stop: Callable[[], None], results: list[T]
) -> None:
    """Treat SIGTERM (a cancelled CI job) and SIGHUP (a closed terminal) like Ctrl-C, which cancels this coroutine.

    The result is added to ``results`` and not returned: asyncio builds the ``repr`` of its main task, result included, when
    it restores the handler of Ctrl-C, which takes seconds and 100 MB for a plan of 300,000 changes.
    """
    task = asyncio.ensure_future(work)
    is_announced = is_cancelled = False

    def stop() -> None:
        nonlocal is_announced
        if not (is_announced or task.done()):
            is_announced = True
            on_stop()
        _ = task.cancel()

    handlers = {signal.SIGTERM: stop}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        handlers[signal.SIGHUP] = stop
    with signals_handled(handlers):
        while not task.done():
            try:
                _ = await asyncio.wait({task})
            except asyncio.CancelledError:
                is_cancelled = True
                stop()
        if task.cancelled() and is_announced and not is_cancelled:
            raise KeyboardInterrupt
        results.append(task.result())
