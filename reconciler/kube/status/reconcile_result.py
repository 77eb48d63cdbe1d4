"""The result of reconciling one cluster, and values derived from it. Without side effects; ``publisher`` writes."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import Forbidden
from reconciler.kube.api.custom_resources import (
    FINALIZER_FIELDS,
    Obj,
    few_finalizers,
    generation_of,
    has_finalizer,
    is_terminating,
    request_state,
    status_of,
    uid_of,
)
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.quota_cluster import NO_SECRET
from reconciler.kube.status.reasons import Reason
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.planner.claims import Losses
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Rules
from reconciler.quota.results.report import Reconciliation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """The result of reconciling one cluster."""

    obj: Obj  # the QuotaCluster
    cluster: QuotaCluster | None  # its parsed spec; None if it cannot be used
    rules: Rules  # the rules in force
    report: Reconciliation  # the reconciliation
    losses: Losses  # the pairs that documents declare and lose
    # The eligibility of each document; of a partial reconciliation, of each in its scope.
    eligibilities: Mapping[str, Eligibility]
    documents: Mapping[str, Obj]  # the current objects of the documents
    # Documents whose finalizer could not be added, so that nothing was written for them.
    without_finalizer: frozenset[str] = frozenset()
    # Whether the records could be read; without them no document is released.
    records_known: bool = True
    is_partial: bool = False  # whether only a part of the documents was reconciled
    behaves_as: str = ""  # Kafka release line, "" if the cluster was not reached
    secret: SecretState = NO_SECRET  # the credentials in use; without a version if there are none
    # When the next resync is due, in seconds since the epoch; None = unknown.
    next_resync_at: float | None = None


def unwritten_report(report: Reconciliation) -> Reconciliation:
    """Return the reconciliation as documents show it whose finalizer could not be added."""
    error = Forbidden("the finalizer could not be added, so nothing is written for it")
    return Reconciliation(
        cluster=report.cluster, error=error, started_at=report.started_at, ended_at=report.ended_at
    )


def next_sync(result: ReconcileResult) -> float | None:
    """Return when the next resync is due; ``None`` after a failure, which is retried sooner."""
    failed = result.cluster is None or result.report.error is not None
    return None if failed else result.next_resync_at


def result_token(result: ReconcileResult) -> tuple[object, ...]:
    """Return what every status depends on besides its document and the reconciliation's results for it."""
    version = uid_of(result.obj), generation_of(result.obj)
    return *version, type(result.report.error), result.rules.in_force


def mentioned_documents(result: ReconcileResult) -> set[str]:
    """Return the documents that the reconciliation mentions: those that own or declare something of its entities."""
    documents = set(result.losses) | result.without_finalizer
    report = result.report
    plan = None if report.preview is None else report.preview.plan
    items: tuple[QuotaChange | Finding, ...] = ()
    if plan is not None:
        items = (*plan.changes, *plan.findings)
    documents.update(item.owner.document for item in items if item.owner is not None)
    documents.update(observation.document for observation in report.observations)
    # A suspended document claims nothing, and its status shows the live value of what it declares.
    entities = {item.entity for item in items}
    documents.update(
        document
        for document, eligibility in result.eligibilities.items()
        if eligibility.declaration is not None and eligibility.declaration.entity in entities
    )
    return documents


def leaving_documents(result: ReconcileResult) -> Mapping[str, Obj]:
    """Return the documents with the operator's finalizer that were being deleted when the reconciliation began."""
    return {
        document: obj
        for document, eligibility in result.eligibilities.items()
        if eligibility.reason is Reason.DELETING
        and (obj := result.documents.get(document)) is not None
        and is_terminating(obj)
        and has_finalizer(obj)
    }


def as_compared(before: Obj, now: Obj) -> Obj:
    """Return an object as it was compared, with its current status and finalizers."""
    if before is now or request_state(before) == request_state(now):
        return now
    metadata = {
        key: field_value
        for key, field_value in before["metadata"].items()
        if key not in FINALIZER_FIELDS
    }
    metadata |= few_finalizers(now["metadata"])
    return {**before, "metadata": metadata, "status": status_of(now)}
