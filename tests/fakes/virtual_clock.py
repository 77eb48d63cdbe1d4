"""A clock for several tasks at once: time stands still until a test moves it, and then wakes sleepers in order."""

import asyncio
import heapq
import itertools

SETTLING_TURNS = 50


class VirtualClock:
    """Implements ports.Clock. Unlike `FakeClock`, sleeping does not move the time."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.wall = start
        self._passed = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self.wall + self._passed

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._passed + max(seconds, 0.0)
        heapq.heappush(self._sleepers, (due, next(self._numbers), woken))
        await woken

    async def settle(self) -> None:
        """Lets every task do what it can do without time going by."""
        for _ in range(SETTLING_TURNS):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Moves the time, waking each sleeper at its own moment."""
        end = self._passed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue  # cancelled
            self._passed = max(self._passed, due)
            woken.set_result(None)
            await self.settle()
        self._passed = end
        await self.settle()

    def freeze(self, seconds: float) -> None:
        """Time goes by while nothing runs: a stopped process, a blocked loop."""
        self._passed += seconds
