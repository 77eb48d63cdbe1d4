"""One cluster of a watched repository: its session, its reconciliations, and their metrics and logs."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler import __version__
from reconciler.app.loop.cluster_loop import LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner, loop_outcome_of
from reconciler.app.watch.metrics_port import WatchMetrics
from reconciler.app.watch.revision import Revision
from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.errors import ClientError, ConfigError, KquotaError, WrongCluster
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import Outcome, Reconciliation, RunOrigin
from reconciler.reconcile import ReconcileOptions, ReconcilePorts
from reconciler.render.cause_text import status_word, waits_text
from reconciler.render.units import quantity


class ClusterSession(Struct, frozen=True, kw_only=True):
    """An open connection to one cluster, with its records."""

    ports: ReconcilePorts
    # Called after each reconciliation, so that others may write the records until the next one.
    disconnect: Callable[[], None]
    own_principal: Principal | None = None  # our principal in the cluster, if the login shows it
    # The cluster that the records are of: it must answer if no id is configured. None = nothing was applied yet.
    pinned_cluster_id: str | None = None


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
        return LoopIntervals(interval=self.settings.interval)

    async def work(self, trigger: LoopTrigger) -> LoopOutcome:
        """Reconcile once."""
        self._telemetry.batch(self.name, len(trigger.keys))
        self._telemetry.queue(self.name, 0)
        reconciliation = await self._reconcile(self._revision())
        self.last = reconciliation
        self._telemetry.record(reconciliation)
        self._condition_log.log(reconciliation)
        if self._needs_new_session(reconciliation.error):
            await self.close()
        return loop_outcome_of(reconciliation)

    async def close(self) -> None:
        """Close the session; the next reconciliation opens another one with the then current files and environment."""
        self._session = None
        await self._open.aclose()

    async def _reconcile(self, revision: Revision) -> Reconciliation:
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

        A client stays with its first cluster, which was the wrong one if an address led there for a while.
        """
        match error:
            case WrongCluster():
                return self._expected_cluster_id(self.settings) is not None
            case ConfigError():
                return True
            case _:
                return isinstance(error, ClientError) and not error.retriable

    def _expected_cluster_id(self, settings: QuotaCluster) -> str | None:
        """Return the id that must answer; ``None`` = any, because nothing was applied before this session."""
        pinned = None if self._session is None else self._session.pinned_cluster_id
        return settings.expected_cluster_id or pinned

    def _options(self, revision: Revision, session: ClusterSession) -> ReconcileOptions:
        settings = revision.project.cluster(self.name).cluster
        return ReconcileOptions(
            rules=settings.rules(),
            guards=settings.guards,
            expected_cluster_id=self._expected_cluster_id(settings),
            assess=False,
            own_principal=session.own_principal,
            origin=RunOrigin(
                author=self._principal,
                commit=revision.commit,
                cluster=self.name,
                tool_version=__version__,
            ),
        )


_LOG: Final = logging.getLogger("reconciler.loop")

MOST_LINES: Final = 20
"""Maximum lines of one kind per reconciliation; the rest is counted."""


class ConditionLog:
    """The conditions after the last reconciliation of one cluster, so that only new ones are logged."""

    def __init__(self, cluster: str) -> None:
        self._cluster = escaped(cluster)
        self._before: frozenset[str] = frozenset()

    def log(self, reconciliation: Reconciliation) -> None:
        """Log the outcome of a reconciliation, and its new conditions."""
        if reconciliation.outcome is not None and reconciliation.outcome.pairs:
            _LOG.info("%s: %s", self._cluster, _outcome_text(reconciliation.outcome))
        if reconciliation.preview is None:
            return  # Without an observation, no condition can be reported as over.
        now = list(_condition_lines(reconciliation))
        for line in now:
            if line not in self._before:
                _LOG.warning("%s: %s", self._cluster, line)
        if self._before and not now and reconciliation.error is None:
            _LOG.info("%s: recovered", self._cluster)
        self._before = frozenset(now)


def _outcome_text(outcome: Outcome) -> str:
    counts = [
        f"{outcome.count(word)} {status_word(word).lower()}"
        for word in ("APPLIED", "REJECTED", "HELD", "UNKNOWN", "NOT SENT")
        if outcome.count(word)
    ]
    commit = f" for {outcome.origin.commit[:12]}" if outcome.origin.commit else ""
    return ", ".join(counts) + commit


def _condition_lines(reconciliation: Reconciliation) -> Iterator[str]:
    if reconciliation.preview is not None:
        yield from (escaped(warning) for warning in reconciliation.preview.warnings)
        warning_texts = (
            f"{advice.place}: {advice.message}" for advice in reconciliation.preview.advice
        )
        yield from _cut((escaped(warning_text) for warning_text in warning_texts), "doubtful rules")
    yield from _cut(_withheld_lines(reconciliation), "not made")
    yield from _cut(_drift_lines(reconciliation), "drifted")
    if reconciliation.outcome is not None:
        yield from _cut(_failure_lines(reconciliation.outcome), "not applied")


def _withheld_lines(reconciliation: Reconciliation) -> Iterator[str]:
    for withheld in reconciliation.withheld:
        pair = f"{entity_text(withheld.change.entity)} {withheld.change.key}"
        for violation in withheld.violations:
            yield f"not made: {pair}: {escaped(violation.message)} (allowed by {violation.setting or violation.allow_with})"


def _drift_lines(reconciliation: Reconciliation) -> Iterator[str]:
    for observation in reconciliation.observations:
        pair = f"{entity_text(observation.entity)} {observation.key}"
        value_text = f"{quantity(observation.key, observation.live)} instead of {quantity(observation.key, observation.expected)}"
        if observation.corrections_stopped:
            values = ", ".join(
                quantity(observation.key, value) for value in observation.overwritten
            )
            yield (
                f"another writer keeps changing {pair}: {value_text}; {observation.corrections} corrections of {values}"
                " were reverted; corrections stop until the window has passed or the document changes"
            )
        elif observation.corrected_at and observation.corrected_at[-1] >= reconciliation.started_at:
            yield f"drift corrected: {pair} was {value_text}"
        elif observation.confirmed:
            yield f"drift: {pair} is {value_text}"


def _failure_lines(outcome: Outcome) -> Iterator[str]:
    for pair_outcome in outcome.pairs:
        pair = f"{entity_text(pair_outcome.change.entity)} {pair_outcome.change.key}"
        match pair_outcome.result:
            case Rejected(name=name, message=message):
                yield f"rejected: {pair}: {name}: {escaped(message)}"
            case Held(waits_for=entities):
                yield f"waiting: {pair}: {waits_text(pair_outcome.change.entity, entities)}"
            case Unknown(reason=reason):
                yield f"unknown: {pair}: {escaped(reason)}"
            case _:
                pass


def _cut(lines: Iterable[str], adjective: str) -> Iterator[str]:
    every = list(lines)
    yield from every[:MOST_LINES]
    if len(every) > MOST_LINES:
        yield f"and {len(every) - MOST_LINES} more {adjective}"
