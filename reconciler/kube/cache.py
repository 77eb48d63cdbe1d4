"""What was seen of the custom resources: by cluster, without what nobody reads, and whether a change matters.

Kopf tells of single objects; a pass looks at all of them. The cache stands between the two. It is a copy of what the
API server said, never a source of its own: a complete listing replaces what stands here.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

from reconciler.kube.resources import (
    Obj,
    cluster_name_of,
    deletion_requested_at,
    document_of,
    generation_of,
    has_finalizer,
    labels_of,
    requested_at,
    uid_of,
)

NOT_KEPT: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation as large as the object itself."""

SHARED_CHARACTERS: Final = 64
"""Longer texts are hardly ever equal."""


def slim(obj: Obj) -> Obj:
    """The object without what nobody here reads: field managers and kubectl's own copy are two thirds of it.

    What is left shares its keys and common words with all others: each object was parsed by itself, so that five
    thousand of them would hold five thousand copies of ``conditions``.
    """
    metadata: dict[str, Any] = dict(obj.get("metadata", {}))
    _ = metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations and NOT_KEPT in annotations:
        metadata["annotations"] = {k: v for k, v in annotations.items() if k != NOT_KEPT}
    made: dict[str, Any] = _shared({**obj, "metadata": metadata})
    return made


def _shared(value: Any) -> Any:  # noqa: ANN401 - JSON in, the same JSON out
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= SHARED_CHARACTERS else value
    if kind is dict:
        return {intern(key): _shared(one) for key, one in value.items()}
    if kind is list:
        return [_shared(one) for one in value]
    return value


def _what_matters(obj: Obj) -> tuple[object, ...]:
    """All that a pass reads of an object besides its status, which is our own."""
    return (
        uid_of(obj),
        generation_of(obj),
        deletion_requested_at(obj),
        labels_of(obj),
        requested_at(obj),
        has_finalizer(obj),
    )


class Cache:
    """ClientQuotas by cluster and QuotaClusters by name, as last seen.

    Methods that take note of something answer with the names of the clusters that have to be looked at again.
    """

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, Obj]] = {}
        self._cluster_of: dict[str, str] = {}
        self._departed: dict[str, dict[str, Obj]] = {}
        self.clusters: dict[str, Obj] = {}

    @property
    def document_count(self) -> int:
        """How many ClientQuotas there are."""
        return len(self._cluster_of)

    def of(self, cluster: str) -> Mapping[str, Obj]:
        """The ClientQuotas that refer to a cluster, by ``namespace/name``."""
        return self._documents.get(cluster, {})

    def lost(self) -> Mapping[str, Mapping[str, Obj]]:
        """The ClientQuotas that refer to clusters that do not exist, by the name of the cluster."""
        return {
            cluster: dict(documents)
            for cluster, documents in self._documents.items()
            if cluster not in self.clusters
        }

    def knows(self, obj: Obj) -> bool:
        """Whether this very ClientQuota (by uid) is there as far as we saw."""
        document = document_of(obj)
        cluster = self._cluster_of.get(document)
        return cluster is not None and uid_of(self._documents[cluster][document]) == uid_of(obj)

    def take_departed(self, cluster: str) -> dict[str, Obj]:
        """The ClientQuotas of a cluster that were seen to be deleted since the last call, as they were."""
        return self._departed.pop(cluster, {})

    def seen(self, obj: Obj) -> frozenset[str]:
        """A ClientQuota as it is now."""
        document, cluster = document_of(obj), cluster_name_of(obj)
        earlier_cluster = self._cluster_of.get(document)
        earlier = None if earlier_cluster is None else self._documents[earlier_cluster][document]
        woken: set[str] = set()
        if earlier is not None and earlier_cluster is not None and uid_of(earlier) != uid_of(obj):
            # Deleted and made again between two looks: the first one departed.
            woken |= self.gone(earlier)
            earlier = None
        self._documents.setdefault(cluster, {})[document] = slim(obj)
        self._cluster_of[document] = cluster
        if earlier is None or _what_matters(earlier) != _what_matters(obj):
            woken.add(cluster)
        return frozenset(woken)

    def gone(self, obj: Obj) -> frozenset[str]:
        """A ClientQuota was deleted."""
        document = document_of(obj)
        cluster = self._cluster_of.pop(document, None)
        if cluster is None:
            return frozenset()
        known = self._documents[cluster].pop(document)
        if not self._documents[cluster]:
            del self._documents[cluster]
        self._departed.setdefault(cluster, {})[document] = known
        return frozenset({cluster})

    def listed(self, items: Iterable[Obj], *, namespace: str | None = None) -> frozenset[str]:
        """A complete listing, of one namespace or of all: what is not in it is gone."""
        found: set[str] = set()
        woken: set[str] = set()
        for obj in items:
            found.add(document_of(obj))
            woken |= self.seen(obj)
        prefix = "" if namespace is None else f"{namespace}/"
        for document in [
            one for one in self._cluster_of if one.startswith(prefix) and one not in found
        ]:
            woken |= self.gone(self._documents[self._cluster_of[document]][document])
        return frozenset(woken)

    def cluster_seen(self, obj: Obj) -> frozenset[str]:
        """A QuotaCluster as it is now."""
        name = obj["metadata"]["name"]
        earlier = self.clusters.get(name)
        self.clusters[name] = slim(obj)
        changed = earlier is None or _what_matters(earlier) != _what_matters(obj)
        return frozenset({name}) if changed else frozenset()

    def cluster_gone(self, name: str) -> frozenset[str]:
        """A QuotaCluster was deleted."""
        return frozenset({name}) if self.clusters.pop(name, None) is not None else frozenset()

    def clusters_listed(self, items: Iterable[Obj]) -> frozenset[str]:
        """A complete listing of QuotaClusters."""
        woken: set[str] = set()
        found: set[str] = set()
        for obj in items:
            found.add(obj["metadata"]["name"])
            woken |= self.cluster_seen(obj)
        for name in [one for one in self.clusters if one not in found]:
            woken |= self.cluster_gone(name)
        return frozenset(woken)
