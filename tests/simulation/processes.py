"""Simulated processes: each has its tasks, connections and view of the disk, and can be killed.

Tasks of a killed process still run while Python cancels them, but have no effect on the simulated world.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

CURRENT: contextvars.ContextVar["SimulatedProcess | None"] = contextvars.ContextVar(
    "current process", default=None
)


FEWEST_TASKS = 50
"""Number of remembered tasks from which those that have ended are forgotten."""


class ProcessKilled(BaseException):
    """The process was killed."""


class Severable(Protocol):
    """A resource of a process that ends with it."""

    def sever(self) -> None:
        """End the resource after a kill of the process."""
        ...


class SimulatedProcess:
    """A simulated process.

    Args:
        name: Name in the trace.
        loop: The event loop.
        on_kill: Called once after a kill.

    Attributes:
        alive: False after a kill.
        paused_calls: Callbacks that wait until it resumes; ``None`` = it is not paused.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        on_kill: Callable[["SimulatedProcess"], None],
    ) -> None:
        self.name = name
        self.alive = True
        self.paused_calls: list[asyncio.Handle] | None = None
        self.steps_left: int | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._most_tasks = FEWEST_TASKS
        self.possessions: dict[int, Severable] = {}
        self.main: asyncio.Task[Any] | None = None
        self._loop = loop
        self._on_kill = on_kill

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start the main task."""
        context = contextvars.Context()
        context.run(CURRENT.set, self)
        self.main = context.run(self._loop.create_task, coroutine)
        return self.main

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Register a task that the process created."""
        if len(self._tasks) >= self._most_tasks:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._most_tasks = max(FEWEST_TASKS, 2 * len(self._tasks))
        self._tasks.append(task)
        if not self.alive:
            task.cancel()

    def own(self, possession: Severable) -> None:
        """Register a resource that ends with the process."""
        self.possessions[id(possession)] = possession

    def disown(self, possession: Severable) -> None:
        """Remove a resource that ended before the process."""
        self.possessions.pop(id(possession), None)

    def step(self) -> None:
        """Allow an effect on the simulated world, or execute a planned kill.

        Raises:
            ProcessKilled: The process was killed, here or before.
        """
        if self.alive and self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.kill()
        if not self.alive:
            raise ProcessKilled

    def kill(self) -> None:
        """End the process immediately, without further effects."""
        if not self.alive:
            return
        self.alive = False
        possessions, self.possessions = list(self.possessions.values()), {}
        for possession in possessions:
            possession.sever()
        self._cancel_rest()
        self._on_kill(self)

    def _cancel_rest(self) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            self._loop.call_later(5.0, self._cancel_rest)


def adopt(task: asyncio.Task[Any]) -> None:
    """Register a new task with the current process."""
    process = CURRENT.get()
    if process is not None:
        process.adopt(task)


def stepped() -> None:
    """Allow an effect of the current process, if it is simulated."""
    process = CURRENT.get()
    if process is not None:
        process.step()
