"""Removals of the last hour (or whatever the window is), counted so that neither time nor a restart hides them."""

import math
from collections.abc import Mapping
from typing import Final, Protocol

from reconciler.errors import ConfigError
from reconciler.quota.change import Plan
from reconciler.quota.owned import Pair
from reconciler.quota.policy import Cause

UNCOUNTED = frozenset({Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
"""Removals that the guard does not count either: what the night shift asks for, and what its end brings back."""


WINDOW_SECONDS: Final = 3600.0
"""Length of the window where nobody says another one."""

LEAST_SECONDS: Final = 1.0
"""Somebody may write ``0s`` for a window; that is one in which hardly anything is counted."""


class RemovalStore(Protocol):
    """Where the counts outlive the process."""

    async def load(self) -> Mapping[float, int]:
        """When -> how many; empty where there never were any.

        Raises:
            KquotaError: They exist and cannot be read; never an empty answer instead.
        """
        ...

    async def save(self, counts: Mapping[float, int]) -> None:
        """Put these in place of the old ones, durably."""
        ...


class RemovalWindow:
    """How many removals were made within a sliding window.

    Args:
        store: Where they are kept; read once, before the first answer.
        seconds: Length of the window.
    """

    def __init__(self, store: RemovalStore, *, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise ConfigError(f"the window must be a positive number of seconds, not {seconds}")
        self._store = store
        self._seconds = seconds
        self._counts: dict[float, int] | None = None

    def resize(self, seconds: float) -> None:
        """From now on the window has this length, or the least that there is."""
        self._seconds = max(seconds, LEAST_SECONDS)

    async def count(self, now: float) -> int:
        """Removals within the window that ends at ``now`` (seconds since the epoch).

        A time that lies ahead, because the clock was set back, counts: to forget is what must not happen.
        """
        return sum(self._kept(await self._loaded(), now).values())

    async def add(self, count: int, now: float) -> None:
        """Count removals at ``now``; a negative count takes back what was counted at that very time."""
        if not count:
            return
        kept = self._kept(await self._loaded(), now)
        kept[now] = max(kept.get(now, 0) + count, 0)
        counts = {at: number for at, number in kept.items() if number}
        await self._store.save(counts)
        self._counts = counts

    async def _loaded(self) -> Mapping[float, int]:
        if self._counts is None:
            self._counts = dict(await self._store.load())
        return self._counts

    def _kept(self, counts: Mapping[float, int], now: float) -> dict[float, int]:
        return {at: number for at, number in counts.items() if at > now - self._seconds}


class MemoryRemovals:
    """Counts that are gone with the process. Implements ``RemovalStore``."""

    def __init__(self) -> None:
        self.counts: dict[float, int] = {}

    async def load(self) -> Mapping[float, int]:
        """What was saved last."""
        return self.counts

    async def save(self, counts: Mapping[float, int]) -> None:
        """Keep them."""
        self.counts = dict(counts)


def removals_of(plan: Plan) -> frozenset[Pair]:
    """The pairs that a plan removes, as the guards count them."""
    return frozenset(
        (one.entity, one.key) for one in plan.changes if one.removes and one.cause not in UNCOUNTED
    )
