"""A clock that tests advance; sleeping advances it, too."""

import asyncio


class FakeClock:
    """Implements `base.protocols.Clock`. `slept` lists every sleep in seconds."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._epoch = start
        self._passed = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self._epoch + self._passed

    def monotonic(self) -> float:
        return 1000.0 + self._passed

    def advance(self, seconds: float) -> None:
        self._passed += seconds

    def jump(self, seconds: float) -> None:
        """Change the time of day alone, as a correction of the system's clock does."""
        self._epoch += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._passed += max(seconds, 0.0)
        await asyncio.sleep(0)
