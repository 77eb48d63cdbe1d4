"""An event loop whose time is a number: nothing waits, and a seed decides which of the ready tasks runs first."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import Any, Protocol

DEFERRED_SHARE = 0.15
"""Share of the steps of tasks that let the other ready callbacks run first."""


class Deadlocked(Exception):
    """No callback is ready and no timer runs: every task waits for another one."""


class LoopSockets(Protocol):
    """What connects sockets of the loop."""

    async def connect(self, address: tuple[Any, ...]) -> object:
        """A connection that `attach` takes, as soon as the other side accepts it."""
        ...

    def attach(self, connection: object, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        """The client's end of a connection, for its protocol."""
        ...


class VirtualTask(asyncio.Task[Any]):
    """A task with a hash that does not depend on its address, so that sets of tasks have the same order every time."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks at once and lets time jump to the next timer.

    Callbacks of transports and timers keep their order, as every event loop promises; steps of tasks do not.

    Args:
        chance: Decides the order of tasks.
        adopt: Called with each new task.

    Attributes:
        sockets: What connects sockets.
        callbacks: How many ran.
        hold: Takes callbacks of paused processes out of the loop: true = it did. :meth:`go_on` brings them back.
    """

    def __init__(self, chance: random.Random, adopt: Callable[[asyncio.Task[Any]], None]) -> None:
        super().__init__()
        VirtualTask.numbers = itertools.count()
        self.sockets: LoopSockets | None = None
        self.callbacks = 0
        self.hold: Callable[[asyncio.Handle], bool] | None = None
        self._time = 0.0
        self._chance = chance
        self._adopt = adopt
        self._connections: dict[int, object] = {}
        self.set_task_factory(self._task)

    def time(self) -> float:
        return self._time

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task = VirtualTask(coroutine, loop=loop, context=context)
        self._adopt(task)
        return task

    def go_on(self, handles: Iterable[asyncio.Handle]) -> None:
        """Run callbacks that were held, in their order."""
        self._ready.extend(handles)

    # -- what BaseEventLoop leaves to its heirs ---------------------------------------------------

    def _run_once(self) -> None:
        self._drop_cancelled_timers()
        ready, timers = self._ready, self._scheduled
        if not ready and not self._stopping:
            if not timers:
                raise Deadlocked
            self._time = max(self._time, timers[0]._when)
        while timers and timers[0]._when <= self._time:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled or (self.hold is not None and self.hold(handle)):
                continue
            callback = handle._callback
            if (
                ready
                and isinstance(getattr(callback, "__self__", None), asyncio.Task)
                and self._chance.random() < DEFERRED_SHARE
            ):
                ready.append(handle)
                continue
            self.callbacks += 1
            handle._run()

    def _drop_cancelled_timers(self) -> None:
        timers = self._scheduled
        if self._timer_cancelled_count > 50 and self._timer_cancelled_count * 2 > len(timers):
            for timer in timers:
                if timer._cancelled:
                    timer._scheduled = False
            timers[:] = [timer for timer in timers if not timer._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False

    def _process_events(self, event_list: object) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """There is no other thread."""

    # -- what the client asks of a loop -----------------------------------------------------------

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Work for threads is done on the loop, a callback later."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        self.call_soon(work)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Every name exists."""
        return [(2, 1, 6, "", (host, port))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect a socket of the operating system, which is only a name here."""
        assert self.sockets is not None
        self._connections[sock.fileno()] = await self.sockets.connect(address)

    async def create_connection(
        self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any
    ) -> Any:
        """Hand a connected socket to a protocol."""
        assert self.sockets is not None
        connection = self._connections.pop(sock.fileno())
        sock.close()
        protocol = protocol_factory()
        return self.sockets.attach(connection, protocol), protocol
