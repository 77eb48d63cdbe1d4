"""One cluster of `kquota watch` and `kquota drift --watch`: its session, its reconciliations, and their metrics and logs."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeAlias

from msgspec import Struct

from reconciler.app.clusters.record_stores import recorded_cluster
from reconciler.app.clusters.runtime import open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.loop.cluster_loop import LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.app.loop.condition_log import ConditionLog
from reconciler.app.loop.reconcile_runner import loop_outcome_of
from reconciler.app.loop.service import WatchMetrics
from reconciler.app.notices import LoggedNotices
from reconciler.app.requests import RecordSource
from reconciler.base.protocols import Clock
from reconciler.client import ClientConfig
from reconciler.errors import ClientError, ConfigError, KquotaError, WrongCluster
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcilePorts


class ClusterSession(Struct, frozen=True, kw_only=True):
    """An open connection to one cluster, with its records."""

    ports: ReconcilePorts
    # Called after each reconciliation, so that others may write the records until the next one.
    disconnect: Callable[[], None]
    own_principal: Principal | None = None  # our principal in the cluster, if the login shows it
    # The cluster that must answer; None = any, because nothing was applied yet and no id is configured.
    expected_cluster_id: str | None = None


@contextlib.asynccontextmanager
async def open_session(
    target: ClusterTarget,
    *,
    command: str,
    writes: bool,
    telemetry: WatchMetrics,
    config: ClientConfig | None = None,
    is_pinned: bool = False,
) -> AsyncIterator[ClusterSession]:
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
        RecordSource(),
        command=command,
        writes=writes,
        answered=lambda event: telemetry.kafka(name, event.api, event.seconds),
        config=config,
    ) as runtime:
        yield ClusterSession(
            ports=runtime.ports,
            disconnect=runtime.unlock,
            own_principal=runtime.own_principal,
            expected_cluster_id=target.settings.expected_cluster_id or pinned,
        )


Reconcile: TypeAlias = Callable[[ClusterSession], Awaitable[Reconciliation]]
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
        opener: Callable[[], AbstractAsyncContextManager[ClusterSession]],
        reconcile: Reconcile,
        telemetry: WatchMetrics,
        clock: Clock,
    ) -> None:
        self.name = name
        self._settings, self._opener, self._reconcile = settings, opener, reconcile
        self._telemetry, self._clock = telemetry, clock
        self._condition_log = ConditionLog(name)
        self._open = AsyncExitStack()
        self._session: ClusterSession | None = None

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
            session.disconnect()

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
