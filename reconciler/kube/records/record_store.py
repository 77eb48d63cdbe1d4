"""The ConfigMaps of one cluster id, written, and changed by writers other than the operator. How they look is `shards`.

The operator may be writing at the same time: each try starts from what is there now, and every write is bound to the
version that was read.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from reconciler.errors import KubernetesConflict
from reconciler.kube.api import custom_resources
from reconciler.kube.api.client import ListResult, Obj
from reconciler.kube.api.custom_resources import name_of
from reconciler.kube.api.resource_paths import CONFIG_MAPS, ApiResource
from reconciler.kube.records import config_maps

TRIES: Final = 5


class ConfigMapApi(Protocol):
    """What is needed of :class:`reconciler.kube.api.client.KubernetesApi`."""

    async def list(
        self, resource: ApiResource, namespace: str | None = None, *, labels: str = ""
    ) -> ListResult:
        """A collection."""
        ...

    async def create(self, resource: ApiResource, namespace: str | None, body: Obj) -> Obj:
        """A new object."""
        ...

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Obj
    ) -> Obj:
        """An object, if it was not changed since."""
        ...

    async def delete(self, resource: ApiResource, namespace: str | None, name: str) -> None:
        """Delete an object."""
        ...


async def read(api: ConfigMapApi, namespace: str, cluster_id: str) -> config_maps.StoredRecords:
    """What the ConfigMaps of a cluster id hold.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesError: They cannot be read.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=config_maps.selector(cluster_id))
    return config_maps.read(cluster_id, listing.items)


async def put(
    api: ConfigMapApi,
    namespace: str,
    stored: dict[str, custom_resources.Obj],
    wanted_objects: Mapping[str, custom_resources.Obj],
) -> None:
    """Make them as wanted, in the order in which a crash in between loses nothing; ``stored`` follows each write.

    Args:
        api: The way to the API server.
        namespace: The operator's own.
        stored: What is there, by name, as the API server gave it.
        wanted_objects: From :func:`shards.config_maps`.

    Raises:
        Conflict: Another writer wrote meanwhile.
        KubernetesError: They cannot be written.
    """
    changes = config_maps.diff(stored, wanted_objects)
    for config_map in changes.create:
        stored[name_of(config_map)] = await api.create(CONFIG_MAPS, namespace, dict(config_map))
    for config_map in changes.update:
        stored[name_of(config_map)] = await api.replace(
            CONFIG_MAPS, namespace, name_of(config_map), dict(config_map)
        )
    for name in changes.delete:
        await api.delete(CONFIG_MAPS, namespace, name)
        del stored[name]


async def change(
    api: ConfigMapApi,
    namespace: str,
    cluster_id: str,
    work: Callable[[config_maps.StoredRecords], config_maps.StoredRecords],
) -> config_maps.StoredRecords:
    """Change what they hold; what did not change is not written.

    Args:
        api: The way to the API server.
        namespace: The operator's own.
        cluster_id: Whose records.
        work: From what is there to what should be; called again if another writer was quicker.

    Raises:
        InventoryError: One of them is damaged or missing.
        Conflict: Another writer was quicker, again and again.
        KubernetesError: They cannot be read or written.
    """
    for tries_left in reversed(range(TRIES)):
        listing = await api.list(CONFIG_MAPS, namespace, labels=config_maps.selector(cluster_id))
        before: dict[str, custom_resources.Obj] = {
            name_of(config_map): config_map for config_map in listing.items
        }
        changed = work(config_maps.read(cluster_id, listing.items))
        stored, after = await asyncio.to_thread(
            config_maps.config_maps, changed, namespace=namespace
        )
        try:
            await put(api, namespace, before, after)
        except KubernetesConflict:
            if not tries_left:
                raise
        else:
            return stored
    raise AssertionError("unreachable")
