"""One observation of drift: the live limits of one cluster compared with its records."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.app.change.plan_preparation import observing_options
from reconciler.app.clusters.documents import documents_or_warning
from reconciler.app.clusters.runtime import open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import RecordUse
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import ExpiredOverride, expired_overrides
from reconciler.reconcile import PreparedPlan, note_drift, observe
from reconciler.reconcile.drift import preview_against_records


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
        return bool(self.expired) or any(not finding.ignored for finding in self.findings)

    @property
    def is_known(self) -> bool:
        """Whether there are records to compare with; without them no drift means nothing."""
        return self.prepared.observation.settlement.owned.is_known


def unknown_drift(cluster: str) -> str:
    """Return why drift of a cluster without records is not known."""
    return f"there are no ownership records of {cluster}, so drift cannot be determined"


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
        notices, target, RecordUse.OWN, command="drift", writes=not read_only
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
        )
        if not read_only:
            try:
                await note_drift(runtime.ports, prepared)
            except (
                InventoryError
            ) as error:  # The drift is known, and must not be lost with its time.
                notices.warning(f"when drift was first seen is not recorded: {error.message}")
    if not observation.settlement.owned.is_known:
        notices.warning(unknown_drift(target.display_name))
    return ObservedDrift(target=target, prepared=prepared)
