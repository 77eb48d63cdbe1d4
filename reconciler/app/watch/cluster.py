"""Clusters of `kquota watch` and `kquota drift --watch`: their sessions, reconciliations, metrics and loops.

The loops of a branch restart when its settings change, and run when its documents do.
"""

import asyncio
import contextlib
import random as system_random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeAlias

from msgspec.structs import replace

from reconciler import __version__
from reconciler.app.clusters.runtime import Runtime, open_runtime, recorded_cluster
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.loop.cluster_loop import (
    ClusterLoop,
    LoopIntervals,
    LoopOutcome,
    LoopTrigger,
    Random,
)
from reconciler.app.loop.condition_log import ConditionLog
from reconciler.app.loop.reconcile_runner import ReconcileRunner, loop_outcome_of
from reconciler.app.loop.service import WatchMetrics, hung_loops, late_loops
from reconciler.app.loop.task_supervisor import first_of, supervise, until_ended
from reconciler.app.notices import LoggedNotices
from reconciler.app.requests import RecordUse
from reconciler.app.watch.revision import Revision
from reconciler.app.watch.state_file import WatchState
from reconciler.base.protocols import Clock
from reconciler.client import ClientConfig
from reconciler.errors import ClientError, ConfigError, KquotaError, WrongCluster
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.reconcile import ReconcileOptions


@contextlib.asynccontextmanager
async def open_session(
    target: ClusterTarget,
    *,
    command: str,
    writes: bool,
    telemetry: WatchMetrics,
    config: ClientConfig | None = None,
    is_pinned: bool = False,
) -> AsyncIterator[Runtime]:
    """Open a session with one cluster; its texts are logged.

    Args:
        command: Name of the command, for the lock.
        writes: Whether records may be written.
        config: The client's settings; ``None`` = those of the target.
        is_pinned: Whether the cluster that the records are of must answer, if no id is configured.

    Raises:
        ConfigError: A client setting is invalid.
        InventoryError: A folder cannot be created, the records cannot be read, or are about several clusters.
    """
    name = target.display_name
    pinned = recorded_cluster(target) if is_pinned else None
    async with open_runtime(
        LoggedNotices(name),
        target,
        RecordUse.OWN,
        command=command,
        writes=writes,
        answered=lambda event: telemetry.kafka(name, event.api, event.seconds),
        config=config,
    ) as runtime:
        yield replace(runtime, expected_cluster_id=runtime.expected_cluster_id or pinned)


Reconcile: TypeAlias = Callable[[Runtime], Awaitable[Reconciliation]]
"""One reconciliation in a session. Its errors are part of the result."""


class WatchedCluster:
    """The work of the loop over one cluster.

    Args:
        settings: Returns the trusted configuration that is in force.
        opener: Opens a session for a context. May raise ``KquotaError`` on entering.
        reconcile: One reconciliation in a session.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: Callable[[], QuotaCluster],
        opener: Callable[[], AbstractAsyncContextManager[Runtime]],
        reconcile: Reconcile,
        telemetry: WatchMetrics,
        clock: Clock,
    ) -> None:
        self.name = name
        self._settings, self._opener, self._reconcile = settings, opener, reconcile
        self._telemetry, self._clock = telemetry, clock
        self._condition_log = ConditionLog(name)
        self._open = AsyncExitStack()
        self._session: Runtime | None = None

    def pace(self) -> LoopIntervals:
        """Return the intervals of the loop; a failure is retried sooner than the next resync, never later."""
        interval = self._settings().interval
        return LoopIntervals(
            interval=interval, gap=min(1.0, interval / 2), first_retry=min(1.0, interval)
        )

    async def work(self, trigger: LoopTrigger) -> LoopOutcome:
        """Reconcile once."""
        self._telemetry.batch(self.name, len(trigger.keys))
        self._telemetry.queue(self.name, 0)
        reconciliation = await self._reconcile_in_session()
        self._telemetry.record(reconciliation)
        self._condition_log.log(reconciliation)
        if self._needs_new_session(reconciliation.error):
            await self.close()
        return loop_outcome_of(reconciliation)

    async def close(self) -> None:
        """Close the session; the next reconciliation opens another one with the then current files and environment."""
        self._session = None
        await self._open.aclose()

    async def _reconcile_in_session(self) -> Reconciliation:
        at = self._clock.now()
        try:
            if self._session is None:
                self._session = await self._open.enter_async_context(self._opener())
        except KquotaError as error:
            return Reconciliation(
                cluster=self.name, error=error, started_at=at, ended_at=self._clock.now()
            )
        session = self._session
        try:
            return await self._reconcile(session)
        finally:
            session.unlock()

    def _needs_new_session(self, error: KquotaError | None) -> bool:
        """Whether the error is final for a client. A new one reads the credentials again.

        A client stays with its first cluster, which was the wrong one if an address led there for a while.
        """
        match error:
            case WrongCluster():
                session = self._session
                return session is not None and session.expected_cluster_id is not None
            case ConfigError():
                return True
            case _:
                return isinstance(error, ClientError) and not error.retriable


Opener: TypeAlias = Callable[[Revision, str], AbstractAsyncContextManager[Runtime]]
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
        self._clusters, self._telemetry, self._clock = tuple(clusters), telemetry, clock
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

    def healthy(self) -> Sequence[str]:
        """Return loops that hang."""
        return hung_loops(self.loops.values(), self._clock.now())

    def ready(self) -> Sequence[str]:
        """Return late clusters."""
        return late_loops(self.loops.values(), self._clock.now())

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

        async def reconcile(session: Runtime) -> Reconciliation:
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

    def _options(self, revision: Revision, name: str, session: Runtime) -> ReconcileOptions:
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
