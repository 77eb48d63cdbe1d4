"""Complete listings into the cache: they find what a watch may have missed and are required for removals."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct, field

from reconciler.errors import KubernetesError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.collection_pages import full_object
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.quota.entity import Entity

_LOG: Final = logging.getLogger("reconciler.kube")

PAGE: Final = 500
"""Objects per request: the text of a page is in memory as a whole, and the process keeps the memory."""


MOST_SELECTED: Final = 64
"""Maximum number of listings of one entity each; for more a complete listing costs less."""

ANY_VERSION: Final = "0"
"""What the API server has in memory, however old."""


class _Metadata(Struct):
    """What shows whether the cache has an object of a listing as it is."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    version: str = field(default="", name="resourceVersion")
    generation: int = 0
    deletion: str | None = field(default=None, name="deletionTimestamp")


class _ListedObject(Struct):
    metadata: _Metadata


class FullListing:
    """Lists QuotaClusters and the ClientQuotas of every watched namespace.

    Args:
        cache: Receives the objects.
        namespaces: The watched namespaces; empty = all.
        from_file: QuotaClusters from a file; ``None`` = they are listed.
        enqueue: Called with the clusters to reconcile, and a key.
        on_listed: Called after each complete listing.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ResourceCache,
        *,
        namespaces: Sequence[str],
        from_file: Sequence[Resource] | None,
        enqueue: Callable[[Iterable[str], str], None],
        on_listed: Callable[[], None],
    ) -> None:
        self._api, self._cache = api, cache
        self._namespaces, self._from_file = namespaces, from_file
        self._enqueue, self._on_listed = enqueue, on_listed
        self._unreconciled: set[str] = set()

    async def start(self) -> bool:
        """List everything before the loops start; return whether it is complete.

        ClientQuotas are listed as the API server has them in memory: the last changes may be missing.
        """
        complete = await self(at_least=ANY_VERSION)
        own = filter(self._cache.is_own, self._cache.clusters)
        self._unreconciled = set(own) if complete else set()
        return complete

    async def for_cluster(self, name: str, is_recorded: Callable[[], bool]) -> bool:
        """List everything for a reconciliation of a QuotaCluster; return whether it is complete.

        The listing of a start also serves the first reconciliation of each cluster that has nothing to do: if its
        documents declare what the records have, documents that are missing or outdated in the listing change nothing.
        The watch, which lists once more, reports them. A cluster that another operator served at the start is listed
        for.

        Args:
            name: Name of the QuotaCluster.
            is_recorded: Whether the cached documents declare exactly what the records have.
        """
        is_enough = name in self._unreconciled and is_recorded()
        self._unreconciled.discard(name)
        return is_enough or await self()

    async def declaring(self, entities: Collection[Entity]) -> Sequence[Resource] | None:
        """Return every ClientQuota that declares one of some entities; ``None`` if they cannot be listed.

        The API server's memory is enough, which costs little at any number of documents: it is at least as new as every
        document in the cache, so that no document is missing that existed when one of those changed.
        """
        namespaces = self._namespaces or (None,)
        if not (version := self._cache.version) or len(entities) * len(namespaces) > MOST_SELECTED:
            return None
        requests = [
            self._api.list(CLIENT_QUOTAS, namespace, fields=_declares(entity), at_least=version)
            for entity in entities
            for namespace in namespaces
        ]
        try:
            listings = await asyncio.gather(*requests)
        except KubernetesError as error:
            _LOG.warning("documents cannot be listed by entity, so all are listed: %s", error)
            return None
        return [parsed(obj) for listing in listings for obj in listing.items]

    async def __call__(self, *, at_least: str = "") -> bool:
        """List everything; return whether it is complete. What could not be listed stays unchanged in the cache.

        Args:
            at_least: As for :meth:`KubernetesApi.list`, for ClientQuotas.
        """
        complete = await self._clusters()
        for namespace in self._namespaces or (None,):
            affected: set[str] = set()
            try:
                listing = await self._api.list(
                    CLIENT_QUOTAS,
                    namespace,
                    limit=PAGE,
                    keep=partial(self._observe, affected),
                    at_least=at_least,
                )
            except KubernetesError as error:
                _LOG.warning("a listing failed, so nothing is removed: %s", error)
                complete = False
            else:
                affected |= self._cache.end_listing(
                    set(listing.items),
                    namespace=namespace,
                    version=listing.resource_version,
                )
            self._enqueue(affected, "listing")
        if complete:
            self._on_listed()
        return complete

    def _observe(self, affected: set[str], text: bytes) -> str:
        """Put an object into the cache, parsed only if it changed since; return its ``namespace/name``."""
        head = msgspec.json.decode(text, type=_ListedObject).metadata
        document = f"{head.namespace}/{head.name}"
        cached = self._cache.original(document)
        if cached is None or not cached.is_version(
            head.version, head.generation, is_terminating=head.deletion is not None
        ):
            affected |= self._cache.observe(parsed(full_object(text)))
        return document

    async def _clusters(self) -> bool:
        if self._from_file is not None:
            # The API server does not store their statuses: the cache has the only copy.
            known_clusters = self._cache.clusters
            clusters = [known_clusters.get(obj.name, obj) for obj in self._from_file]
            self._enqueue(self._cache.clusters_listed(clusters), "file")
            return True
        try:
            listing = await self._api.list(QUOTA_CLUSTERS)
        except KubernetesError as error:
            _LOG.warning("QuotaClusters could not be listed: %s", error)
            return False
        affected = self._cache.clusters_listed(
            map(parsed, listing.items), version=listing.resource_version
        )
        self._enqueue(affected, "listing")
        return True


def _declares(subject: Entity) -> str:
    """Return a field selector of the documents of an entity; a default is selected as one without a name."""
    names = [re.sub(r"[\\,=]", r"\\\g<0>", name or "") for name in subject]
    slots = zip(("user", "clientId", "ip"), names, strict=True)
    return ",".join(f"spec.entity.{slot}.name={name}" for slot, name in slots)
