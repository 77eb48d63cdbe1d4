"""The eligibility of every document of one cluster, by document and by entity.

A document is judged again only if it or its QuotaCluster changed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.status.eligibility import (
    Eligibility,
    assess_eligibility,
    grounds_of,
)
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.entity import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileScope:
    """The scope of a partial reconciliation."""

    # The entities that changed documents declare, declared before, or own.
    entities: frozenset[Entity]
    # The changed documents, and all others that declare one of these entities.
    documents: frozenset[str]


class EligibilityIndex:
    """The eligibilities of one cluster.

    Args:
        name: Name of the QuotaCluster.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._cluster: QuotaCluster | None = None
        self._eligibilities: dict[str, Eligibility] = {}
        self._documents_of: dict[Entity, list[str]] | None = None

    def judge_all(
        self, objects: Mapping[str, Obj], cluster: QuotaCluster
    ) -> Mapping[str, Eligibility]:
        """Return the eligibilities of all documents.

        Args:
            objects: All documents of the cluster, by ``namespace/name``.
            cluster: The QuotaCluster; if it changed, every document is judged again.
        """
        # Comparing generations is not enough: a deleted and recreated QuotaCluster starts at generation 1 again.
        earlier = self._eligibilities if cluster == self._cluster else {}
        judged = {
            document: self._judged(earlier.get(document), obj, cluster)
            for document, obj in objects.items()
        }
        if len(judged) != len(earlier) or any(
            (previous := earlier.get(document)) is None
            or previous.declaration is not eligibility.declaration
            for document, eligibility in judged.items()
        ):
            self._documents_of = None
        self._eligibilities, self._cluster = judged, cluster
        return judged

    def judge(
        self, objects: Mapping[str, Obj], cluster: QuotaCluster, documents: Collection[str]
    ) -> Mapping[str, Eligibility]:
        """Judge some documents again and return those that exist; the others keep their eligibility.

        Args:
            objects: All documents of the cluster, by ``namespace/name``.
            cluster: The QuotaCluster, unchanged since :meth:`judge_all`.
            documents: Names of the documents.
        """
        by_entity = self._by_entity()
        judged: dict[str, Eligibility] = {}
        for document in documents:
            previous = self._eligibilities.pop(document, None)
            if previous is not None and (entity := entity_of(previous)) is not None:
                by_entity[entity].remove(document)
            obj = objects.get(document)
            if obj is None:
                continue
            eligibility = self._judged(previous, obj, cluster)
            judged[document] = self._eligibilities[document] = eligibility
            if (entity := entity_of(eligibility)) is not None:
                by_entity.setdefault(entity, []).append(document)
        return judged

    def scope(
        self,
        objects: Mapping[str, Obj],
        cluster: QuotaCluster,
        changed: Collection[str],
        owned: Iterable[Entity],
    ) -> ReconcileScope:
        """Return what has to be reconciled when documents changed.

        Args:
            objects: All documents of the cluster, by ``namespace/name``.
            cluster: The QuotaCluster, unchanged since :meth:`judge_all`.
            changed: The documents that were created, changed or deleted.
            owned: The entities that are recorded as theirs.
        """
        before = [
            self._eligibilities[document] for document in changed if document in self._eligibilities
        ]
        after = self.judge(objects, cluster, changed).values()
        entities = frozenset(
            [*owned, *(entity for each in (*before, *after) if (entity := entity_of(each)))]
        )
        by_entity = self._by_entity()
        documents = frozenset(changed).union(*(by_entity.get(entity, ()) for entity in entities))
        return ReconcileScope(entities=entities, documents=documents)

    def of(
        self, entities: Collection[Entity], documents: Collection[str]
    ) -> Mapping[str, Eligibility]:
        """Return the eligibilities of the documents that declare one of some entities, and of some documents that exist."""
        by_entity = self._by_entity()
        names = frozenset(documents).union(*(by_entity.get(entity, ()) for entity in entities))
        return {
            document: self._eligibilities[document]
            for document in sorted(names)
            if document in self._eligibilities
        }

    def _by_entity(self) -> dict[Entity, list[str]]:
        if self._documents_of is None:
            self._documents_of = {}
            for document, eligibility in self._eligibilities.items():
                if (entity := entity_of(eligibility)) is not None:
                    self._documents_of.setdefault(entity, []).append(document)
        return self._documents_of

    def _judged(self, previous: Eligibility | None, obj: Obj, cluster: QuotaCluster) -> Eligibility:
        if previous is not None:
            if previous.obj is obj:
                return previous
            if grounds_of(previous.obj) == grounds_of(obj):
                return replace(previous, obj=obj)
        return assess_eligibility(obj, {self._name: cluster})


def entity_of(eligibility: Eligibility) -> Entity | None:
    """Return the entity that a document declares; ``None`` if it cannot be read."""
    return None if eligibility.declaration is None else eligibility.declaration.entity
