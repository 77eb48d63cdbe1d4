"""The loops of several clusters; those of a branch restart when its settings change, and run when its documents do."""

import asyncio
import random as system_random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from reconciler import __version__
from reconciler.app.loop.cluster_loop import ClusterLoop, Random
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.service import WatchMetrics
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.loop.wait import first_of, until_ended
from reconciler.app.watch.cluster import ClusterSession, WatchedCluster
from reconciler.app.watch.revision import Revision
from reconciler.app.watch.state_file import WatchState
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.reconcile import ReconcileOptions

Opener: TypeAlias = Callable[[Revision, str], AbstractAsyncContextManager[ClusterSession]]
"""``opener(revision, cluster)`` opens a session for a context. May raise ``KquotaError`` on entering."""


class WatchedClusters:
    """Clusters with a loop each.

    Attributes:
        loops: The loops, by name of the cluster.
    """

    def __init__(
        self,
        clusters: Iterable[WatchedCluster],
        *,
        telemetry: WatchMetrics,
        clock: Clock,
        random: Random = system_random.random,
    ) -> None:
        self._clusters, self._telemetry = tuple(clusters), telemetry
        self.loops: Mapping[str, ClusterLoop] = {
            cluster.name: ClusterLoop(
                cluster.name, work=cluster.work, pace=cluster.pace, clock=clock, random=random
            )
            for cluster in self._clusters
        }
        for name, loop in self.loops.items():
            telemetry.interval(name, loop.interval)

    def enqueue(self, key: str) -> None:
        """Request a reconciliation of every cluster."""
        for name, loop in self.loops.items():
            loop.mailbox.put(key)
            self._telemetry.queue(name, loop.mailbox.depth)

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile the clusters until ``stop`` is set, then end the loops and close the sessions.

        Raises:
            TaskDied: A loop ended unexpectedly.
        """
        try:
            await supervise(
                {f"cluster {name}": loop.run(stop) for name, loop in self.loops.items()}, stop
            )
        finally:
            for cluster in self._clusters:
                await cluster.close()


class WatchedFleet:
    """All clusters of a watched repository.

    Drift observations survive a change of the settings; connections do not.

    Args:
        principal: Who runs this, for the audit log.

    Attributes:
        watched: The present clusters and their loops.
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
        self.watched = WatchedClusters((), telemetry=telemetry, clock=clock, random=random)
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
            self.watched.enqueue(revision.commit)
        else:
            self._renewed.set()

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
        for removed_name in self.watched.loops.keys() - set(revision.project.names):
            self._telemetry.forget(removed_name)
            _ = self._runners.pop(removed_name, None)
        clusters = [self._watched(name) for name in revision.project.names]
        self.watched = WatchedClusters(
            clusters, telemetry=self._telemetry, clock=self._clock, random=self._random
        )

    def _watched(self, name: str) -> WatchedCluster:
        removals = self._state.removals(name)
        runner = self._runners.setdefault(
            name, ReconcileRunner(name, clock=self._clock, removals=removals)
        )

        async def reconcile(session: ClusterSession) -> Reconciliation:
            revision = self._revision()
            options = self._options(revision, name, session)
            return await runner.run(session.ports, options, revision.desired[name])

        return WatchedCluster(
            name,
            settings=lambda: self._revision().project.cluster(name).cluster,
            opener=lambda: self._opener(self._revision(), name),
            reconcile=reconcile,
            telemetry=self._telemetry,
            clock=self._clock,
        )

    def _options(self, revision: Revision, name: str, session: ClusterSession) -> ReconcileOptions:
        settings = revision.project.cluster(name).cluster
        return ReconcileOptions(
            rules=settings.rules(),
            guards=settings.guards,
            expected_cluster_id=session.expected_cluster_id,
            assess=False,
            own_principal=session.own_principal,
            origin=RunOrigin(
                author=self._principal,
                commit=revision.commit,
                cluster=name,
                tool_version=__version__,
            ),
        )

    async def _epoch(self, stop: asyncio.Event) -> None:
        """Run the loops until ``stop`` is set or settings have changed; then end them and close the sessions."""
        over = asyncio.Event()
        task = asyncio.ensure_future(self.watched.run(over))
        cancelled = False
        try:
            await first_of(stop.wait(), self._renewed.wait(), asyncio.wait({task}))
        except asyncio.CancelledError:
            cancelled = True
        over.set()
        cancelled = await until_ended(task, cancelled=cancelled)
        task.result()
        if cancelled:
            raise asyncio.CancelledError
