"""Eligibility of custom resources: which limits each document may claim and why not, the claims of all together, and an index.

Only a document whose deletion was seen counts as undeclared. One that is invalid, not granted, out of scope or
suspended freezes the limits that the records list as its own; one that is being deleted declares nothing, so the
planner applies the deletionPolicy that was recorded last. A message never contains names of another tenant's objects.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.redaction import QuietRepr
from reconciler.kube.api.custom_resources import API_VERSION, Resource
from reconciler.kube.configuration.cluster_references import shortened
from reconciler.kube.records.record_index import RECORDS_FULL
from reconciler.kube.status.reasons import Reason
from reconciler.manifest import explanation
from reconciler.manifest.cluster_selector import SelectedClusters
from reconciler.manifest.document import ClientQuota, DocumentDeclined, from_resource
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.manifest.schema_names import QUOTA
from reconciler.manifest.syntax import nodes
from reconciler.quota.entity import Entity
from reconciler.quota.grants import judge
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.patterns import form
from reconciler.quota.planner.desired_state import (
    NO_LINES,
    NO_SELECTIONS,
    Claim,
    Declaration,
    ResolvedClaims,
    resolve_claims,
)
from reconciler.quota.rule_warnings import unmatched_names
from reconciler.quota.state import set_values

_CLAIMING: Final = frozenset({None, Reason.CLUSTER_SUSPENDED})


class Eligibility(QuietRepr, Struct, frozen=True, kw_only=True):
    """The eligibility of one document.

    Raises:
        ValueError: ``claim`` is set for a kind that may not claim, or is missing for one that does.
    """

    obj: Resource  # the resource as it was judged
    # The first reason that applies why it is not applied, in this order: Deleting, NamespaceLimit, Invalid,
    # NoClusterSelected, ClusterNotFound or ClusterInvalid, NotGranted, OutOfScope, Suspended, ClusterSuspended; None
    # = it is applied.
    reason: Reason | None
    # The declaration with tenant grants applied; None if it cannot be read.
    declaration: Declaration | None = None
    claim: Claim | None = None  # what it may claim; None = nothing
    # Whether its cluster has tenants, so that documents of other namespaces must not be named to it.
    tenanted: bool = False
    # Sentences for its author: why it is not eligible, or which part has no effect.
    messages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.claim is not None) != (self.reason in _CLAIMING):
            raise ValueError(
                f"a document with the reason {self.reason} has a claim that does not fit"
            )

    @property
    def document(self) -> str:
        """``namespace/name``."""
        return self.obj.document

    @property
    def entity(self) -> Entity | None:
        """The entity that the document declares; ``None`` if it cannot be read."""
        return None if self.declaration is None else self.declaration.entity

    @property
    def halted(self) -> Iterator[Pair]:
        """The pairs that must not be treated as undeclared while the document is suspended."""
        if self.reason is Reason.SUSPENDED and (declaration := self.declaration) is not None:
            yield from ((declaration.entity, key) for key, _ in set_values(declaration.limits))

    @property
    def doubt(self) -> str:
        """Why its names probably match no client; "" = no doubt."""
        return "; ".join(unmatched_names(self.declaration))

    @property
    def freezes(self) -> bool:
        """Whether pairs recorded as its own are neither written nor removed."""
        return self.reason not in {*_CLAIMING, Reason.DELETING, Reason.ENDED}

    def at(self, now: float) -> "Eligibility":
        """Return the eligibility at a time: a document that is applied has none after its end."""
        declaration = self.declaration
        if self.reason is not None or declaration is None or not declaration.has_ended(now):
            return self
        return replace(self, reason=Reason.ENDED, claim=None)


def assess_eligibility(
    obj: Resource, clusters: Mapping[str, QuotaCluster], *, unusable: Collection[str] = ()
) -> Eligibility:
    """Return the eligibility of a ClientQuota.

    Args:
        clusters: The usable QuotaClusters by name.
        unusable: Names of QuotaClusters that exist and are invalid.
    """
    if excess := obj.excess:
        reason = Reason.DELETING if obj.is_terminating else Reason.NAMESPACE_LIMIT
        return Eligibility(obj=obj, reason=reason, messages=(excess,))
    read = _read(obj)
    declaration = None if isinstance(read, tuple) else read.declaration
    if obj.is_terminating:
        return Eligibility(obj=obj, reason=Reason.DELETING, declaration=declaration)
    if isinstance(read, tuple):
        return Eligibility(obj=obj, reason=Reason.INVALID, messages=read)
    if isinstance(read.clusters, SelectedClusters):
        reason = Reason.NO_CLUSTER_SELECTED
        message = f"clusterSelector {read.clusters.selector} selects no QuotaCluster"
    elif cluster := clusters.get(read.cluster):
        return _judged(obj, read.declaration, cluster)
    elif read.cluster in unusable:
        reason = Reason.CLUSTER_INVALID
        message = f"QuotaCluster {read.cluster} is invalid; see its status"
    else:
        reason, message = Reason.CLUSTER_NOT_FOUND, f"there is no QuotaCluster {read.cluster}"
    return Eligibility(obj=obj, reason=reason, declaration=declaration, messages=(message,))


def resolve_desired_state(
    eligibilities: Iterable[Eligibility],
    owned: OwnershipRecords,
    *,
    waiting: Collection[str] = (),
    entities: Collection[Entity] | None = None,
    now: float = 0.0,
) -> ResolvedClaims:
    """Resolve the claims of documents of one cluster, conflicts included.

    Args:
        eligibilities: Each document once; those that are being deleted count as deleted.
        owned: The records, which show the present owner of a pair.
        waiting: Documents that may not claim yet; what they own is frozen, and what they would claim is not removed
            for another document.
        entities: The entities of which claims count; ``None`` = all.
        now: Seconds since the epoch: documents that have ended claim nothing.
    """
    everything = tuple(eligibilities)

    def counts(entity: Entity) -> bool:
        return entities is None or entity in entities

    held_up = [
        eligibility.claim.declaration
        for eligibility in everything
        if eligibility.claim is not None and eligibility.document in waiting
    ]
    silent = {*waiting, *(declaration.document for declaration in held_up)}
    return resolve_claims(
        [
            eligibility.claim
            for eligibility in everything
            if eligibility.claim is not None
            and eligibility.document not in silent
            and counts(eligibility.claim.declaration.entity)
        ],
        owned=owned,
        frozen=[
            eligibility.document
            for eligibility in everything
            if eligibility.freezes or eligibility.document in silent
        ],
        halted=filter(
            lambda pair: counts(pair[0]),
            (
                *(pair for eligibility in everything for pair in eligibility.halted),
                *(
                    (declaration.entity, key)
                    for declaration in held_up
                    for key, _ in set_values(declaration.limits)
                ),
            ),
        ),
        other_documents=[
            eligibility.document for eligibility in everything if eligibility.claim is not None
        ],
        now=now,
    )


# ---- one document ----------------------------------------------------------------------------


def _read(obj: Resource) -> ClientQuota | tuple[str, ...]:
    """Return the document, or its faults.

    Labels, annotations and other metadata are not checked here; the API server validates them.
    """
    resource = {
        "apiVersion": API_VERSION,
        "kind": QUOTA,
        "metadata": {"name": obj.name, "namespace": obj.namespace},
        "spec": dict(obj.spec),
    }
    try:
        quota = from_resource(resource, path=f"clientquotas/{obj.document}")
    except DocumentDeclined:
        problems = explanation.problems(QUOTA, nodes.from_json(resource), "")
        return shortened([problem.message for problem in problems]) or (
            "it does not match the schema",
        )
    declaration = replace(
        quota.declaration,
        document=obj.document,
        lines=NO_LINES,
        selections=NO_SELECTIONS if obj.projection is None else obj.projection.selections,
    )
    return replace(quota, declaration=declaration)


def _judged(obj: Resource, declaration: Declaration, cluster: QuotaCluster) -> Eligibility:
    """Judge a readable document of a usable cluster by the cluster's tenants, scope and suspensions."""
    verdict = judge(declaration, [grant.tenant for grant in cluster.grants])
    declared, messages = verdict.declaration, verdict.messages
    reason: Reason | None = None
    if not verdict.granted:
        reason = Reason.NOT_GRANTED
    elif not cluster.rules().in_scope(declared.entity):
        reason = Reason.OUT_OF_SCOPE
        shape = form(declared.entity)
        messages = (
            f"an entity of the form {shape} like this one is outside the scope of QuotaCluster {cluster.name}",
        )
    elif declared.suspended:
        reason = Reason.SUSPENDED
    elif cluster.suspend:
        reason = Reason.CLUSTER_SUSPENDED
    claims = reason in _CLAIMING
    return Eligibility(
        obj=obj,
        reason=reason,
        declaration=declared,
        claim=Claim(declaration=declared, priority=verdict.priority, created=obj.created)
        if claims
        else None,
        tenanted=bool(cluster.grants),
        messages=messages,
    )


class ReconcileScope(Struct, frozen=True, kw_only=True):
    """The scope of a partial reconciliation."""

    # The entities that changed documents declare, declared before, or own.
    entities: frozenset[Entity]
    # The changed documents, and all others that declare one of these entities.
    documents: frozenset[str]


class EligibilityIndex:
    """The eligibilities of one cluster.

    Args:
        name: Name of the QuotaCluster.
        without_room: Returns the documents of some claims whose new pairs have no room in the records.
    """

    def __init__(
        self, name: str, without_room: Callable[[Iterable[Claim]], Collection[str]]
    ) -> None:
        self._name, self._without_room = name, without_room
        self._cluster: QuotaCluster | None = None
        self._eligibilities: dict[str, Eligibility] = {}
        self._by_entity: dict[Entity, list[str]] = {}

    def judge_all(
        self, objects: Mapping[str, Resource], cluster: QuotaCluster
    ) -> Mapping[str, Eligibility]:
        """Return the eligibilities of all documents.

        Args:
            objects: All documents of the cluster, by ``namespace/name``.
            cluster: The QuotaCluster; if it changed, every document is judged again.
        """
        # Comparing generations is not enough: a deleted and recreated QuotaCluster starts at generation 1 again.
        if cluster != self._cluster:
            self._eligibilities, self._by_entity, self._cluster = {}, {}, cluster
        judged = self._eligibilities
        gone = judged.keys() - objects.keys()
        changed = [
            name
            for name, obj in objects.items()
            if name not in judged or judged[name].obj is not obj
        ]
        _ = self._judge(objects, cluster, [*gone, *changed])
        return self._with_room({document: judged[document] for document in objects})

    def _judge(
        self, objects: Mapping[str, Resource], cluster: QuotaCluster, documents: Collection[str]
    ) -> Mapping[str, Eligibility]:
        """Judge some documents again and return those that exist; the others keep their eligibility."""
        judged: dict[str, Eligibility] = {}
        for document in documents:
            previous = self._eligibilities.pop(document, None)
            if previous is not None and (entity := previous.entity) is not None:
                self._by_entity[entity].remove(document)
            obj = objects.get(document)
            if obj is None:
                continue
            eligibility = self._judged(previous, obj, cluster)
            judged[document] = self._eligibilities[document] = eligibility
            if (entity := eligibility.entity) is not None:
                self._by_entity.setdefault(entity, []).append(document)
        return judged

    def scope(
        self,
        objects: Mapping[str, Resource],
        cluster: QuotaCluster,
        changed: Collection[str],
        owned: Iterable[Entity],
    ) -> ReconcileScope:
        """Return what has to be reconciled when documents changed, and judge its documents as they are now.

        Args:
            objects: All documents of the cluster, by ``namespace/name``.
            cluster: The QuotaCluster, unchanged since :meth:`judge_all`.
            changed: The documents that were created, changed or deleted.
            owned: The entities that are recorded as theirs.
        """
        before = [*filter(None, map(self._eligibilities.get, changed))]
        after = self._judge(objects, cluster, changed).values()
        entities = frozenset([*owned, *(each.entity for each in (*before, *after) if each.entity)])
        documents = frozenset(changed) | self._declaring(entities)
        _ = self._judge(objects, cluster, documents)
        return ReconcileScope(entities=entities, documents=documents)

    def of(
        self, entities: Collection[Entity], documents: Collection[str]
    ) -> Mapping[str, Eligibility]:
        """Return the eligibilities of the documents that declare one of some entities, and of some documents that exist."""
        names = frozenset(documents) | self._declaring(entities)
        present = sorted(names & self._eligibilities.keys())
        return self._with_room({document: self._eligibilities[document] for document in present})

    def knows(self, documents: Iterable[Resource]) -> bool:
        """Whether every document that may be of this cluster was judged as it is; of those that select clusters none was."""
        judged = self._eligibilities
        return all(
            obj.cluster_name not in {"", self._name}
            or (obj.document in judged and judged[obj.document].obj.request == obj.request)
            for obj in documents
        )

    def _with_room(self, judged: Mapping[str, Eligibility]) -> Mapping[str, Eligibility]:
        """Return the eligibilities; a document without room in the records claims nothing, and what it owns stays."""
        claims = (each.claim for each in judged.values() if each.claim is not None)
        full = {"reason": Reason.NAMESPACE_LIMIT, "claim": None, "messages": (RECORDS_FULL,)}
        refused = {name: replace(judged[name], **full) for name in self._without_room(claims)}
        return {**judged, **refused} if refused else judged

    def _declaring(self, entities: Iterable[Entity]) -> frozenset[str]:
        return frozenset().union(*(self._by_entity.get(entity, ()) for entity in entities))

    def _judged(
        self, previous: Eligibility | None, obj: Resource, cluster: QuotaCluster
    ) -> Eligibility:
        if previous is not None:
            if previous.obj is obj:
                return previous
            if previous.obj.request == obj.request:
                return replace(previous, obj=obj)
        return assess_eligibility(obj, {self._name: cluster})
