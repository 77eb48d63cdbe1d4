"""Runs a command's coroutine on an event loop, with signal handling that lets it report its state before it ends.

The first Ctrl-C, SIGTERM or SIGHUP cancels the command's task, which may still report. ``reconcile`` turns the
cancellation of an apply into ``Interrupted``, once results are recorded.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine.

    Raises:
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP was received, and the coroutine raised nothing else.
    """
    with asyncio.Runner() as runner:
        return runner.run(_terminable(work))


async def _terminable(work: Coroutine[Any, Any, T]) -> T:
    """Treat SIGTERM (a cancelled CI job) and SIGHUP (a closed terminal) like Ctrl-C."""
    task = asyncio.ensure_future(work)
    loop, is_asked = asyncio.get_running_loop(), False

    def stop() -> None:
        nonlocal is_asked
        is_asked = True
        task.cancel()

    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        loop.add_signal_handler(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(signal.SIGHUP, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if is_asked:
            raise KeyboardInterrupt from None
        raise
