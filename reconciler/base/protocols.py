"""What long work takes from its caller: a clock, and a callable that hears of progress. Protocols only."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""``progress(phase, done, total)``: how far long work is; called often, must be cheap."""


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
