"""`kquota drift --watch`: the loop of `kquota watch` that writes no limit, unless it may correct drift."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.plan_preparation import observing_options
from reconciler.app.clusters.documents import documents_or_warning
from reconciler.app.clusters.runtime import Runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.inspection.drift import unknown_drift
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.service import (
    NoWatchMetrics,
    WatchMetrics,
    metrics_of,
    serve_loops,
)
from reconciler.app.notices import LoggedNotices, Notice, NoticeLog, TextReceiver, replay
from reconciler.app.requests import MetricsRequest
from reconciler.app.watch.cluster import (
    WatchedCluster,
    WatchedClusters,
    open_session,
)
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.errors import InventoryLocked, UsageError
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.policy import CORRECTING, STRICTNESS, DriftMode, Policy
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcileOptions, ReconcilePorts
from reconciler.reconcile.drift import correctable_pairs, observe_drift
from reconciler.render.units import count

LOCKED_SECONDS: Final = 10.0
"""Seconds that an apply may lock the records before an observation counts as failed."""

_LOCKED_PAUSE: Final = 0.5


class DriftWatchOptions(Struct, frozen=True, kw_only=True):
    """How to observe, as typed."""

    interval: float | None  # seconds between observations; None = the cluster's configuration
    confirm_after: int  # consecutive observations that confirm drift
    correct: bool
    read_only: bool

    def __post_init__(self) -> None:
        if self.correct and self.read_only:
            raise UsageError("--correct-drift cannot be combined with --read-only")


def watch_drift(
    notices: TextReceiver,
    targets: Sequence[ClusterTarget],
    watching: DriftWatchOptions,
    *,
    serving: MetricsRequest,
) -> signal.Signals:
    """Observe repeatedly until a signal is received; return the signal.

    Raises:
        UsageError: A typed option contradicts the configuration of a cluster.
        TaskDied: A loop ended or failed.
    """
    metrics, clock = metrics_of(serving), SystemClock()
    telemetry: WatchMetrics = metrics or NoWatchMetrics()
    works = [DriftWork(target, watching, telemetry=telemetry, clock=clock) for target in targets]
    clusters = WatchedClusters(
        [work.watched_cluster() for work in works], telemetry=telemetry, clock=clock
    )
    subject = (
        escaped(targets[0].display_name) if len(targets) == 1 else count(len(targets), "cluster")
    )
    return serve_loops(notices, clusters, serving, metrics, subject=f"{subject} for drift")


class DriftWork:
    """The observations of one cluster, and its corrections.

    Raises:
        UsageError: Corrections were requested, and the cluster's configuration does not allow them.
    """

    def __init__(
        self,
        target: ClusterTarget,
        watching: DriftWatchOptions,
        *,
        telemetry: WatchMetrics,
        clock: Clock,
    ) -> None:
        self._target, self._watching, self._clock = target, watching, clock
        self._telemetry, self._notices = telemetry, LoggedNotices(target.display_name)
        self._options = _options(target, watching)
        self._logged: list[Notice] = []
        tracker = DriftTracker(confirm_after=watching.confirm_after)
        self._runner = ReconcileRunner(target.display_name, clock=clock, tracker=tracker)

    def watched_cluster(self) -> WatchedCluster:
        """Return the cluster as a loop works on it."""
        configured = self._target.settings
        settings: QuotaCluster = replace(
            configured, interval=self._watching.interval or configured.interval
        )
        return WatchedCluster(
            self._target.display_name,
            settings=lambda: settings,
            opener=lambda: open_session(
                self._target,
                command="drift --watch",
                writes=not self._watching.read_only,
                telemetry=self._telemetry,
            ),
            reconcile=self._reconcile,
            telemetry=self._telemetry,
            clock=self._clock,
        )

    async def _reconcile(self, session: Runtime) -> Reconciliation:
        """Observe once, and correct; if another run has locked the records for a few seconds, wait."""
        log, began = NoticeLog(), self._clock.monotonic()
        documents = await asyncio.to_thread(documents_or_warning, log, self._target)
        if log.notices != self._logged:
            self._logged = log.notices
            replay(log.notices, self._notices)
        while True:
            reconciliation = await self._observe(session.ports, documents)
            waited = self._clock.monotonic() - began
            if not isinstance(reconciliation.error, InventoryLocked) or waited >= LOCKED_SECONDS:
                break
            await self._clock.sleep(_LOCKED_PAUSE)
        preview = reconciliation.preview
        if not self._watching.correct or documents is None or preview is None:
            return reconciliation
        pairs = correctable_pairs(preview.plan, documents, reconciliation.expired_overrides)
        if reconciliation.error is not None or not pairs:
            return reconciliation
        return await self._correct(session.ports, documents, pairs)

    async def _observe(
        self, ports: ReconcilePorts, documents: DesiredState | None
    ) -> Reconciliation:
        notes = not self._watching.read_only
        name = self._target.display_name
        reconciliation = await observe_drift(
            ports, self._options, documents, cluster=name, notes=notes
        )
        preview = reconciliation.preview
        if reconciliation.error is None and preview is not None:
            # Drift that will be corrected is counted by the correcting reconciliation: once per observation, not twice.
            will_correct = self._watching.correct and documents is not None
            differs = preview.plan.drift or reconciliation.expired_overrides
            if not preview.plan.removals_known:
                # There is nothing to compare with: drift that was confirmed has not ended.
                warnings = (*preview.warnings, unknown_drift(name))
                reconciliation = replace(
                    reconciliation, preview=replace(preview, warnings=warnings)
                )
            elif not (will_correct and differs):
                self._runner.tracker = self._runner.tracker.after(
                    preview.plan,
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


def _options(target: ClusterTarget, watching: DriftWatchOptions) -> ReconcileOptions:
    settings = target.settings
    allowed = settings.policy in CORRECTING and not settings.suspend
    if watching.correct and not target.project_cluster.manifests:
        raise UsageError(
            f"drift of {target.display_name} must not be corrected: no manifests are configured, so it is unknown which"
            " limits are suspended or no longer declared",
            hint="remove --correct-drift, or list the manifests in spec.manifests of the project file",
        )
    if watching.correct and not allowed:
        reason = "it is suspended" if settings.suspend else f"its policy is {settings.policy}"
        raise UsageError(
            f"drift of {target.display_name} must not be corrected: {reason}",
            hint="remove --correct-drift, or change the project file",
        )
    return observing_options(target)
