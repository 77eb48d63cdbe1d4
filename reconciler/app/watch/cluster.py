"""One cluster of a watched repository: its session, its reconciliations, and their metrics and logs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias

from reconciler import __version__
from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.loop.intervals import LoopIntervals
from reconciler.app.loop.loop_outcome import turn_of
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.watch.condition_log import ConditionLog
from reconciler.app.watch.metrics_port import WatchMetrics
from reconciler.app.watch.revision import Revision
from reconciler.base.protocols import Clock
from reconciler.errors import ClientError, ConfigError, KquotaError, WrongCluster
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.reconcile import ReconcileOptions, ReconcilePorts

LEAST_INTERVAL: Final = 1.0
"""Minimum of ``spec.interval`` in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSession:
    """An open connection to one cluster, with its records."""

    ports: ReconcilePorts
    # Called after each reconciliation, so that others may write the records until the next one.
    disconnect: Callable[[], None]
    own_principal: Principal | None = None  # our principal in the cluster, if the login shows it


Opener: TypeAlias = Callable[[Revision, str], AbstractAsyncContextManager[ClusterSession]]
"""``opener(revision, cluster)`` opens a session for a context. May raise ``KquotaError`` on entering."""


class WatchedCluster:
    """The work of the loop over one cluster.

    Args:
        revision: Returns the applied revision; called for each reconciliation.
        principal: Who runs this, for the audit log.

    Attributes:
        last: The latest reconciliation; ``None`` = none yet.
    """

    def __init__(
        self,
        name: str,
        *,
        revision: Callable[[], Revision],
        runner: ReconcileRunner,
        opener: Opener,
        telemetry: WatchMetrics,
        clock: Clock,
        principal: str,
    ) -> None:
        self.name = name
        self.last: Reconciliation | None = None
        self._revision, self._runner, self._opener = revision, runner, opener
        self._telemetry, self._clock, self._principal = telemetry, clock, principal
        self._condition_log = ConditionLog(name)
        self._open = AsyncExitStack()
        self._session: ClusterSession | None = None

    @property
    def settings(self) -> QuotaCluster:
        """The cluster's trusted configuration in the applied revision."""
        return self._revision().project.cluster(self.name).cluster

    def pace(self) -> LoopIntervals:
        """Return the intervals of the loop."""
        return LoopIntervals(interval=max(self.settings.interval, LEAST_INTERVAL))

    async def work(self, trigger: LoopTrigger) -> LoopOutcome:
        """Reconcile once."""
        self._telemetry.batch(self.name, len(trigger.keys))
        self._telemetry.queue(self.name, 0)
        reconciliation = await self._passed(self._revision())
        self.last = reconciliation
        self._telemetry.passed(reconciliation)
        self._condition_log.log(reconciliation)
        if self._needs_new_session(reconciliation.error):
            await self.close()
        return turn_of(reconciliation)

    async def close(self) -> None:
        """Close the session; the next reconciliation opens another one with the then current files and environment."""
        self._session = None
        await self._open.aclose()

    async def _passed(self, revision: Revision) -> Reconciliation:
        at = self._clock.now()
        try:
            if self._session is None:
                self._session = await self._open.enter_async_context(
                    self._opener(revision, self.name)
                )
        except KquotaError as error:
            return Reconciliation(
                cluster=self.name, error=error, started_at=at, ended_at=self._clock.now()
            )
        session = self._session
        try:
            return await self._runner.run(
                session.ports, self._options(revision, session), revision.desired[self.name]
            )
        finally:
            session.disconnect()

    def _needs_new_session(self, error: KquotaError | None) -> bool:
        """Whether the error is final for a client. A new one reads the credentials again.

        A client stays with its first cluster, which was the wrong one if an address led there for a while. Without an
        expected id, only a new process takes another cluster.
        """
        match error:
            case WrongCluster():
                return self.settings.expected_cluster_id is not None
            case ConfigError():
                return True
            case _:
                return isinstance(error, ClientError) and not error.retriable

    def _options(self, revision: Revision, session: ClusterSession) -> ReconcileOptions:
        settings = revision.project.cluster(self.name).cluster
        return ReconcileOptions(
            rules=settings.rules(),
            guards=settings.guards,
            expected_cluster_id=settings.expected_cluster_id,
            assess=False,
            own_principal=session.own_principal,
            origin=RunOrigin(
                author=self._principal,
                commit=revision.commit,
                cluster=self.name,
                tool_version=__version__,
            ),
        )
