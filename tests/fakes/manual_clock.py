"""A clock that only tests advance: sleeping tasks wake at their time, one after the other."""

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


async def settle() -> None:
    """Run the event loop until all tasks wait, 50 iterations at most."""
    for _ in range(50):
        await asyncio.sleep(0)


class Inline(ThreadPoolExecutor):
    """An executor for `loop.set_default_executor` that runs work immediately, so that `settle` waits for it, too."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised by the future
            done.set_exception(error)
        return done


class TurnedClock:
    """Implements `base.protocols.Clock`. Unlike with ``FakeClock``, sleeping does not advance it."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._epoch = start
        self._passed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> float:
        return self._epoch + self._passed

    def monotonic(self) -> float:
        return 1000.0 + self._passed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._passed + seconds, self._count, woken))
        await woken

    @property
    def sleepers(self) -> int:
        """Number of sleeping tasks."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def turn(self, seconds: float) -> None:
        """Advance the time; all tasks run after each wake-up."""
        await settle()
        end = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._passed = max(at, self._passed)
                woken.set_result(None)
                await settle()
        self._passed = end
        await settle()
