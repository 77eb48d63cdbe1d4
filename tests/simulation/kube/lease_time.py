"""The time of the candidates for the Lease. It stands still while nothing disturbs them.

Then the leader only renews its Lease and the others only read it, every few seconds, which costs more than everything else
in a world. An election compares only times of this clock, so it cannot notice how long the time stood still.
"""

import asyncio
import contextvars
import itertools
from dataclasses import dataclass

from tests.simulation.virtual_loop import VirtualLoop


@dataclass(kw_only=True)
class _Sleep:
    """A sleep until a time of the candidates, with the timer that ends it; ``None`` = the time stands still."""

    until: float
    over: "asyncio.Future[None]"
    context: contextvars.Context
    timer: asyncio.TimerHandle | None = None


class LeaseTime:
    """Seconds of a loop, except those in which it stood still."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._stopped_at: float | None = None
        self._stopped_seconds = 0.0
        self._sleeps: dict[int, _Sleep] = {}
        self._numbers = itertools.count()

    def time(self) -> float:
        """Return the seconds since the start."""
        now = self._loop.time() if self._stopped_at is None else self._stopped_at
        return now - self._stopped_seconds

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds of this time."""
        number, over = next(self._numbers), self._loop.create_future()
        context = contextvars.copy_context()
        sleep = _Sleep(until=self.time() + seconds, over=over, context=context)
        self._sleeps[number] = sleep
        if self._stopped_at is None:
            self._begin(sleep)
        try:
            await over
        finally:
            del self._sleeps[number]
            if sleep.timer is not None:
                sleep.timer.cancel()

    def stop(self) -> None:
        """Let the time stand still from now on."""
        if self._stopped_at is None:
            self._stopped_at = self._loop.time()
            for sleep in self._sleeps.values():
                if sleep.timer is not None:
                    sleep.timer.cancel()
                    sleep.timer = None

    def go_on(self) -> None:
        """Let the time pass from now on."""
        if self._stopped_at is not None:
            self._stopped_seconds += self._loop.time() - self._stopped_at
            self._stopped_at = None
            for sleep in self._sleeps.values():
                self._begin(sleep)

    def _begin(self, sleep: _Sleep) -> None:
        seconds = max(sleep.until - self.time(), 0.0)
        sleep.timer = self._loop.call_later(seconds, _end, sleep.over, context=sleep.context)


def _end(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)
