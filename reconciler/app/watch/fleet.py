"""The loops of all clusters of the applied revision; restarted when its settings change, woken when its documents do."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from reconciler.app.loop.cluster_loop import ClusterLoop, Random
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.loop.wait import first_of, until_ended
from reconciler.app.watch.cluster import Opener, WatchedCluster
from reconciler.app.watch.metrics_port import WatchMetrics
from reconciler.app.watch.revision import Revision
from reconciler.app.watch.state_file import WatchState
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError


class WatchedFleet:
    """All clusters of a watched repository.

    Drift observations survive a change of the settings; connections do not.

    Args:
        principal: Who runs this, for the audit log.

    Attributes:
        clusters: The present clusters, by name.
    """

    def __init__(
        self,
        *,
        opener: Opener,
        state: WatchState,
        telemetry: WatchMetrics,
        clock: Clock,
        random: Random,
        principal: str,
    ) -> None:
        self.clusters: dict[str, WatchedCluster] = {}
        self.loops: dict[str, ClusterLoop] = {}
        self._opener, self._state, self._telemetry = opener, state, telemetry
        self._clock, self._random, self._principal = clock, random, principal
        # The revision in use, and the latest one: if its settings differ it waits for the loops to end.
        self._current: Revision | None = None
        self._newest: Revision | None = None
        self._renewed = asyncio.Event()
        self._runners: dict[str, ReconcileRunner] = {}

    def take(self, revision: Revision) -> None:
        """Apply this revision from now on."""
        is_unchanged = revision.has_settings_of(self._newest) and not self._renewed.is_set()
        self._newest = revision
        if is_unchanged:
            self._current = revision
            self.enqueue(revision.commit)
        else:
            self._renewed.set()

    def enqueue(self, key: str) -> None:
        """Request a reconciliation of every cluster."""
        for name, loop in self.loops.items():
            loop.mailbox.put(key)
            self._telemetry.queue(name, loop.mailbox.depth)

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile the clusters until ``stop`` is set.

        Raises:
            TaskDied: A loop ended unexpectedly.
        """
        while not stop.is_set():
            await first_of(stop.wait(), self._renewed.wait())
            if stop.is_set():
                return
            self._renewed.clear()
            self._current = self._newest
            self._assemble(self._revision())
            await self._epoch(stop)

    def _revision(self) -> Revision:
        if self._current is None:
            raise KquotaError("no revision is in force")  # Not called before a revision is applied.
        return self._current

    def _assemble(self, revision: Revision) -> None:
        for removed_name in self.clusters.keys() - set(revision.project.names):
            self._telemetry.forget(removed_name)
            _ = self._runners.pop(removed_name, None)
        self.clusters = {
            project_cluster.name: WatchedCluster(
                project_cluster.name,
                revision=self._revision,
                runner=self._runner_of(project_cluster.name),
                opener=self._opener,
                telemetry=self._telemetry,
                clock=self._clock,
                principal=self._principal,
            )
            for project_cluster in revision.project.clusters
        }
        self.loops = {
            name: ClusterLoop(
                name, work=cluster.work, pace=cluster.pace, clock=self._clock, random=self._random
            )
            for name, cluster in self.clusters.items()
        }
        for name, cluster in self.clusters.items():
            self._telemetry.interval(name, cluster.pace().interval)

    def _runner_of(self, name: str) -> ReconcileRunner:
        removals = self._state.removals(name)
        return self._runners.setdefault(
            name, ReconcileRunner(name, clock=self._clock, removals=removals)
        )

    async def _epoch(self, stop: asyncio.Event) -> None:
        """Run the loops until ``stop`` is set or settings have changed; then end them and close the sessions."""
        over = asyncio.Event()
        loops: Mapping[str, Coroutine[Any, Any, None]] = {
            f"cluster {name}": loop.run(over) for name, loop in self.loops.items()
        }
        task = asyncio.ensure_future(supervise(loops, over))
        cancelled = False
        try:
            await first_of(stop.wait(), self._renewed.wait(), asyncio.wait({task}))
        except asyncio.CancelledError:
            cancelled = True
        over.set()
        try:
            cancelled = await until_ended(task, cancelled=cancelled)
        finally:
            for cluster in self.clusters.values():
                await cluster.close()
        task.result()
        if cancelled:
            raise asyncio.CancelledError
