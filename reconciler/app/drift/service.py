"""Watches drift until stopped: a loop per cluster, the receivers, and metrics."""

import asyncio
import random
from collections.abc import Mapping, Sequence

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.drift.notifications import DriftNotifications
from reconciler.app.drift.watcher import DriftWatcher, DriftWatchOptions
from reconciler.app.loop.cluster_loop import ClusterLoop, Mailbox
from reconciler.app.loop.health import hung_loops, late_loops
from reconciler.app.loop.metrics_endpoint import metrics_of, served
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import MetricsRequest, NotificationRequest
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.notify import ClusterDrift, Notifier, drift_of
from reconciler.notify.notifier import Receiver
from reconciler.quota.results.report import Reconciliation
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

    async def notify(reconciliation: Reconciliation) -> None:
        drift = cluster_drift(reconciliation)
        if drift is not None:
            _ = await reader.notify(drift, now=reconciliation.ended_at)
            _ = await notifications.notify(drift, reconciliation.ended_at)

    watchers = [
        DriftWatcher(notices, target, watching, clock=clock, on_reconciled=notify, metrics=metrics)
        for target in targets
    ]
    loops = {watcher.name: _loop_of(watcher, clock) for watcher in watchers}
    async with served(
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
    """Return the drift of a reconciliation; ``None`` if it failed."""
    if reconciliation.error is not None or reconciliation.preview is None:
        return None
    return drift_of(
        reconciliation.cluster,
        reconciliation.preview.plan.cluster_id,
        reconciliation.observations,
        reconciliation.expired_overrides,
    )


def _loop_of(watcher: DriftWatcher, clock: Clock) -> ClusterLoop:
    return ClusterLoop(
        watcher.name,
        mailbox=Mailbox(clock=clock),
        work=watcher.work,
        pace=watcher.intervals,
        clock=clock,
        random=random.SystemRandom().random,
    )


async def _run_loops(loops: Mapping[str, ClusterLoop], watchers: Sequence[DriftWatcher]) -> None:
    stop = asyncio.Event()
    try:
        await supervise({name: loop.run(stop) for name, loop in loops.items()}, stop)
    finally:
        for watcher in watchers:
            await watcher.close()
