"""The system clock: the only module of the client that reads the time of the operating system."""

import time


class SystemClock:
    """Implements :class:`reconciler.base.protocols.Clock` with the machine's clocks."""

    __slots__ = ()

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        return time.time()  # noqa: TID251 - this is the clock that others take

    def monotonic(self) -> float:
        """Return monotonic seconds; the same clock that asyncio's loop uses."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait at least this long; 0 or less yields once."""
        import asyncio  # noqa: PLC0415 - commands that never wait read a clock, too

        await asyncio.sleep(max(seconds, 0))
