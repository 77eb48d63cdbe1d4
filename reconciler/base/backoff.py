"""How long to wait before the next try, and what is left of a deadline. Numbers only; nothing here sleeps."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

JITTER: Final = (0.8, 1.2)
"""Kafka's ExponentialBackoff spreads waits by ±20 % (KIP-580)."""

EXACT: Final = (1.0, 1.0)
"""No spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that double from ``first`` to ``cap`` seconds.

    Attributes:
        first: Seconds after the first failure.
        cap: Longest wait in seconds, before it is spread.
        spread: Least and largest share of the wait; a random one between them is taken.
    """

    first: float
    cap: float
    spread: tuple[float, float] = JITTER

    def pause(self, failures: int, uniform: Callable[[], float]) -> float:
        """Seconds to wait after so many failures in a row (from 1).

        Args:
            failures: 1 after the first failure.
            uniform: Gives a number in [0, 1); the source of randomness.
        """
        if failures < 1:
            return 0.0
        nominal = min(self.cap, self.first * 2.0 ** min(failures - 1, 60))
        least, largest = self.spread
        return nominal * (least + (largest - least) * uniform())


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """One instant on the monotonic clock by which a call must end.

    Attributes:
        at: The end.
        connect_at: The end of setting up a connection; earlier where an answer is waited for longer than a connection.
        refused_at: The end while every address refuses and none ever accepted a connection; at most ``at``.
    """

    at: float
    connect_at: float = math.inf
    refused_at: float = math.inf

    def seconds_remaining(self, now: float) -> float:
        """Seconds until the deadline, never below 0."""
        return max(0.0, self.at - now)

    @property
    def to_connect(self) -> "Deadline":
        """The deadline of setting up a connection inside the call."""
        return replace(self, at=min(self.at, self.connect_at))

    def within(self, now: float, seconds: float) -> float:
        """``seconds``, or what is left of the deadline if that is less."""
        return min(seconds, self.seconds_remaining(now))

    def passed(self, now: float) -> bool:
        """Whether nothing is left."""
        return now >= self.at
