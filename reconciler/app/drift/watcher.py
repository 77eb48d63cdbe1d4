"""One cluster of `kquota drift --watch`: its client, its records, its drift observations."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.reconcile_options import observing_options
from reconciler.app.clusters.connection import connection_events
from reconciler.app.clusters.documents import documents_or_warning
from reconciler.app.clusters.record_stores import (
    open_records,
    project_inventory,
    read_only_inventory,
)
from reconciler.app.clusters.runtime import by_rules
from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.loop.cluster_loop import LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner, needs_confirmation
from reconciler.app.notices import Notice, NoticeLog, TextReceiver, replay
from reconciler.base.protocols import Clock
from reconciler.client import QuotaClient
from reconciler.client.events import ResponseReceived
from reconciler.errors import InventoryLocked, KquotaError, UsageError
from reconciler.inventory.audit_log import FileAuditLog
from reconciler.ports import Inventory
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.policy import CORRECTING, STRICTNESS, DriftMode, Policy
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.drift import correctable_pairs, observe_drift

if TYPE_CHECKING:
    from reconciler.metrics import Metrics

LOCKED_SECONDS: Final = 10.0
"""Seconds that an apply may lock the records before an observation counts as failed."""

_LOCKED_PAUSE: Final = 0.5
_FIRST_RETRY: Final = 1.0


class DriftWatchOptions(Struct, frozen=True, kw_only=True):
    """How to observe, as typed."""

    interval: float | None  # seconds between observations; None = the cluster's configuration
    confirm_after: int  # consecutive observations that confirm drift
    correct: bool
    read_only: bool

    def __post_init__(self) -> None:
        if self.correct and self.read_only:
            raise UsageError("--correct-drift cannot be combined with --read-only")


class DriftWatcher:
    """One cluster with its observations.

    Args:
        on_reconciled: Called with every successful observation, in order; awaited.

    Attributes:
        interval: Seconds between observations.

    Raises:
        UsageError: Corrections were requested, and the cluster's configuration does not allow them.
    """

    def __init__(
        self,
        notices: TextReceiver,
        target: ClusterTarget,
        watching: DriftWatchOptions,
        *,
        clock: Clock,
        on_reconciled: Callable[[Reconciliation], Awaitable[None]],
        metrics: "Metrics | None",
    ) -> None:
        self.name = target.display_name
        self.interval = watching.interval or target.settings.interval
        self._notices, self._target, self._watching = notices, target, watching
        self._clock, self._on_reconciled, self._metrics = clock, on_reconciled, metrics
        self._options = _options(target, watching)
        self._printed: list[Notice] = []
        self._client: QuotaClient | None = None
        self._runner = ReconcileRunner(
            self.name,
            clock=clock,
            tracker=DriftTracker(confirm_after=watching.confirm_after),
        )
        if metrics is not None:
            metrics.interval(self.name, self.interval)

    def intervals(self) -> LoopIntervals:
        """Return the intervals of the loop: a failure is retried sooner than the next observation, never later."""
        first = min(_FIRST_RETRY, self.interval)
        return LoopIntervals(
            interval=self.interval, gap=first / 2, first_retry=first, last_retry=self.interval
        )

    async def work(self, _: LoopTrigger) -> LoopOutcome:
        """Observe once and report the result; the work of a ``ClusterLoop``."""
        reconciliation = await self._observe_when_unlocked()
        if self._metrics is not None:
            self._metrics.record(reconciliation)
        if reconciliation.error is not None:
            # A refused login is final for a client, and the secret may have changed meanwhile.
            await self.close()
            return LoopOutcome(
                retry=reconciliation.error.retriable, note=reconciliation.error.message
            )
        await self._on_reconciled(reconciliation)
        return LoopOutcome(confirm=needs_confirmation(reconciliation))

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _observe_when_unlocked(self) -> Reconciliation:
        """Observe once; if another run has locked the records for a few seconds, wait."""
        started, began = self._clock.now(), self._clock.monotonic()
        while True:
            try:
                reconciliation = await self._observe()
            except KquotaError as error:
                reconciliation = Reconciliation(
                    cluster=self.name,
                    error=error,
                    observations=self._runner.tracker.observations,
                    started_at=started,
                    ended_at=self._clock.now(),
                )
            waited = self._clock.monotonic() - began
            if not isinstance(reconciliation.error, InventoryLocked) or waited >= LOCKED_SECONDS:
                return reconciliation
            await self._clock.sleep(_LOCKED_PAUSE)

    async def _observe(self) -> Reconciliation:
        # Before the records are locked: files may be on a slow disk.
        log = NoticeLog()
        documents = await asyncio.to_thread(documents_or_warning, log, self._target)
        if log.notices != self._printed:
            self._printed = log.notices
            replay(log.notices, self._notices)
        if self._watching.read_only:
            return await self._observe_drift(
                self._ports(read_only_inventory(self._target, self._clock)), documents
            )
        with open_records(self._target, self._clock, command="drift --watch") as inventory:
            ports = self._ports(inventory)
            reconciliation = await self._observe_drift(ports, documents)
            if (
                not self._watching.correct
                or reconciliation.preview is None
                or reconciliation.error is not None
            ):
                return reconciliation
            if documents is None:
                return reconciliation
            pairs = correctable_pairs(
                reconciliation.preview.plan, documents, reconciliation.expired_overrides
            )
            return await self._correct(ports, documents, pairs) if pairs else reconciliation

    async def _observe_drift(
        self, ports: ReconcilePorts, documents: DesiredState | None
    ) -> Reconciliation:
        notes = not self._watching.read_only
        reconciliation = await observe_drift(
            ports, self._options, documents, cluster=self.name, notes=notes
        )
        plan = None if reconciliation.preview is None else reconciliation.preview.plan
        # Drift that will be corrected is counted by the correcting reconciliation: once per observation, not twice.
        corrects = (
            documents is not None
            and plan is not None
            and (plan.drift or reconciliation.expired_overrides)
        )
        is_counted = not (self._watching.correct and corrects)
        # Without records there is nothing to compare with: drift that was confirmed has not ended.
        if reconciliation.error is None and plan is not None and plan.removals_known and is_counted:
            self._runner.tracker = self._runner.tracker.after(
                plan,
                now=reconciliation.started_at,
                first_seen=reconciliation.drift_since,
            )
        return replace(reconciliation, observations=self._runner.tracker.observations)

    async def _correct(
        self, ports: ReconcilePorts, documents: DesiredState, pairs: frozenset[Pair]
    ) -> Reconciliation:
        options = replace(
            self._options,
            rules=replace(
                self._options.rules,
                # Not Sync, which may remove.
                policy=min(self._target.settings.policy, Policy.UPSERT, key=STRICTNESS.index),
                drift=DriftMode.CORRECT,
            ),
            guards=self._target.settings.guards,
            only=lambda subject, key: (subject, key) in pairs,
        )
        return await self._runner.run(ports, options, documents)

    def _ports(self, inventory: Inventory) -> ReconcilePorts:
        if self._client is None:
            config = self._target.client_config(self._notices)
            events = connection_events(self._notices)

            def answered(event: ResponseReceived) -> None:
                events.response(event)
                self._measure_response(event)

            self._client = QuotaClient(config, events=replace(events, response=answered))
        return ReconcilePorts(
            store=self._client,
            inventory=project_inventory(self._target, inventory),
            clock=self._clock,
            audit=FileAuditLog(
                own_path(
                    self._target.root,
                    self._target.project_cluster.audit_log,
                    content_name="audit logs",
                )
            )
            if self._watching.correct
            else None,
            validator=by_rules,
        )

    def _measure_response(self, event: ResponseReceived) -> None:
        if self._metrics is not None:
            self._metrics.kafka(self.name, event.api, event.seconds)


def _options(target: ClusterTarget, watching: DriftWatchOptions) -> ReconcileOptions:
    settings = target.settings
    allowed = settings.policy in CORRECTING and not settings.suspend
    if watching.correct and not target.project_cluster.manifests:
        raise UsageError(
            f"drift of {target.display_name} must not be corrected: no manifests are configured, so nobody knows which limits"
            " are suspended or no longer declared",
            hint="remove --correct-drift, or list the manifests in spec.manifests of the project file",
        )
    if watching.correct and not allowed:
        reason = "it is suspended" if settings.suspend else f"its policy is {settings.policy}"
        raise UsageError(
            f"drift of {target.display_name} must not be corrected: {reason}",
            hint="remove --correct-drift, or change the project file",
        )
    return observing_options(target)
