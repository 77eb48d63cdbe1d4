"""Waits for an event or a timeout, whichever is first."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

from reconciler.base.protocols import Clock

T = TypeVar("T")


async def wait_for_event(clock: Clock, seconds: float | None, event: asyncio.Event) -> bool:
    """Wait until an event is set or time has passed.

    Args:
        seconds: Maximum wait; ``None`` = unlimited, 0 or less = do not wait.

    Returns:
        Whether the event is set.
    """
    if not event.is_set() and (seconds is None or seconds > 0):
        await first_of(event.wait(), *([] if seconds is None else [clock.sleep(seconds)]))
    return event.is_set()


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of some work, or ``None`` if ``stop`` was set first; the work is then cancelled.

    The work must not return ``None`` itself, nor lose anything when it is cancelled.
    """
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        _ = await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await _end_tasks([task, stopping])


async def until_ended(task: asyncio.Task[None], *, cancelled: bool) -> bool:
    """Wait for a stopping task without cancelling it.

    A supervisor sets a stop event and then cancels: both are one request. Only a second cancellation cancels the
    task.

    Args:
        task: The stopping task.
        cancelled: Whether the caller was cancelled already.

    Returns:
        Whether the caller was cancelled, now or before; it has to raise that again.
    """
    while not task.done():
        try:
            _ = await asyncio.wait({task})
        except asyncio.CancelledError:
            if cancelled:
                _ = task.cancel()
                raise
            cancelled = True
    return cancelled


async def _end_tasks(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and wait for their end."""
    pending = [task for task in tasks if task.cancel()]
    if pending:
        _ = await asyncio.gather(*pending, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            _ = task.exception()  # Otherwise asyncio reports it as never retrieved.


async def first_of(*work: Awaitable[object]) -> None:
    """Wait until one of these is done; cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in work]
    try:
        _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end_tasks(tasks)
