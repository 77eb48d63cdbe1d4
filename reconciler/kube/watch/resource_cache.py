"""What was seen of the custom resources: by cluster, without what is never read, and whether a change matters.

Kopf reports single objects; a pass looks at all of them. The cache stands between the two. It is a copy of what the
API server said, never a source of its own: a complete listing replaces what stands here.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

from reconciler.kube.api.custom_resources import (
    PROJECTION,
    REQUESTED_AT,
    Obj,
    deletion_requested_at,
    document_of,
    few_finalizers,
    generation_of,
    has_finalizer,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    projected_spec,
    requested_at,
    resource_version_of,
    uid_of,
)
from reconciler.kube.configuration.namespace_limits import (
    EXCESS,
    NamespaceLimits,
    NamespaceUse,
    excerpt,
    excess_of,
    place_of,
)
from reconciler.kube.watch.object_versions import is_before, is_within
from reconciler.kube.watch.projection import (
    is_selector_readable,
    labels_in_selectors,
    projections,
    selects_clusters,
)

KEPT: Final = (
    "name",
    "namespace",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
)
"""The metadata that is read here, besides one annotation and our finalizer. All else may be as large as its author likes."""

MOST_REQUEST: Final = 128
"""Longest value of the annotation that asks for a pass; a status has no more room for it."""

SHARED_CHARACTERS: Final = 64
"""Longer texts are hardly ever equal."""

MOST_ENDED: Final = 10_000
"""So many deletions are remembered, so that a listing from before one of them brings nothing back."""


_OURS: Final = frozenset({EXCESS, PROJECTION})
"""Fields beside ``spec`` that mean something here; no object of an API server has them."""


def slim(obj: Obj) -> Obj:
    """The object without what is never read here.

    What is left shares its keys and common words with all others: each object was parsed by itself, so that five
    thousand of them would hold five thousand copies of ``conditions``.
    """
    slimmed: dict[str, Any] = _shared(stripped(obj))
    return slimmed


def stripped(obj: Obj) -> Obj:
    """The object with the metadata that is read here alone: field managers and annotations may be most of it."""
    metadata = metadata_of(obj)
    kept_metadata: dict[str, Any] = {name: metadata[name] for name in KEPT if name in metadata}
    kept_metadata |= few_finalizers(metadata)
    requested = requested_at(obj)
    if requested is not None:
        kept_metadata["annotations"] = {REQUESTED_AT: requested[:MOST_REQUEST]}
    return {
        **{name: value for name, value in obj.items() if name not in _OURS},
        "metadata": kept_metadata,
    }


def _shared(value: Any) -> Any:  # noqa: ANN401 - JSON in, the same JSON out
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= SHARED_CHARACTERS else value
    if kind is dict:
        return {intern(key): _shared(item) for key, item in value.items()}
    if kind is list:
        return [_shared(item) for item in value]
    return value


def _what_matters(obj: Obj) -> tuple[object, ...]:
    """All that a pass reads of an object besides its status, which is our own."""
    return (*_request(obj), has_finalizer(obj))


def _request(obj: Obj) -> tuple[object, ...]:
    """All that people ask for with an object: neither its status nor our finalizer."""
    return (
        uid_of(obj),
        generation_of(obj),
        deletion_requested_at(obj),
        labels_of(obj),
        requested_at(obj),
        excess_of(obj),
        projected_spec(obj),
    )


def _is_same(obj: Obj, previous: Obj) -> bool:
    """Whether this very version of an object is here already, and all of it."""
    version = resource_version_of(obj)
    return (
        bool(version)
        and version == resource_version_of(previous)
        and generation_of(obj) == generation_of(previous)
        and is_terminating(obj) == is_terminating(previous)
        and not excess_of(previous)
    )


class ResourceCache:
    """ClientQuotas by cluster and QuotaClusters by name, as last seen.

    Methods that take note of something answer with the names of the clusters that have to be looked at again.

    What is heard comes by three ways (watch, listings, answers to our own writes) and in no common order: a listing of
    many pages is older than what the watch reported meanwhile, and an event may show a status that we have replaced
    since. So nothing older ever takes the place of something newer, and what was deleted does not come back.

    A ClientQuota that selects clusters is kept once as it is, and for each of them as `projection` makes it; those are
    made anew when it changes or when the labels of a QuotaCluster do.

    Of each namespace as much is kept as its limits allow, and an excerpt of what is beyond them. An excerpt becomes a
    document again when it is within the limits and a listing brings it anew.

    Args:
        limits: What is served of one namespace.
    """

    def __init__(self, limits: NamespaceLimits | None = None) -> None:
        self._limits = limits or NamespaceLimits()
        self._uses: dict[str, NamespaceUse] = {}
        self._originals: dict[str, Obj] = {}
        self._documents: dict[str, dict[str, Obj]] = {}
        self._clusters_of: dict[str, tuple[str, ...]] = {}
        self._selecting: set[str] = set()
        self._departed_documents: dict[str, dict[str, Obj]] = {}
        self._changed_documents: dict[str, set[str]] = {}
        self._ended: dict[str, None] = {}
        self.clusters: dict[str, Obj] = {}

    def of(self, cluster: str) -> Mapping[str, Obj]:
        """The ClientQuotas that are for a cluster, by ``namespace/name``."""
        return self._documents.get(cluster, {})

    def original(self, document: str) -> Obj | None:
        """A ClientQuota as the API server has it; ``None`` if there is none of this ``namespace/name``."""
        return self._originals.get(document)

    def clusters_of(self, document: str) -> tuple[str, ...]:
        """The clusters that a ClientQuota is for, sorted; existing or not."""
        return self._clusters_of.get(document, ())

    def selects_clusters(self, document: str) -> bool:
        """Whether a ClientQuota that exists selects its clusters."""
        return document in self._selecting

    def deselected(self, cluster: str, uids: Mapping[str, str]) -> dict[str, Obj]:
        """ClientQuotas that are no longer for a cluster, as they are now.

        Args:
            cluster: Which.
            uids: The uids of documents that own something there.
        """
        present = self.of(cluster)
        return {
            document: self._originals[document]
            for document, uid in uids.items()
            if document in self._selecting
            and document not in present
            and uid_of(self._originals[document]) == uid
            and is_selector_readable(self._originals[document])
        }

    def documents_without_cluster(self) -> Mapping[str, Mapping[str, Obj]]:
        """The ClientQuotas that refer to clusters that do not exist, by the name of the cluster."""
        return {
            cluster: dict(documents)
            for cluster, documents in self._documents.items()
            if cluster not in self.clusters
        }

    def has(self, document: str) -> bool:
        """Whether there is a ClientQuota of this ``namespace/name``, whichever cluster it refers to."""
        return document in self._originals

    def knows(self, obj: Obj) -> bool:
        """Whether this very ClientQuota (by uid) is there as far as we saw."""
        current = self._originals.get(document_of(obj))
        return current is not None and uid_of(current) == uid_of(obj)

    def take_departed(self, cluster: str) -> dict[str, Obj]:
        """The ClientQuotas of a cluster that were seen to be deleted since the last call, as they were."""
        return self._departed_documents.pop(cluster, {})

    def take_changed(self, cluster: str) -> frozenset[str]:
        """The ClientQuotas of a cluster that came, went or ask for something else since the last call."""
        return frozenset(self._changed_documents.pop(cluster, ()))

    def has_departed(self, cluster: str) -> bool:
        """Whether there are documents for :meth:`take_departed`."""
        return cluster in self._departed_documents

    def observe(self, obj: Obj) -> frozenset[str]:
        """A ClientQuota as it is now, or was a while ago."""
        document = document_of(obj)
        previous = self._originals.get(document)
        if self._is_over(obj, previous) or (previous is not None and _is_same(obj, previous)):
            return frozenset()
        woken: set[str] = set()
        if previous is not None and uid_of(previous) != uid_of(obj):
            # Deleted and made again between two looks: the first one departed.
            woken |= self.forget(previous)
        slimmed = slim(obj)
        use = self._uses.setdefault(namespace_of(obj), NamespaceUse(self._limits))
        _, created, size = place_of(slimmed)
        moved_documents = use.put(document, created=created, size=size)
        if not use.serves(document):
            slimmed = excerpt(slimmed, self._limits)
        woken |= self._place(document, slimmed)
        return frozenset(woken | self._excluded(use, moved_documents))

    def observe_answer(self, obj: Obj) -> frozenset[str]:
        """A ClientQuota that is here, as an answer to our own write shows it; our finalizer and status are no news."""
        document = document_of(obj)
        previous = self._originals[document]
        woken = self.observe(obj)
        return frozenset() if _request(self._originals[document]) == _request(previous) else woken

    def _place(self, document: str, obj: Obj) -> set[str]:
        """Keep a document for each cluster that it is for; the clusters for which something changed."""
        before = {name: self._documents[name][document] for name in self.clusters_of(document)}
        views = projections(obj, self.clusters)
        self._originals[document] = obj
        self._clusters_of[document] = tuple(sorted(views))
        if selects_clusters(obj):
            self._selecting.add(document)
        woken = before.keys() - views.keys()
        for name in woken:
            self._take(document, name)
            self._note_change(name, document)
        for name, view in views.items():
            self._documents.setdefault(name, {})[document] = view
            if name not in before or _what_matters(before[name]) != _what_matters(view):
                woken.add(name)
            if name not in before or _request(before[name]) != _request(view):
                self._note_change(name, document)
        return woken

    def _note_change(self, cluster: str, document: str) -> None:
        if cluster in self.clusters:  # Else they may never be asked for.
            self._changed_documents.setdefault(cluster, set()).add(document)

    def _take(self, document: str, cluster: str) -> Obj:
        view = self._documents[cluster].pop(document)
        if not self._documents[cluster]:
            del self._documents[cluster]
        return view

    def _select_again(self) -> set[str]:
        """Look again which clusters are selected, after clusters or their labels changed."""
        woken: set[str] = set()
        for document in self._selecting:
            woken |= self._place(document, self._originals[document])
        return woken

    def _excluded(self, use: NamespaceUse, moved_documents: Iterable[str]) -> set[str]:
        """Keep excerpts of documents that are beyond the limit by now; their clusters."""
        woken: set[str] = set()
        for document in moved_documents:
            current = self._originals[document]
            if not use.serves(document) and not excess_of(current):
                woken |= self._place(document, excerpt(current, self._limits))
        return woken

    def forget(self, obj: Obj) -> frozenset[str]:
        """A ClientQuota was deleted; one of the same name that was made since stays."""
        self._end(obj)
        if not self.knows(obj):
            return frozenset()
        document = document_of(obj)
        current = self._originals.pop(document)
        names = self._clusters_of.pop(document)
        self._selecting.discard(document)
        for name in names:
            view = self._take(document, name)
            if name in self.clusters:  # Else they may never be asked for.
                self._departed_documents.setdefault(name, {})[document] = view
                self._note_change(name, document)
        use = self._uses[namespace_of(current)]
        _ = use.remove(document)
        if not len(use):
            del self._uses[namespace_of(current)]
        return frozenset(names)

    def observe_listing(
        self, items: Iterable[Obj], *, namespace: str | None = None, version: str = ""
    ) -> frozenset[str]:
        """A complete listing, of one namespace or of all: what is not in it and not newer is gone.

        Args:
            items: All objects.
            namespace: Which one was listed; ``None`` = all.
            version: Resource version of the listing; "" = it is as new as anything.
        """
        seen_documents: set[str] = set()
        woken: set[str] = set()
        for obj in items:
            seen_documents.add(document_of(obj))
            woken |= self.observe(obj)
        prefix = "" if namespace is None else f"{namespace}/"
        missing = [
            document
            for document in self._originals
            if document.startswith(prefix) and document not in seen_documents
        ]
        for document in missing:
            current = self._originals[document]
            if is_within(current, version):
                woken |= self.forget(current)
        return frozenset(woken)

    def cluster_seen(self, obj: Obj) -> frozenset[str]:
        """A QuotaCluster as it is now, or was a while ago."""
        name = name_of(obj)
        previous = self.clusters.get(name)
        if self._is_over(obj, previous):
            return frozenset()
        self.clusters[name] = slim(obj)
        if previous is not None and _what_matters(previous) == _what_matters(obj):
            return frozenset()
        if previous is None or labels_in_selectors(previous) != labels_in_selectors(obj):
            return frozenset({name, *self._select_again()})
        return frozenset({name})

    def cluster_gone(self, obj: Obj) -> frozenset[str]:
        """A QuotaCluster was deleted; one of the same name that was made since stays."""
        self._end(obj)
        name = name_of(obj)
        current = self.clusters.get(name)
        if current is None or uid_of(current) != uid_of(obj):
            return frozenset()
        del self.clusters[name]
        return frozenset({name, *self._select_again()})

    def clusters_listed(self, items: Iterable[Obj], *, version: str = "") -> frozenset[str]:
        """A complete listing of QuotaClusters; as :meth:`observe_listing`."""
        woken: set[str] = set()
        seen_names: set[str] = set()
        for obj in items:
            seen_names.add(name_of(obj))
            woken |= self.cluster_seen(obj)
        for cluster_obj in [
            unlisted for name, unlisted in self.clusters.items() if name not in seen_names
        ]:
            if is_within(cluster_obj, version):
                woken |= self.cluster_gone(cluster_obj)
        return frozenset(woken)

    def _is_over(self, obj: Obj, current: Obj | None) -> bool:
        """Whether what is reported of an object is no longer so."""
        return uid_of(obj) in self._ended or (current is not None and is_before(obj, current))

    def _end(self, obj: Obj) -> None:
        """Remember that this very object was deleted: a uid is never used again."""
        if uid := uid_of(obj):
            self._ended[uid] = None
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
