"""Removals of the last hour (or another window), remembered so that neither time nor a restart hides them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from reconciler.errors import ConfigError
from reconciler.quota.planner.removal_budgets import (
    WINDOW_SECONDS as WINDOW_SECONDS,  # noqa: PLC0414 - exported from here too
)
from reconciler.quota.planner.removal_budgets import RemovalCount, condensed

LEAST_SECONDS: Final = 1.0
"""A window of ``0s`` is taken as this long: hardly anything is counted then."""


class RemovalStore(Protocol):
    """Where the counts outlive the process."""

    async def load(self) -> Sequence[RemovalCount]:
        """All counts; empty where there never were any.

        Raises:
            KquotaError: They exist and cannot be read; never an empty answer instead.
        """
        ...

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Put these in place of the old ones, durably."""
        ...


class RemovalWindow:
    """The removals within a sliding window.

    Args:
        store: Where they are kept; read once, before the first answer.
        seconds: Length of the window.

    Attributes:
        seconds: Length of the window.
    """

    def __init__(self, store: RemovalStore, *, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise ConfigError(f"the window must be a positive number of seconds, not {seconds}")
        self._store = store
        self.seconds = seconds
        self._counts: tuple[RemovalCount, ...] | None = None

    def resize(self, seconds: float) -> None:
        """From now on the window has this length, or the least that there is."""
        self.seconds = max(seconds, LEAST_SECONDS)

    async def history(self, now: float) -> tuple[RemovalCount, ...]:
        """Removals within the window that ends at ``now`` (seconds since the epoch).

        A time that lies ahead, because the clock was set back, counts: to forget is what must not happen.
        """
        return tuple(count for count in await self._loaded() if count.at > now - self.seconds)

    async def add(self, counts: Iterable[RemovalCount], now: float) -> None:
        """Remember removals that are about to be sent."""
        added = tuple(counts)
        if added:
            await self._save(condensed((*await self.history(now), *added)))

    async def take_back(self, counts: Mapping[str, int], at: float) -> None:
        """Forget removals of some tenants that were remembered at that very time and did not happen."""
        remaining_counts = Counter({tenant: count for tenant, count in counts.items() if count > 0})
        if not remaining_counts:
            return
        remaining: list[RemovalCount] = []
        for entry in await self._loaded():
            back = min(remaining_counts[entry.tenant], entry.count) if entry.at == at else 0
            remaining_counts[entry.tenant] -= back
            if entry.count > back:
                remaining.append(replace(entry, count=entry.count - back))
        await self._save(tuple(remaining))

    async def _save(self, counts: tuple[RemovalCount, ...]) -> None:
        await self._store.save(counts)
        self._counts = counts

    async def _loaded(self) -> tuple[RemovalCount, ...]:
        if self._counts is None:
            self._counts = tuple(await self._store.load())
        return self._counts


class MemoryRemovals:
    """Counts that are gone with the process. Implements ``RemovalStore``."""

    def __init__(self) -> None:
        self.counts: tuple[RemovalCount, ...] = ()

    async def load(self) -> Sequence[RemovalCount]:
        """What was saved last."""
        return self.counts

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Keep them."""
        self.counts = tuple(counts)
