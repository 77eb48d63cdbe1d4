"""Observes drift once, or watches it until stopped: a loop per cluster, the receivers, and metrics."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from reconciler.app.change.reconcile_options import observing_options
from reconciler.app.clusters.documents import documents_or_warning
from reconciler.app.clusters.runtime import open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.drift.notifications import DriftNotifications
from reconciler.app.drift.watcher import DriftWatcher, DriftWatchOptions
from reconciler.app.loop.cluster_loop import ClusterLoop
from reconciler.app.loop.health import hung_loops, late_loops
from reconciler.app.loop.metrics_endpoint import metrics_of, serve_metrics
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.requests import MetricsRequest, NotificationRequest, RecordSource
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.notify.message import ClusterDrift, drift_of
from reconciler.notify.notifier import Notifier, Receiver
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    ExpiredOverride,
    Reconciliation,
    ValidationResult,
    expired_overrides,
)
from reconciler.reconcile import PreparedPlan, note_drift, observe
from reconciler.reconcile.drift import preview_against_records
from reconciler.render.units import count


async def watch_drift(
    notices: TextReceiver,
    targets: Sequence[ClusterTarget],
    watching: DriftWatchOptions,
    notification_request: NotificationRequest,
    *,
    serving: MetricsRequest,
    receiver: Receiver,
) -> None:
    """Observe repeatedly, until cancelled.

    Args:
        receiver: Receives new drift and the end of drift.

    Raises:
        UsageError: A typed option contradicts the configuration of a cluster.
        TaskDied: A loop ended or failed.
    """
    clock = SystemClock()
    metrics = metrics_of(serving)
    reader = Notifier([receiver], remind_after=notification_request.remind_after)
    notifications = DriftNotifications(notices, notification_request, targets[0].root, clock)

    unknown: set[str] = set()

    async def notify(reconciliation: Reconciliation) -> None:
        name, drift = reconciliation.cluster, cluster_drift(reconciliation)
        if drift is not None:
            unknown.discard(name)
            _ = await reader.notify(drift, now=reconciliation.ended_at)
            _ = await notifications.notify(drift, reconciliation.ended_at)
        elif reconciliation.error is None and name not in unknown:
            unknown.add(name)
            notices.warning(_unknown_drift(name))

    watchers = [
        DriftWatcher(notices, target, watching, clock=clock, on_reconciled=notify, metrics=metrics)
        for target in targets
    ]
    loops = {
        watcher.name: ClusterLoop(
            watcher.name, work=watcher.work, pace=watcher.intervals, clock=clock
        )
        for watcher in watchers
    }
    async with serve_metrics(
        notices,
        serving,
        metrics,
        healthy=lambda: hung_loops(loops.values(), clock.now()),
        ready=lambda: late_loops(loops.values(), clock.now()),
    ):
        subject = (
            escaped(watchers[0].name) if len(watchers) == 1 else count(len(watchers), "cluster")
        )
        notices.note(f"watching {subject}: drift is printed when it begins and ends; Ctrl-C stops")
        await _run_loops(loops, watchers)


def cluster_drift(reconciliation: Reconciliation) -> ClusterDrift | None:
    """Return the drift of a reconciliation; ``None`` if it failed, or if there are no records to compare with.

    No drift would mean that drift which was reported has ended.
    """
    plan = None if reconciliation.preview is None else reconciliation.preview.plan
    if reconciliation.error is not None or plan is None or not plan.removals_known:
        return None
    return drift_of(
        reconciliation.cluster,
        plan.cluster_id,
        reconciliation.observations,
        reconciliation.expired_overrides,
    )


def _unknown_drift(cluster: str) -> str:
    return f"there are no ownership records of {cluster}, so drift cannot be determined"


async def _run_loops(loops: Mapping[str, ClusterLoop], watchers: Sequence[DriftWatcher]) -> None:
    stop = asyncio.Event()
    try:
        await supervise({name: loop.run(stop) for name, loop in loops.items()}, stop)
    finally:
        for watcher in watchers:
            await watcher.close()


class ObservedDrift(Struct, frozen=True, kw_only=True):
    """The drift of one cluster."""

    target: ClusterTarget
    prepared: PreparedPlan  # a plan that restores the recorded values, and its observation

    @property
    def findings(self) -> Sequence[Finding]:
        """The drifted limits, ignored ones included."""
        return self.prepared.plan.findings_for(Cause.DRIFT)

    @property
    def expired(self) -> Sequence[ExpiredOverride]:
        """Overrides that have expired and are still live."""
        return expired_overrides(
            self.prepared.plan,
            self.prepared.observation.owned,
            now=self.prepared.observation.at,
        )

    @property
    def has_drift(self) -> bool:
        """Whether there is drift that requires attention."""
        is_changed = any(not finding.ignored for finding in self.findings)
        return is_changed or bool(self.expired)

    @property
    def is_known(self) -> bool:
        """Whether there are records to compare with; without them no drift means nothing."""
        return self.prepared.observation.settlement.owned.is_known

    @property
    def cluster_drift(self) -> ClusterDrift | None:
        """The drift for receivers of notifications; one observation confirms it. ``None`` = it is not known."""
        prepared = self.prepared
        if not self.is_known:
            return None
        tracker = DriftTracker(confirm_after=1).after(
            prepared.plan,
            now=prepared.observation.at,
            first_seen=prepared.observation.owned.drift_since,
        )
        return drift_of(
            self.target.display_name, prepared.plan.cluster_id, tracker.observations, self.expired
        )


async def observe_drift(
    notices: Notices, target: ClusterTarget, *, read_only: bool
) -> ObservedDrift:
    """Compare live limits with the records.

    Args:
        read_only: Whether the time at which drift was first observed is not recorded.

    Raises:
        InventoryError: The records cannot be read.
        ClientError: The cluster cannot be queried.
    """
    options = observing_options(target)
    async with open_runtime(
        notices, target, RecordSource(), command="drift", writes=not read_only
    ) as runtime:
        try:
            observation = await observe(runtime.ports, options)
        except InventoryLocked as error:
            unlocked = target.command("drift", "--read-only")
            error.hint += f"; `{unlocked}` shows drift meanwhile"
            raise
        prepared = preview_against_records(
            observation,
            options,
            documents_or_warning(notices, target),
            verdict=ValidationResult(source="none"),
        )
        if not read_only:
            try:
                await note_drift(runtime.ports, prepared)
            except (
                InventoryError
            ) as error:  # The drift is known, and must not be lost with its time.
                notices.warning(f"when drift was first seen is not recorded: {error.message}")
    if not observation.settlement.owned.is_known:
        notices.warning(_unknown_drift(target.display_name))
    return ObservedDrift(target=target, prepared=prepared)
