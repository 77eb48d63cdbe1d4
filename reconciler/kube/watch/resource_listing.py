"""Complete listings into the cache: they find what a watch may have missed and are required for removals."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from reconciler.errors import KubernetesError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj, name_of
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.watch.resource_cache import ResourceCache, stripped

_LOG: Final = logging.getLogger("reconciler.kube")

PAGE: Final = 250
"""Objects per request: a page is parsed as a whole, and the process keeps the memory."""


class FullListing:
    """Lists QuotaClusters and the ClientQuotas of every watched namespace.

    Args:
        api: Client of the API server.
        cache: Receives the objects.
        namespaces: The watched namespaces; empty = all.
        from_file: QuotaClusters from a file; ``None`` = they are listed.
        wake: Called with the clusters to reconcile, and a key.
        on_listed: Called after each complete listing.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ResourceCache,
        *,
        namespaces: Sequence[str],
        from_file: Sequence[Obj] | None,
        wake: Callable[[Iterable[str], str], None],
        on_listed: Callable[[], None],
    ) -> None:
        self._api, self._cache = api, cache
        self._namespaces, self._from_file = namespaces, from_file
        self._wake, self._on_listed = wake, on_listed

    async def __call__(self) -> bool:
        """List everything; return whether it is complete. What could not be listed stays unchanged in the cache."""
        complete = await self._clusters()
        for namespace in self._namespaces or (None,):
            try:
                listing = await self._api.list(CLIENT_QUOTAS, namespace, limit=PAGE, keep=stripped)
            except KubernetesError as error:
                _LOG.warning("a listing failed, so nothing is removed: %s", error)
                complete = False
            else:
                woken = self._cache.observe_listing(
                    listing.items, namespace=namespace, version=listing.resource_version
                )
                self._wake(woken, "listing")
        if complete:
            self._on_listed()
        return complete

    async def _clusters(self) -> bool:
        if self._from_file is not None:
            # The API server does not store their statuses: the cache has the only copy.
            known_clusters = self._cache.clusters
            clusters = [known_clusters.get(name_of(obj), obj) for obj in self._from_file]
            self._wake(self._cache.clusters_listed(clusters), "file")
            return True
        try:
            listing = await self._api.list(QUOTA_CLUSTERS)
        except KubernetesError as error:
            _LOG.warning("QuotaClusters could not be listed: %s", error)
            return False
        woken = self._cache.clusters_listed(listing.items, version=listing.resource_version)
        self._wake(woken, "listing")
        return True
