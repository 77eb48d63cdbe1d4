"""The wait before the next attempt, and the remainder of a deadline. Pure; nothing here sleeps."""

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

JITTER: Final = (0.8, 1.2)
"""Kafka's ExponentialBackoff randomises waits by ±20 % (KIP-580)."""

EXACT: Final = (1.0, 1.0)
"""No randomisation."""


class Backoff(Struct, frozen=True, kw_only=True):
    """Waits that double from ``first`` to ``cap`` seconds."""

    first: float
    cap: float  # maximum wait in seconds, before randomisation
    # Minimum and maximum factor of the wait; a random one between them is used.
    spread: tuple[float, float] = JITTER

    def pause(self, failures: int, uniform: Callable[[], float]) -> float:
        """Return the seconds to wait after ``failures`` consecutive failures.

        Args:
            failures: 1 after the first failure.
            uniform: Returns a random number in [0, 1).
        """
        if failures < 1:
            return 0.0
        nominal = min(self.cap, self.first * 2.0 ** min(failures - 1, 60))
        least, largest = self.spread
        return nominal * (least + (largest - least) * uniform())


class Deadline(Struct, frozen=True, kw_only=True):
    """The time on the monotonic clock by which a call must end."""

    at: float
    # The end of connection setup; earlier if a response may take longer than a connection.
    connect_at: float = math.inf
    # The end while every address refuses and none ever accepted a connection; at most `at`.
    refused_at: float = math.inf

    def seconds_remaining(self, now: float) -> float:
        """Return the seconds until the deadline, at least 0."""
        return max(0.0, self.at - now)

    @property
    def to_connect(self) -> "Deadline":
        """The deadline of connection setup within the call."""
        return replace(self, at=min(self.at, self.connect_at))

    def within(self, now: float, seconds: float) -> float:
        """Return ``seconds``, or the remainder of the deadline if that is less."""
        return min(seconds, self.seconds_remaining(now))

    def passed(self, now: float) -> bool:
        """Whether the deadline has passed."""
        return now >= self.at
