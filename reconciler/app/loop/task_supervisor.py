"""Runs tasks that end together: if one ends or fails, all are stopped. Waits for an event or a timeout, whichever is first."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from reconciler.base.protocols import Clock
from reconciler.errors import TaskDied

PATIENCE_SECONDS: Final = 25.0
"""How long a cancelled task may take: a request under way (10 s) and what has to be written after it. Below the
30 s that Kubernetes and systemd leave by default before they kill."""


async def supervise(
    tasks: Mapping[str, Coroutine[Any, Any, None]],
    stop: asyncio.Event,
    *,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Run coroutines concurrently until ``stop`` is set.

    A task that ends or fails before that sets ``stop``. The others are then cancelled and awaited; those that do not
    end in time are cancelled once more, and then abandoned.

    Args:
        stop: Set from outside (a signal) or by the first task that ends.
        patience: Seconds for all to end after they were cancelled.

    Raises:
        TaskDied: A task ended unexpectedly, failed, or did not end; ``__cause__`` is its exception.
    """
    running = {asyncio.ensure_future(work): name for name, work in tasks.items()}
    stopping = asyncio.ensure_future(stop.wait())
    failure: TaskDied | None = None
    try:
        finished, _ = await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            failure = _first_failure(
                [(name, task) for task, name in running.items() if task in finished]
            )
    finally:
        # Before any task is cancelled, so that a task that turns its cancellation into a result still ends.
        stop.set()
        _ = stopping.cancel()
        late = await _cancel_all(running, patience)
    # A task that fails while all tasks are being stopped still has to be reported.
    failure = failure or _find_failure(running)
    if failure is None and late:
        failure = TaskDied(f"{', '.join(late)} did not end within {patience:g} s", name=late[0])
    if failure is not None:
        raise failure from failure.reason


async def _cancel_all(running: Mapping[asyncio.Task[None], str], patience: float) -> list[str]:
    """Cancel all tasks, twice if they hang; return the names of those that still do not end."""
    pending = {task for task in running if not task.done()}
    for _ in range(2):
        if pending:
            for task in pending:
                _ = task.cancel()
            _, pending = await asyncio.wait(pending, timeout=patience)
    return sorted(running[task] for task in pending)


def _first_failure(finished: list[tuple[str, asyncio.Task[None]]]) -> TaskDied:
    """Return the error of the first task; of tasks that ended together, a failed one is preferred."""
    for name, task in finished:
        if not task.cancelled() and (error := task.exception()) is not None:
            return _task_died(name, error)
    return TaskDied(f"{finished[0][0]} ended unexpectedly", name=finished[0][0])


def _find_failure(running: Mapping[asyncio.Task[None], str]) -> TaskDied | None:
    for task, name in running.items():
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            return _task_died(name, error)
    return None


def _task_died(name: str, error: BaseException) -> TaskDied:
    return TaskDied(f"{name} failed: {type(error).__name__}: {error}", name=name, reason=error)


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
