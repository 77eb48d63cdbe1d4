"""The result of reconciling one cluster, from which statuses are computed."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.reasons import Reason
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.planner.desired_state import Losses
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Reconciliation


class ReconcileResult(Struct, kw_only=True):
    """The result of reconciling one cluster; after an error, what it did not determine is unset."""

    obj: Resource  # the QuotaCluster
    cluster: QuotaCluster | None = None  # its parsed spec; None if it cannot be used
    rules: Rules = Rules(policy=Policy.OBSERVE)  # the rules in force
    report: Reconciliation  # the reconciliation
    losses: Losses = MappingProxyType({})  # the pairs that documents declare and lose
    # The eligibility of each document; of a partial reconciliation, of each in its scope.
    eligibilities: Mapping[str, Eligibility] = MappingProxyType({})
    # The current objects of the documents.
    documents: Mapping[str, Resource] = MappingProxyType({})
    # Documents whose finalizer could not be added, so that nothing was written for them.
    without_finalizer: frozenset[str] = frozenset()
    # Whether the records could be read; without them no document is released.
    records_known: bool = False
    is_partial: bool = False  # whether only a part of the documents was reconciled
    secret: SecretState = (
        SecretState()
    )  # the credentials in use; without a version if there are none
    # When the next resync is due, in seconds since the epoch; None = unknown.
    next_resync_at: float | None = None

    @property
    def token(self) -> tuple[object, ...]:
        """What every status depends on besides its document and the reconciliation's results for it."""
        return self.obj.uid, self.obj.generation, type(self.report.error), self.rules.in_force

    @property
    def unexplained(self) -> int:
        """The number of declared pairs that differ without a change or finding: their drift is not counted yet, or not detected."""
        if self.report.preview is None:
            return 0
        plan = self.report.preview.plan
        explained = sum(finding.desired is not None for finding in plan.findings)
        explained += sum(change.claim is not None for change in plan.changes)
        return plan.desired_pairs - plan.in_sync - explained

    @property
    def leaving_documents(self) -> Mapping[str, Resource]:
        """The documents with the operator's finalizer that were being deleted when the reconciliation began."""
        return {
            document: obj
            for document, eligibility in self.eligibilities.items()
            if eligibility.reason is Reason.DELETING
            and (obj := self.documents.get(document)) is not None
            and obj.is_terminating
            and obj.has_finalizer
        }

    @property
    def mentioned_documents(self) -> set[str]:
        """The documents that the reconciliation mentions: those that own or declare something of its entities."""
        documents, report = set(self.losses) | self.without_finalizer, self.report
        items: tuple[QuotaChange | Finding, ...] = ()
        if report.preview is not None:
            items = (*report.preview.plan.changes, *report.preview.plan.findings)
        documents.update(item.owner.document for item in items if item.owner is not None)
        documents.update(observation.document for observation in report.observations)
        # A suspended document claims nothing, and its status shows the live value of what it declares.
        entities = {item.entity for item in items}
        documents.update(
            document
            for document, eligibility in self.eligibilities.items()
            if eligibility.entity in entities
        )
        return documents

    def failed(self, error: KquotaError) -> "ReconcileResult":
        """Return the result with the error that prevented writing its records."""
        return replace(self, report=replace(self.report, error=self.report.error or error))
