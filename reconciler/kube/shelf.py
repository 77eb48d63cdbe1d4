"""The ConfigMaps of one cluster id, written, and changed by somebody who is not the operator. How they look is `shards`.

The operator may be writing at the same time: each try starts from what is there now, and every write is bound to the
version that was read.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from reconciler.errors import Conflict
from reconciler.kube import resources, shards
from reconciler.kube.api import Listing, Obj
from reconciler.kube.resources import name_of
from reconciler.kube.served import CONFIG_MAPS, Resource

TRIES: Final = 5


class ShelfApi(Protocol):
    """What is needed of :class:`reconciler.kube.api.Api`."""

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = ""
    ) -> Listing:
        """A collection."""
        ...

    async def create(self, resource: Resource, namespace: str | None, body: Obj) -> Obj:
        """A new object."""
        ...

    async def replace(self, resource: Resource, namespace: str | None, name: str, body: Obj) -> Obj:
        """An object, if nobody changed it."""
        ...

    async def delete(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Delete an object."""
        ...


async def read(api: ShelfApi, namespace: str, cluster_id: str) -> shards.Kept:
    """What the ConfigMaps of a cluster id hold.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesError: They cannot be read.
    """
    found = await api.list(CONFIG_MAPS, namespace, labels=shards.selector(cluster_id))
    return shards.read(cluster_id, found.items)


async def put(
    api: ShelfApi,
    namespace: str,
    stored: dict[str, resources.Obj],
    wanted: Mapping[str, resources.Obj],
) -> None:
    """Make them as wanted, in the order in which a crash in between loses nothing; ``stored`` follows each write.

    Args:
        api: The way to the API server.
        namespace: The operator's own.
        stored: What is there, by name, as the API server gave it.
        wanted: From :func:`shards.config_maps`.

    Raises:
        Conflict: Somebody else wrote meanwhile.
        KubernetesError: They cannot be written.
    """
    todo = shards.diff(stored, wanted)
    for one in todo.create:
        stored[name_of(one)] = await api.create(CONFIG_MAPS, namespace, dict(one))
    for one in todo.update:
        stored[name_of(one)] = await api.replace(CONFIG_MAPS, namespace, name_of(one), dict(one))
    for name in todo.delete:
        await api.delete(CONFIG_MAPS, namespace, name)
        del stored[name]


async def change(
    api: ShelfApi, namespace: str, cluster_id: str, work: Callable[[shards.Kept], shards.Kept]
) -> shards.Kept:
    """Change what they hold; what did not change is not written.

    Args:
        api: The way to the API server.
        namespace: The operator's own.
        cluster_id: Whose records.
        work: From what is there to what should be; called again where somebody else was quicker.

    Raises:
        InventoryError: One of them is damaged or missing.
        Conflict: Somebody else was quicker, again and again.
        KubernetesError: They cannot be read or written.
    """
    for left in reversed(range(TRIES)):
        found = await api.list(CONFIG_MAPS, namespace, labels=shards.selector(cluster_id))
        before: dict[str, resources.Obj] = {name_of(one): one for one in found.items}
        wanted = work(shards.read(cluster_id, found.items))
        kept, after = await asyncio.to_thread(shards.config_maps, wanted, namespace=namespace)
        try:
            await put(api, namespace, before, after)
        except Conflict:
            if not left:
                raise
        else:
            return kept
    raise AssertionError("unreachable")
