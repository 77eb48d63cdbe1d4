"""What a pass over one cluster left to tell, and what follows from it. Values in, values out; ``telling`` writes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.errors import Forbidden, InventoryError, KquotaError
from reconciler.kube.cluster_state import SecretUse
from reconciler.kube.resources import Obj, generation_of, requested_at, uid_of
from reconciler.kube.standing import Kind, Standing
from reconciler.manifest.cluster import QuotaCluster
from reconciler.quota.claims import Settled
from reconciler.quota.desired import Declaration
from reconciler.quota.owned import Owner
from reconciler.quota.policy import Rules
from reconciler.quota.report import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a pass over one cluster left to tell.

    Attributes:
        obj: The QuotaCluster.
        cluster: What it says; ``None`` where it cannot be used.
        rules: What was in force.
        report: The pass.
        settled: Who asks for what, after the pass.
        standings: What each document may ask for.
        documents: The documents as objects, as they are by now.
        unheld: Documents that could not be held, so that nothing was written for them.
        unreadable: Documents whose status cannot be read, and why; nothing was written for them either.
        records_known: Whether the records could be read; without them nobody is released.
        behaves_as: Line of Kafka versions, "" where the cluster was not asked.
        secret: The credentials in use; ``None`` where there are none.
    """

    obj: Obj
    cluster: QuotaCluster | None
    rules: Rules
    report: Pass
    settled: Settled
    standings: Mapping[str, Standing]
    documents: Mapping[str, Obj]
    unheld: frozenset[str] = frozenset()
    unreadable: Mapping[str, InventoryError] = field(default_factory=dict[str, InventoryError])
    records_known: bool = True
    behaves_as: str = ""
    secret: SecretUse | None = None


def report_for(document: str, found: Found) -> Pass:
    """What the pass means for a document, also for one that was left out of it."""
    report = found.report
    error: KquotaError | None = found.unreadable.get(document)
    if error is None and document in found.unheld:
        error = Forbidden("our finalizer could not be put on it, so nothing is written for it")
    if error is None:
        return report
    return Pass(
        cluster=report.cluster, error=error, started_at=report.started_at, ended_at=report.ended_at
    )


def next_sync(found: Found) -> float | None:
    """When everything is due again; a pass that failed is tried again sooner, nobody can say when."""
    if found.cluster is None or found.report.error is not None:
        return None
    return found.report.started_at + found.cluster.interval


def token(one: Standing, found: Found) -> tuple[object, ...]:
    """All that a status is made from besides what the pass says of the document."""
    return (
        uid_of(one.obj),
        generation_of(one.obj),
        requested_at(one.obj),
        generation_of(found.obj),
        type(found.report.error),
        found.rules.in_force,
    )


def spoken_of(found: Found) -> set[str]:
    """Documents that the pass has something to say of."""
    named = set(found.settled.losses) | found.unheld | found.unreadable.keys()
    report = found.report
    if report.preview is not None:
        plan = report.preview.plan
        for change in plan.changes:
            named.update(_documents_of(change.claim, change.owner))
        for finding in plan.findings:
            named.update(_documents_of(finding.claim, finding.owner))
    for sighting in report.sightings:
        named.add(sighting.document)
    return named


def _documents_of(claim: Declaration | None, owner: Owner | None) -> Iterable[str]:
    if claim is not None:
        yield claim.document
    if owner is not None:
        yield owner.document


def was_leaving(found: Found, document: str) -> bool:
    """Whether a document was on its way out when the pass began; since then it is the next one's."""
    one = found.standings.get(document)
    return one is not None and one.kind is Kind.TERMINATING
