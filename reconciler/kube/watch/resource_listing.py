"""Complete listings into the cache: they find what a watch may have missed and are required for removals."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from reconciler.errors import KubernetesError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj, Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.watch.resource_cache import ResourceCache

_LOG: Final = logging.getLogger("reconciler.kube")

PAGE: Final = 250
"""Objects per request: a page is parsed as a whole, and the process keeps the memory."""


DOCUMENT: Final = "document"
"""All that is kept of a listed ClientQuota: the cache has the rest."""

Pages: TypeAlias = dict[bytes, tuple[str, ...]]
"""The documents of each page of a listing, by the digest of its bytes."""


class _CachedPages:
    """The pages of one listing; an unchanged one is answered from the cache. Implements ``collection_pages.PageMemory``.

    Args:
        cache: Has the objects of the earlier listing, or newer ones.
        earlier: The pages of the earlier listing.

    Attributes:
        pages: The pages of this listing.
    """

    def __init__(self, cache: ResourceCache, earlier: Pages) -> None:
        self._cache, self._earlier = cache, earlier
        self.pages: Pages = {}

    def recall(self, digest: bytes) -> Sequence[Obj] | None:
        """Return the documents of an unchanged page; an excerpt in the cache needs the page itself."""
        documents = self._earlier.get(digest, ())
        objects = [obj for name in documents if (obj := self._cache.original(name)) is not None]
        if not documents or any(obj.excess for obj in objects):
            return None
        self.pages[digest] = documents
        return [{DOCUMENT: document} for document in documents]

    def remember(self, digest: bytes, items: Sequence[Obj]) -> None:
        """Remember the documents of a page."""
        self.pages[digest] = tuple(str(item[DOCUMENT]) for item in items)


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
        self._pages: dict[str | None, Pages] = {}

    async def start(self) -> bool:
        """List everything before the loops start; return whether it is complete.

        ClientQuotas are listed as the API server has them in memory: the last changes may be missing.
        """
        complete = await self._list(cached=True)
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
        if name in self._unreconciled:
            self._unreconciled.remove(name)
            if is_recorded():
                return True
        return await self()

    async def __call__(self) -> bool:
        """List everything; return whether it is complete. What could not be listed stays unchanged in the cache."""
        return await self._list(cached=False)

    async def _list(self, *, cached: bool) -> bool:
        complete = await self._clusters()
        for namespace in self._namespaces or (None,):
            memory = _CachedPages(self._cache, self._pages.pop(namespace, {}))
            affected: set[str] = set()
            try:
                listing = await self._api.list(
                    CLIENT_QUOTAS,
                    namespace,
                    limit=PAGE,
                    keep=partial(self._observe, affected),
                    cached=cached,
                    memory=memory,
                )
            except KubernetesError as error:
                _LOG.warning("a listing failed, so nothing is removed: %s", error)
                complete = False
            else:
                affected |= self._cache.end_listing(
                    {str(item[DOCUMENT]) for item in listing.items},
                    namespace=namespace,
                    version=listing.resource_version,
                )
                self._pages[namespace] = memory.pages
            self._enqueue(affected, "listing")
        if complete:
            self._on_listed()
        return complete

    def _observe(self, affected: set[str], obj: Obj) -> Obj:
        """Put an object of a page into the cache, and return what is kept of it."""
        resource = parsed(obj)
        affected |= self._cache.observe(resource)
        return {DOCUMENT: resource.document}

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
