"""The intervals of a loop: resync, lingering, and waits after failures. Numbers only."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from reconciler.errors import ConfigError

Random: TypeAlias = Callable[[], float]
"""A random number from 0 up to, not including, 1; such as ``random.random``."""

_MOST_DOUBLINGS: Final = 64
"""More doublings than any wait can use; bounds the power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIntervals:
    """The intervals of one loop; all times in seconds.

    Raises:
        ConfigError: A number is NaN or out of range.
    """

    interval: float = 120.0  # between two resyncs, which compare everything
    # Fraction by which a wait varies either way, so that many loops are not synchronised.
    jitter: float = 0.1
    gap: float = 1.0  # minimum rest between the end of one reconciliation and the start of the next
    linger: float = 0.1  # maximum time that a batch waits for more keys after its first
    batch: int = 100  # number of keys at which a batch stops waiting
    # Wait after the first consecutive failure; each further one waits twice as long.
    first_retry: float = 1.0
    last_retry: float = 300.0  # maximum wait after a failure, before jitter
    confirm: float = 3.0  # wait before a reconciliation that repeats an unconfirmed observation

    def __post_init__(self) -> None:
        for name, fits, words in (
            ("interval", 0 < self.interval < math.inf, "a positive number of seconds"),
            ("jitter", 0 <= self.jitter < 1, "a share from 0 up to 1"),
            ("gap", 0 <= self.gap < math.inf, "seconds, 0 or more"),
            ("confirm", 0 < self.confirm < math.inf, "a positive number of seconds"),
            ("linger", 0 <= self.linger < math.inf, "seconds, 0 or more"),
            ("batch", self.batch >= 1, "at least 1"),
            ("first_retry", 0 < self.first_retry < math.inf, "a positive number of seconds"),
            ("last_retry", self.first_retry <= self.last_retry < math.inf, "at least first_retry"),
        ):
            if not fits:
                raise ConfigError(f"{name} must be {words}, not {getattr(self, name)}", key=name)

    def resync_after(self, random: Random) -> float:
        """Return seconds from one resync to the next."""
        return self._vary(self.interval, random)

    def retry_after(self, failures: int, random: Random) -> float:
        """Return seconds to wait after ``failures`` (at least 1) consecutive failures."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return self._vary(min(self.first_retry * 2.0**doublings, self.last_retry), random)

    def _vary(self, seconds: float, random: Random) -> float:
        return seconds * (1 + self.jitter * (2 * random() - 1))
