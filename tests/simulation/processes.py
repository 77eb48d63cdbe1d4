"""Processes of the simulated world: each has its tasks, its connections and its view of the disk, and can be killed.

A process that was killed may still compute, because Python unwinds its tasks; nothing that it does has an effect.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

CURRENT: contextvars.ContextVar["SimulatedProcess | None"] = contextvars.ContextVar(
    "current process", default=None
)


class ProcessKilled(BaseException):
    """The process ends here."""


class Severable(Protocol):
    """Something of a process that ends with it."""

    def sever(self) -> None:
        """The process is gone."""
        ...


class SimulatedProcess:
    """One process.

    Args:
        name: For the trace.
        loop: Where it runs.
        on_kill: Called once when it was killed.

    Attributes:
        alive: Whether it was not killed.
        paused_calls: Callbacks that wait until it goes on; ``None`` = it is not paused.
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
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self.possessions: dict[int, Severable] = {}
        self.main: asyncio.Task[Any] | None = None
        self._loop = loop
        self._on_kill = on_kill

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the main program."""
        context = contextvars.Context()
        context.run(CURRENT.set, self)
        self.main = context.run(self._loop.create_task, coroutine)
        return self.main

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Take note of a task that was made inside of the process."""
        key = hash(task)
        self.tasks[key] = task
        task.add_done_callback(lambda _: self.tasks.pop(key, None))
        if not self.alive:
            task.cancel()

    def own(self, possession: Severable) -> None:
        """Take note of what ends with the process."""
        self.possessions[id(possession)] = possession

    def disown(self, possession: Severable) -> None:
        """It ended before."""
        self.possessions.pop(id(possession), None)

    def step(self) -> None:
        """An effect on the world is about to happen: a dead process has none, and a planned kill happens here.

        Raises:
            ProcessKilled: The process is dead.
        """
        if self.alive and self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.kill()
        if not self.alive:
            raise ProcessKilled

    def kill(self) -> None:
        """End at once: no other effect, no farewell."""
        if not self.alive:
            return
        self.alive = False
        possessions, self.possessions = list(self.possessions.values()), {}
        for possession in possessions:
            possession.sever()
        self._cancel_rest()
        self._on_kill(self)

    def _cancel_rest(self) -> None:
        if self.tasks:
            for task in list(self.tasks.values()):
                task.cancel()
            self._loop.call_later(5.0, self._cancel_rest)


def adopt(task: asyncio.Task[Any]) -> None:
    """Give a new task to the process that makes it."""
    process = CURRENT.get()
    if process is not None:
        process.adopt(task)


def stepped() -> None:
    """An effect of the current process, if it is one of the simulated ones."""
    process = CURRENT.get()
    if process is not None:
        process.step()
