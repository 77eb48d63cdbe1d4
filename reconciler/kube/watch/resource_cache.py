"""A cache of the custom resources by cluster, which decides whether a change matters.

Kopf reports single objects; a reconciliation reads all of them. The cache is a copy of the API server's objects,
never authoritative: a complete list replaces its content.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.configuration.namespace_limits import (
    NamespaceLimits,
    NamespaceUse,
    excerpt,
    size_of,
)
from reconciler.kube.watch.projection import (
    is_selector_readable,
    labels_in_selectors,
    projections,
    selects_clusters,
)

MOST_ENDED: Final = 10_000
"""Number of remembered deletions, so that a listing from before a deletion does not restore the object."""


def _what_matters(obj: Resource) -> tuple[object, ...]:
    """Return all that a reconciliation reads of an object besides its status."""
    return (*obj.request, obj.has_finalizer)


class ResourceCache:
    """ClientQuotas by cluster and QuotaClusters by name, as last observed.

    Methods that record a change return the names of the clusters that have to be reconciled.

    Objects arrive in three ways (watch, lists, responses to the operator's writes) without a common order: a listing of
    many pages is older than what the watch reported meanwhile, and an event may show a status that we have replaced
    since. So an older version never replaces a newer one, and a deleted object does not come back.

    A ClientQuota that selects clusters is stored once as it is, and for each of them as `projection` computes it; the
    projections are computed again when it or the labels of a QuotaCluster change.

    Of each namespace as many documents are stored as its limits allow, and excerpts of the others. An excerpt becomes
    a document again when it is within the limits and a listing reports it.

    Args:
        limits: Limits of each namespace.
        operator_class: The class of the QuotaClusters that this operator reconciles.
    """

    def __init__(self, limits: NamespaceLimits | None = None, *, operator_class: str = "") -> None:
        self._limits, self._operator_class = limits or NamespaceLimits(), operator_class
        self._uses: dict[str, NamespaceUse] = {}
        self._originals: dict[str, Resource] = {}
        self._documents: dict[str, dict[str, Resource]] = {}
        self._selected_clusters: dict[str, tuple[str, ...]] = {}
        self._departed_documents: dict[str, dict[str, Resource]] = {}
        self._changed_documents: dict[str, set[str]] = {}
        self._ended: dict[str, None] = {}
        self.clusters: dict[str, Resource] = {}
        self._newest = 0

    @property
    def version(self) -> str:
        """The newest resource version of a ClientQuota that was observed, its deletion included; "" = none."""
        return str(self._newest or "")

    def is_own(self, cluster: str) -> bool:
        """Whether there is a QuotaCluster of this name that this operator reconciles."""
        obj = self.clusters.get(cluster)
        return obj is not None and obj.operator_class == self._operator_class

    def of(self, cluster: str) -> Mapping[str, Resource]:
        """Return the ClientQuotas of a cluster, by ``namespace/name``."""
        return self._documents.get(cluster, {})

    def original(self, document: str) -> Resource | None:
        """Return a ClientQuota as the API server has it; ``None`` if there is none of this ``namespace/name``."""
        return self._originals.get(document)

    def clusters_of(self, document: str) -> tuple[str, ...]:
        """Return the clusters of a ClientQuota, sorted; existing or not."""
        if (names := self._selected_clusters.get(document)) is not None:
            return names
        obj = self._originals.get(document)
        return () if obj is None else (obj.cluster_name,)

    def selects_clusters(self, document: str) -> bool:
        """Whether an existing ClientQuota selects its clusters."""
        return document in self._selected_clusters

    def deselected(self, cluster: str, uids: Mapping[str, str]) -> dict[str, Resource]:
        """Return the current objects of ClientQuotas that no longer select a cluster.

        Args:
            cluster: Name of the cluster.
            uids: The uids of documents that own limits there, by document.
        """
        present = self.of(cluster)
        return {
            document: self._originals[document]
            for document, uid in uids.items()
            if document in self._selected_clusters
            and document not in present
            and self._originals[document].uid == uid
            and is_selector_readable(self._originals[document])
        }

    def documents_without_cluster(self) -> Mapping[str, Resource]:
        """Return the ClientQuotas that refer to clusters that do not exist."""
        return {
            document: obj
            for cluster, documents in self._documents.items()
            if cluster not in self.clusters
            for document, obj in documents.items()
        }

    def knows(self, obj: Resource) -> bool:
        """Whether a ClientQuota with this uid is in the cache."""
        current = self._originals.get(obj.document)
        return current is not None and current.uid == obj.uid

    def take_departed(
        self, cluster: str, documents: Collection[str] | None = None
    ) -> dict[str, Resource]:
        """Return the last state of a cluster's ClientQuotas whose deletion was observed and not returned yet.

        Args:
            cluster: Name of the cluster.
            documents: The ClientQuotas that are taken; ``None`` = all.
        """
        departed = self._departed_documents.get(cluster, {})
        names = departed.keys() if documents is None else departed.keys() & documents
        return {document: departed.pop(document) for document in list(names)}

    def take_changed(self, cluster: str) -> frozenset[str]:
        """Return the ClientQuotas of a cluster that were created, changed or deleted since the last call."""
        return frozenset(self._changed_documents.pop(cluster, ()))

    def observe(self, obj: Resource) -> frozenset[str]:
        """Record a ClientQuota; older versions are ignored."""
        document = obj.document
        self._newest = max(self._newest, obj.version_number or 0)
        previous = self._originals.get(document)
        if self._is_over(obj, previous) or (
            previous is not None
            and previous.is_version(obj.version, obj.generation, is_terminating=obj.is_terminating)
        ):
            return frozenset()
        affected: set[str] = set()
        if previous is not None and previous.uid != obj.uid:
            # Deleted and recreated between two observations: the first one departed.
            affected |= self.forget(previous)
        use = self._uses.setdefault(obj.namespace, NamespaceUse(self._limits))
        moved_documents = use.put(document, created=obj.created, size=size_of(obj))
        served = obj if use.serves(document) else excerpt(obj, self._limits)
        affected |= self._place(document, served)
        return frozenset(affected | self._excluded(use, moved_documents))

    def _place(self, document: str, obj: Resource) -> set[str]:
        """Store a document for each of its clusters; return the clusters for which something changed."""
        before = {name: self._documents[name][document] for name in self.clusters_of(document)}
        views = projections(obj, self.clusters)
        self._originals[document] = obj
        if selects_clusters(obj):
            self._selected_clusters[document] = tuple(sorted(views))
        else:
            _ = self._selected_clusters.pop(document, None)
        affected = before.keys() - views.keys()
        for name in affected:
            self._take(document, name)
            self._note_change(name, document)
        for name, view in views.items():
            self._documents.setdefault(name, {})[document] = view
            if name not in before or _what_matters(before[name]) != _what_matters(view):
                affected.add(name)
            if name not in before or before[name].request != view.request:
                self._note_change(name, document)
        return affected

    def _note_change(self, cluster: str, document: str) -> None:
        if self.is_own(cluster):  # For other clusters no reconciliation takes it.
            self._changed_documents.setdefault(cluster, set()).add(document)

    def _take(self, document: str, cluster: str) -> Resource:
        view = self._documents[cluster].pop(document)
        if not self._documents[cluster]:
            del self._documents[cluster]
        return view

    def _select_again(self) -> set[str]:
        """Compute the projections again after clusters or their labels changed."""
        affected: set[str] = set()
        for document in list(self._selected_clusters):
            affected |= self._place(document, self._originals[document])
        return affected

    def _excluded(self, use: NamespaceUse, moved_documents: Iterable[str]) -> set[str]:
        """Replace documents that now exceed the limits by excerpts; return their clusters."""
        affected: set[str] = set()
        for document in moved_documents:
            current = self._originals[document]
            if not use.serves(document) and not current.excess:
                affected |= self._place(document, excerpt(current, self._limits))
        return affected

    def forget(self, obj: Resource) -> frozenset[str]:
        """Record the deletion of a ClientQuota; a newer one of the same name stays."""
        self._end(obj)
        self._newest = max(self._newest, obj.version_number or 0)
        if not self.knows(obj):
            return frozenset()
        document = obj.document
        names = self.clusters_of(document)
        current = self._originals.pop(document)
        _ = self._selected_clusters.pop(document, None)
        for name in names:
            view = self._take(document, name)
            if self.is_own(name):  # For other clusters no reconciliation takes it.
                self._departed_documents.setdefault(name, {})[document] = view
                self._note_change(name, document)
        use = self._uses[current.namespace]
        _ = use.remove(document)
        if not len(use):
            del self._uses[current.namespace]
        return frozenset(names)

    def end_listing(
        self, seen_documents: Collection[str], *, namespace: str | None = None, version: str = ""
    ) -> frozenset[str]:
        """Record a complete listing; cached objects that it does not contain and that are not newer are deleted.

        Args:
            seen_documents: The listed ClientQuotas, which were observed.
            namespace: The listed namespace; ``None`` = all.
            version: Resource version of the listing; "" = newer than every object.
        """
        affected: set[str] = set()
        prefix = "" if namespace is None else f"{namespace}/"
        missing = [
            document
            for document in self._originals
            if document.startswith(prefix) and document not in seen_documents
        ]
        for document in missing:
            current = self._originals[document]
            if current.is_within(version):
                affected |= self.forget(current)
        return frozenset(affected)

    def cluster_seen(self, obj: Resource) -> frozenset[str]:
        """Record a QuotaCluster; older versions are ignored."""
        name = obj.name
        previous = self.clusters.get(name)
        if self._is_over(obj, previous):
            return frozenset()
        self.clusters[name] = obj
        if previous is not None and _what_matters(previous) == _what_matters(obj):
            return frozenset()
        if previous is None or labels_in_selectors(previous) != labels_in_selectors(obj):
            return frozenset({name, *self._select_again()})
        return frozenset({name})

    def cluster_gone(self, obj: Resource) -> frozenset[str]:
        """Record the deletion of a QuotaCluster; a newer one of the same name stays."""
        self._end(obj)
        name = obj.name
        current = self.clusters.get(name)
        if current is None or current.uid != obj.uid:
            return frozenset()
        del self.clusters[name]
        return frozenset({name, *self._select_again()})

    def clusters_listed(self, items: Iterable[Resource], *, version: str = "") -> frozenset[str]:
        """Record a complete listing of QuotaClusters; see :meth:`end_listing`."""
        affected: set[str] = set()
        seen_names: set[str] = set()
        for obj in items:
            seen_names.add(obj.name)
            affected |= self.cluster_seen(obj)
        for cluster_obj in [
            unlisted for name, unlisted in self.clusters.items() if name not in seen_names
        ]:
            if cluster_obj.is_within(version):
                affected |= self.cluster_gone(cluster_obj)
        return frozenset(affected)

    def _is_over(self, obj: Resource, current: Resource | None) -> bool:
        """Whether the reported version is outdated: deleted, or older than the cached one."""
        return obj.uid in self._ended or (current is not None and obj.is_before(current))

    def _end(self, obj: Resource) -> None:
        """Remember the uid of a deleted object: uids are never reused."""
        if uid := obj.uid:
            self._ended[uid] = None
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
