"""The ConfigMaps of one cluster id, written, and changed by writers other than the operator.

The operator may be writing at the same time: each try starts from what is there now, and every write is bound to the
version that was read.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, Protocol

from reconciler.errors import KubernetesConflict
from reconciler.kube.api import custom_resources
from reconciler.kube.api.client import ListResult, Obj
from reconciler.kube.api.custom_resources import metadata_of, name_of
from reconciler.kube.api.resource_paths import CONFIG_MAPS, ApiResource
from reconciler.kube.records import config_maps, finalizers
from reconciler.kube.records.config_map_reader import read as read_config_maps
from reconciler.kube.records.stored_records import (
    CLUSTER_ID,
    SERIES_LABEL,
    StoredRecords,
    selector,
)

TRIES: Final = 5

IN_FLIGHT: Final = 8
"""ConfigMaps that are written at the same time."""


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


async def read(api: ConfigMapApi, namespace: str, cluster_id: str) -> StoredRecords:
    """What the ConfigMaps of a cluster id hold.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesError: They cannot be read.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=selector(cluster_id))
    return read_config_maps(cluster_id, listing.items)


async def cluster_ids(api: ConfigMapApi, namespace: str) -> list[str]:
    """The ids of all clusters that have records in a namespace.

    Raises:
        KubernetesError: They cannot be listed.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=SERIES_LABEL)
    annotations = (metadata_of(config_map).get("annotations") or {} for config_map in listing.items)
    return sorted({str(named[CLUSTER_ID]) for named in annotations if CLUSTER_ID in named})


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
        wanted_objects: From :func:`config_maps.config_maps`.

    Raises:
        Conflict: Another writer wrote meanwhile.
        KubernetesError: They cannot be written.
    """
    changes = config_maps.diff(stored, wanted_objects)

    async def create(config_map: custom_resources.Obj) -> None:
        stored[name_of(config_map)] = await api.create(CONFIG_MAPS, namespace, dict(config_map))

    async def update(config_map: custom_resources.Obj) -> None:
        stored[name_of(config_map)] = await api.replace(
            CONFIG_MAPS, namespace, name_of(config_map), dict(config_map)
        )

    for write, objects in ((create, changes.create), (update, changes.update)):
        # The first part counts removals: before the intents of any other part.
        for config_map in objects[:1]:
            await write(config_map)
        for start in range(1, len(objects), IN_FLIGHT):
            batch = objects[start : start + IN_FLIGHT]
            results = await asyncio.gather(*map(write, batch), return_exceptions=True)
            for result in results:
                if result is not None:
                    raise result
    for name in changes.delete:
        await api.delete(CONFIG_MAPS, namespace, name)
        del stored[name]


async def change(
    api: ConfigMapApi,
    namespace: str,
    cluster_id: str,
    work: Callable[[StoredRecords], StoredRecords],
) -> StoredRecords:
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
        listing = await api.list(CONFIG_MAPS, namespace, labels=selector(cluster_id))
        before: dict[str, custom_resources.Obj] = {
            name_of(config_map): config_map for config_map in listing.items
        }
        present = read_config_maps(cluster_id, listing.items)
        changed = work(present)
        if changed == present:
            return present
        stored, after = await asyncio.to_thread(
            config_maps.config_maps,
            changed,
            namespace=namespace,
            before=present,
            objects=before,
        )
        try:
            await put(api, namespace, before, after)
        except KubernetesConflict:
            if not tries_left:
                raise
        else:
            return stored
    raise AssertionError("unreachable")


async def orphan(
    api: ConfigMapApi, namespace: str, cluster_id: str, documents: Collection[str]
) -> int:
    """Mark what documents own as orphaned, before they go without a removal; how many pairs that is.

    Raises:
        InventoryError: One of the ConfigMaps is damaged or missing.
        Conflict: Another writer was quicker, again and again.
        KubernetesError: They cannot be read or written.
    """
    count = 0

    def work(stored: StoredRecords) -> StoredRecords:
        nonlocal count
        left_behind = finalizers.orphaned(documents, stored.owned)
        count = len(left_behind)
        return replace(stored, owned=stored.owned.with_changes(left_behind))

    _ = await change(api, namespace, cluster_id, work)
    return count
