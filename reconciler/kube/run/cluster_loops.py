"""Starts and stops one loop per QuotaCluster, and one loop for documents whose QuotaCluster does not exist.

Watch events call :meth:`ClusterLoops.enqueue`, which waits neither for Kafka nor for the API server.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from reconciler.app.loop.cluster_loop import (
    ClusterLoop,
    LoopIntervals,
    LoopOutcome,
    LoopTrigger,
    Work,
)
from reconciler.base.protocols import Clock
from reconciler.kube.watch.resource_cache import ResourceCache

LOST: Final = ""
"""Name of the loop for documents whose QuotaCluster does not exist; not a valid QuotaCluster name."""


class ClusterLoops:
    """The loops of one operator.

    Args:
        cache: The QuotaClusters.
        work_of: Returns the work of a new loop by the name of its cluster (``LOST`` for documents without a cluster).
        pace_of: Returns the intervals of a loop; called before each wait.
        on_end: Called with the name of a cluster whose loop ended.
    """

    def __init__(
        self,
        cache: ResourceCache,
        *,
        work_of: Callable[[str], Work],
        pace_of: Callable[[str], LoopIntervals],
        clock: Clock,
        on_end: Callable[[str], None],
    ) -> None:
        self._cache, self._clock = cache, clock
        self._work_of, self._pace_of, self._on_end = work_of, pace_of, on_end
        # Each loop, and what stops it.
        self._running: dict[str, tuple[ClusterLoop, asyncio.Event]] = {}
        self._changed = asyncio.Event()

    @property
    def loops(self) -> dict[str, ClusterLoop]:
        """The loops of the QuotaClusters that this operator serves, by name."""
        return {name: loop for name, (loop, _) in self._running.items() if name != LOST}

    def enqueue(self, clusters: Iterable[str], key: str) -> None:
        """Put ``key`` into the mailboxes of these clusters, and start or stop loops if clusters were created or deleted."""
        for name in clusters:
            present = name in self._cache.clusters
            is_wanted = self._cache.is_own(name)
            if (name in self._running) != is_wanted:
                self._changed.set()  # Created, deleted, or its operator class changed.
            if is_wanted and name in self._running:
                self._running[name][0].mailbox.put(key)
            if not present and LOST in self._running:
                self._running[LOST][0].mailbox.put(name)

    async def run(self, stop: asyncio.Event) -> None:
        """Run the loops until ``stop`` is set.

        Raises:
            Exception: A loop failed; this is a bug.
        """
        tasks: dict[asyncio.Task[None], str] = {}
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._changed.clear()
                self._begin_and_end(tasks)
                changed = asyncio.ensure_future(self._changed.wait())
                _ = await asyncio.wait(
                    {*tasks, changed, stopping}, return_when=asyncio.FIRST_COMPLETED
                )
                _ = changed.cancel()
                for task in [candidate for candidate in tasks if candidate.done()]:
                    self._ended(tasks.pop(task))
                    task.result()
        finally:
            for _, loop_stop in self._running.values():
                loop_stop.set()
            _ = stopping.cancel()
            if tasks:
                _ = await asyncio.wait(tasks)

    def _begin_and_end(self, tasks: dict[asyncio.Task[None], str]) -> None:
        wanted_names = {LOST, *filter(self._cache.is_own, self._cache.clusters)}
        for name in wanted_names - self._running.keys():
            stop = asyncio.Event()
            loop = ClusterLoop(
                name or "documents without a cluster",
                work=self._work_of(name),
                pace=partial(self._pace_of, name),
                clock=self._clock,
            )
            self._running[name] = loop, stop
            tasks[asyncio.ensure_future(loop.run(stop))] = name
        for name in self._running.keys() - wanted_names:
            self._running[name][1].set()

    def _ended(self, name: str) -> None:
        """Remove a loop that ended; if its cluster exists again, a new loop starts at once."""
        del self._running[name]
        self._on_end(name)
        self._changed.set()
        if LOST in self._running:
            self._running[LOST][0].mailbox.put(name)


def reported(work: Work, report: Callable[[float], None], *, clock: Clock) -> Work:
    """Wrap ``work``: report the start time (seconds since the epoch) when it begins and 0 when it ends."""

    async def run(trigger: LoopTrigger) -> LoopOutcome:
        report(clock.now())
        try:
            return await work(trigger)
        finally:
            report(0.0)

    return run
