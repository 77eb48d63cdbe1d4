"""An event loop with virtual time, in which random numbers of a seed determine the order of ready tasks."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import Context, copy_context
from typing import Any, Protocol

DEFERRED_SHARE = 0.15
"""Share of task steps that are deferred behind the other ready callbacks."""


class Deadlocked(Exception):
    """No callback is ready and no timer is set: every task waits for another one."""


class LoopSockets(Protocol):
    """The network that connects sockets of the loop."""

    async def connect(self, address: tuple[Any, ...]) -> object:
        """Connect, and return a connection for `attach`."""
        ...

    def attach(self, connection: object, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        """Attach a protocol to a connection, and return the client's transport."""
        ...


class VirtualTask(asyncio.Task[Any]):
    """A task with a hash that is independent of its address, so that sets of tasks have a reproducible order."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualFuture(asyncio.Future[Any]):
    """A future with such a hash, for the sets that tasks and futures share."""

    numbers = itertools.count()
    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualHandle(asyncio.Handle):
    """A scheduled callback without the parts for debugging."""

    __slots__ = ()
    _repr = _source_traceback = None

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: "VirtualLoop",
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class VirtualTimer(VirtualHandle, asyncio.TimerHandle):
    """A callback at a time of the loop. Timers of one time have no order."""

    __slots__ = ()

    def __lt__(self, later: asyncio.TimerHandle) -> bool:
        return False

    def cancel(self) -> None:
        if self._scheduled and not self._cancelled:
            self._loop._timer_cancelled_count += 1
        super().cancel()


# What is simulated, and what is not: docs/adr/simulated-worlds.md.
class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks without waiting; time jumps to the next timer.

    Callbacks of transports and timers keep their order, as in every event loop; steps of tasks do not.

    Args:
        chance: Determines the order of tasks.
        adopt: Called with each new task.

    Attributes:
        sockets: The network.
        callbacks: Number of executed callbacks.
        hold: Returns true if it took a callback of a paused process out of the loop; :meth:`go_on` returns it.
    """

    def __init__(self, chance: random.Random, adopt: Callable[[asyncio.Task[Any]], None]) -> None:
        super().__init__()
        VirtualTask.numbers, VirtualFuture.numbers = itertools.count(), itertools.count()
        self.sockets: LoopSockets | None = None
        self.callbacks = 0
        self.hold: Callable[[asyncio.Handle], bool] | None = None
        self._time = 0.0
        self._chance = chance
        self._adopt = adopt
        self._connections: dict[int, object] = {}
        self._timers: list[tuple[float, VirtualTimer]] = []
        # Each new task and future asks for it: a function of C answers without a frame of Python.
        vars(self)["get_debug"] = bool

    def time(self) -> float:
        return self._time

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task = VirtualTask(coro, loop=self, name=name, context=context)
        self._adopt(task)
        return task

    def go_on(self, handles: Iterable[asyncio.Handle]) -> None:
        """Schedule held callbacks in their order."""
        self._ready.extend(handles)

    def create_future(self) -> asyncio.Future[Any]:
        future = VirtualFuture(loop=self)
        future.number = next(VirtualFuture.numbers)
        return future

    # -- scheduling, without the checks for other threads and closed loops ------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = VirtualHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = VirtualTimer(callback, args, self, context)
        timer._when = when
        timer._scheduled = True
        heapq.heappush(self._timers, (when, timer))
        return timer

    # -- abstract methods of BaseEventLoop --------------------------------------------------------

    def _run_once(self) -> None:
        if self._timer_cancelled_count:
            self._drop_cancelled_timers()
        ready, timers, random_share = self._ready, self._timers, self._chance.random
        if not ready and not self._stopping:
            if not timers:
                raise Deadlocked
            self._time = max(self._time, timers[0][0])
        while timers and timers[0][0] <= self._time:
            _, timer = heapq.heappop(timers)
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
                and random_share() < DEFERRED_SHARE
            ):
                ready.append(handle)
                continue
            self.callbacks += 1
            try:
                handle._context.run(callback, *handle._args)
            except BaseException as error:
                if isinstance(error, SystemExit | KeyboardInterrupt):
                    raise
                name = getattr(callback, "__qualname__", type(callback).__name__)
                message = f"Exception in callback {name}"
                self.call_exception_handler({"message": message, "exception": error})

    def _drop_cancelled_timers(self) -> None:
        timers = self._timers
        if self._timer_cancelled_count > 50 and self._timer_cancelled_count * 2 > len(timers):
            timers[:] = [timed for timed in timers if not timed[1]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][1]._cancelled:
            self._timer_cancelled_count -= 1
            _ = heapq.heappop(timers)

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there is no selector."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads."""

    # -- methods that the client uses -------------------------------------------------------------

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run thread work on the loop, in a later callback. Work can end the process whose task waits for it."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            end: Callable[[Any], None] = future.set_result
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                result, end = error, future.set_exception
            if not future.cancelled():
                end(result)

        self.call_soon(work)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Resolve every name to itself."""
        return [(2, 1, 6, "", (host, port))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect a socket of the operating system, which serves only as an identifier."""
        assert self.sockets is not None
        self._connections[sock.fileno()] = await self.sockets.connect(address)

    async def create_connection(
        self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any
    ) -> Any:
        """Attach a protocol to a connected socket."""
        assert self.sockets is not None
        connection = self._connections.pop(sock.fileno())
        sock.close()
        protocol = protocol_factory()
        return self.sockets.attach(connection, protocol), protocol
