"""Removals within a sliding window such as an hour, stored so that a restart does not reset the count."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from reconciler.errors import ConfigError
from reconciler.quota.planner.removal_budgets import RemovalCount, condense


class RemovalStore(Protocol):
    """Stores the counts beyond the process."""

    async def load(self) -> Sequence[RemovalCount]:
        """Return all counts; empty if none were ever stored.

        Raises:
            KquotaError: They exist and cannot be read; an empty result is never returned instead.
        """
        ...

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Replace all counts durably."""
        ...


class RemovalWindow:
    """The removals within a sliding window of ``seconds``, which may change; ``store`` is read once, before the first result."""

    def __init__(self, store: RemovalStore, *, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise ConfigError(f"the window must be a positive number of seconds, not {seconds}")
        self._store = store
        self.seconds = seconds
        self._counts: tuple[RemovalCount, ...] | None = None

    async def history(self, now: float) -> tuple[RemovalCount, ...]:
        """Return removals within the window that ends at ``now`` (seconds since the epoch).

        A time in the future, because the clock was set back, still counts, so that no removal is forgotten.
        """
        return tuple(count for count in await self._load() if count.at > now - self.seconds)

    async def add(self, counts: Iterable[RemovalCount], now: float) -> None:
        """Record removals that are about to be sent."""
        added = tuple(counts)
        if added:
            await self._save(condense((*await self.history(now), *added)))

    async def take_back(self, counts: Mapping[str, int], at: float) -> None:
        """Take back removals of tenants that were recorded at exactly this time and not sent."""
        remaining_counts = Counter({tenant: count for tenant, count in counts.items() if count > 0})
        if not remaining_counts:
            return
        remaining: list[RemovalCount] = []
        for entry in await self._load():
            back = min(remaining_counts[entry.tenant], entry.count) if entry.at == at else 0
            remaining_counts[entry.tenant] -= back
            if entry.count > back:
                remaining.append(replace(entry, count=entry.count - back))
        await self._save(tuple(remaining))

    async def _save(self, counts: tuple[RemovalCount, ...]) -> None:
        await self._store.save(counts)
        self._counts = counts

    async def _load(self) -> tuple[RemovalCount, ...]:
        if self._counts is None:
            self._counts = tuple(await self._store.load())
        return self._counts


class MemoryRemovals:
    """Counts in memory only. Implements ``RemovalStore``."""

    def __init__(self) -> None:
        self.counts: tuple[RemovalCount, ...] = ()

    async def load(self) -> Sequence[RemovalCount]:
        """Return the counts saved last."""
        return self.counts

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Replace all counts."""
        self.counts = tuple(counts)
