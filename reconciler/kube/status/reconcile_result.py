"""What a pass over one cluster left to report, and what follows from it. Values in, values out; `publisher` writes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.errors import Forbidden
from reconciler.kube.api.custom_resources import (
    FINALIZER_FIELDS,
    Obj,
    few_finalizers,
    generation_of,
    has_finalizer,
    is_terminating,
    projected_spec,
    request_state,
    requested_at,
    status_of,
    uid_of,
)
from reconciler.kube.status.eligibility import Eligibility, EligibilityKind
from reconciler.kube.status.quota_cluster import SecretUse
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.claims import ResolvedClaims
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import Rules
from reconciler.quota.results.report import Reconciliation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """What a pass over one cluster left to report.

    Attributes:
        obj: The QuotaCluster.
        cluster: What it says; ``None`` where it cannot be used.
        rules: What was in force.
        report: The pass.
        settled: Who asks for what, after the pass.
        eligibilities: What each document may ask for; of a partial reconciliation, each that it is about.
        documents: The documents as objects, as they are by now.
        unheld: Documents that could not be held, so that nothing was written for them.
        records_known: Whether the records could be read; without them no document is released.
        is_partial: Whether the reconciliation was about some documents alone.
        behaves_as: Line of Kafka versions, "" where the cluster was not asked.
        secret: The credentials in use; ``None`` where there are none.
    """

    obj: Obj
    cluster: QuotaCluster | None
    rules: Rules
    report: Reconciliation
    settled: ResolvedClaims
    eligibilities: Mapping[str, Eligibility]
    documents: Mapping[str, Obj]
    unheld: frozenset[str] = frozenset()
    records_known: bool = True
    is_partial: bool = False
    behaves_as: str = ""
    secret: SecretUse | None = None


def report_for(document: str, result: ReconcileResult) -> Reconciliation:
    """What the pass means for a document, also for one that was left out of it."""
    report = result.report
    if document not in result.unheld:
        return report
    error = Forbidden("our finalizer could not be put on it, so nothing is written for it")
    return Reconciliation(
        cluster=report.cluster, error=error, started_at=report.started_at, ended_at=report.ended_at
    )


def next_sync(result: ReconcileResult) -> float | None:
    """When everything is due again; a pass that failed is tried again sooner, at no fixed time."""
    if result.cluster is None or result.report.error is not None:
        return None
    return result.report.started_at + result.cluster.interval


def document_token(eligibility: Eligibility) -> tuple[object, ...]:
    """All of a document that its status is made from."""
    obj = eligibility.obj
    return uid_of(obj), generation_of(obj), requested_at(obj), projected_spec(obj)


def result_token(result: ReconcileResult) -> tuple[object, ...]:
    """All that every status is made from besides its document and what the reconciliation says of it."""
    version = uid_of(result.obj), generation_of(result.obj)
    return *version, type(result.report.error), result.rules.in_force


def mentioned_documents(result: ReconcileResult) -> set[str]:
    """Documents that the pass has something to say of."""
    documents = set(result.settled.losses) | result.unheld
    report = result.report
    if report.preview is not None:
        plan = report.preview.plan
        for change in plan.changes:
            documents.update(_documents_of(change.claim, change.owner))
        for finding in plan.findings:
            documents.update(_documents_of(finding.claim, finding.owner))
    for observation in report.observations:
        documents.add(observation.document)
    return documents


def _documents_of(claim: Declaration | None, owner: Owner | None) -> Iterable[str]:
    if claim is not None:
        yield claim.document
    if owner is not None:
        yield owner.document


def leaving_documents(result: ReconcileResult) -> Mapping[str, Obj]:
    """The documents that carry our finalizer and were on their way out when the pass began; others are the next one's."""
    return {
        document: obj
        for document, eligibility in result.eligibilities.items()
        if eligibility.kind is EligibilityKind.TERMINATING
        and (obj := result.documents.get(document)) is not None
        and is_terminating(obj)
        and has_finalizer(obj)
    }


def as_compared(before: Obj, now: Obj) -> Obj:
    """An object as a pass knew it, with the status and the finalizers that it has by now."""
    if before is now or request_state(before) == request_state(now):
        return now
    metadata = {
        key: field_value
        for key, field_value in before["metadata"].items()
        if key not in FINALIZER_FIELDS
    }
    metadata |= few_finalizers(now["metadata"])
    return {**before, "metadata": metadata, "status": status_of(now)}
