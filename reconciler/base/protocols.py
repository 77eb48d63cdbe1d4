"""What long-running code gets from its caller: a clock and a progress callback."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""``progress(phase, done, total)``: progress of long-running work; called often, must be cheap."""


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
