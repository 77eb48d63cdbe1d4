"""One observation of drift in one cluster: live values that differ from those applied last."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.app.change.plan_preparation import broker_text
from reconciler.app.change.reconcile_options import observing_options
from reconciler.app.clusters.runtime import RecordOptions, open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.notify import ClusterDrift, drift_of
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.ip_aliases import ADDRESS
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Cause
from reconciler.quota.results.expired_overrides import ExpiredOverride, expired_overrides
from reconciler.quota.results.report import ValidationResult
from reconciler.reconcile import PreparedPlan, note_drift, observe, preview
from reconciler.reconcile.drift import as_applied


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDrift:
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
        return expired_overrides(self.prepared.plan, self.prepared.observation.owned)

    @property
    def has_drift(self) -> bool:
        """Whether there is drift that requires attention."""
        is_changed = any(not finding.ignored for finding in self.findings)
        return is_changed or bool(self.prepared.plan.ip_aliases or self.expired)

    @property
    def cluster_drift(self) -> ClusterDrift:
        """The drift for receivers of notifications; one observation confirms it."""
        prepared = self.prepared
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
        notices, target, RecordOptions(), command="drift", writes=not read_only
    ) as runtime:
        try:
            observation = await observe(runtime.ports, options)
        except InventoryLocked as error:
            unlocked = target.command("drift", "--read-only")
            error.hint += f"; `{unlocked}` shows drift meanwhile"
            raise
        # The ownership records serve as the documents: differences from them are drift.
        prepared = preview(
            observation, as_applied(observation), options, verdict=ValidationResult(source="none")
        )
        if not read_only:
            try:
                await note_drift(runtime.ports, prepared)
            except (
                InventoryError
            ) as error:  # The drift is known, and must not be lost with its time.
                notices.warning(f"when drift was first seen is not recorded: {error.message}")
        broker = broker_text(target, runtime)
        for alias in prepared.plan.ip_aliases:
            notices.warning(alias.shadow_message.replace(ADDRESS, broker))
    return ObservedDrift(target=target, prepared=prepared)
