"""Reads and writes the ConfigMaps of one cluster id, also for writers other than the operator.

The operator may write at the same time: each attempt starts from the present content, and every write is bound to the
resource version that was read.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec.structs import replace

from reconciler.errors import KubernetesConflict, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj, metadata_of, name_of
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import config_maps, finalizers
from reconciler.kube.records.config_map_reader import read as read_config_maps
from reconciler.kube.records.stored_records import CLUSTER_ID, SERIES_LABEL, StoredRecords, selector

TRIES: Final = 5

IN_FLIGHT: Final = 8
"""ConfigMaps written concurrently."""


async def read(api: KubernetesApi, namespace: str, cluster_id: str) -> StoredRecords:
    """Return the content of the ConfigMaps of a cluster id.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesError: They cannot be read.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=selector(cluster_id))
    return read_config_maps(cluster_id, listing.items)


async def cluster_ids(api: KubernetesApi, namespace: str) -> list[str]:
    """Return the ids of all clusters with records in a namespace.

    Raises:
        KubernetesError: They cannot be listed.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=SERIES_LABEL)
    annotations = (metadata_of(config_map).get("annotations") or {} for config_map in listing.items)
    return sorted({str(named[CLUSTER_ID]) for named in annotations if CLUSTER_ID in named})


async def put(
    api: KubernetesApi, namespace: str, stored: dict[str, Obj], wanted_objects: Mapping[str, Obj]
) -> None:
    """Write the wanted ConfigMaps in the order in which a crash loses nothing; ``stored`` is updated after each write.

    Args:
        namespace: The operator's own.
        stored: The present ConfigMaps by name, from the API server.
        wanted_objects: From :func:`config_maps.config_maps`.

    Raises:
        KubernetesConflict: Another writer changed or deleted one meanwhile.
        KubernetesError: They cannot be written.
    """
    changes = config_maps.diff(stored, wanted_objects)

    async def create(config_map: Obj) -> None:
        stored[name_of(config_map)] = await api.create(CONFIG_MAPS, namespace, dict(config_map))

    async def update(config_map: Obj) -> None:
        name = name_of(config_map)
        try:
            stored[name] = await api.replace(CONFIG_MAPS, namespace, name, dict(config_map))
        except NotFound as error:  # Another writer changed the layout.
            raise KubernetesConflict(error.message, status=error.status) from error

    for write, objects in ((create, changes.create), (update, changes.update)):
        # The first part has the counts of removals: write it before the intents of any other part.
        for config_map in objects[:1]:
            await write(config_map)
        for start in range(1, len(objects), IN_FLIGHT):
            batch = objects[start : start + IN_FLIGHT]
            results = await asyncio.gather(*map(write, batch), return_exceptions=True)
            for result in results:
                if result is not None:
                    raise result
    for name in changes.delete:
        # Another writer, or an earlier attempt without a response, may have deleted it.
        with contextlib.suppress(NotFound):
            await api.delete(CONFIG_MAPS, namespace, name)
        del stored[name]


async def change(
    api: KubernetesApi,
    namespace: str,
    cluster_id: str,
    work: Callable[[StoredRecords], StoredRecords],
) -> StoredRecords:
    """Change the content; unchanged parts are not written.

    Args:
        namespace: The operator's own.
        work: Returns the new content from the present; called again if another writer was faster.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesConflict: Another writer was faster in every attempt.
        KubernetesError: They cannot be read or written.
    """
    for tries_left in reversed(range(TRIES)):
        listing = await api.list(CONFIG_MAPS, namespace, labels=selector(cluster_id))
        before: dict[str, Obj] = {name_of(config_map): config_map for config_map in listing.items}
        present = read_config_maps(cluster_id, listing.items)
        changed = work(present)
        if changed == present:
            return present
        stored, after = await asyncio.to_thread(
            config_maps.config_maps, changed, namespace=namespace, before=present, objects=before
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
    api: KubernetesApi, namespace: str, cluster_id: str, documents: Collection[str]
) -> int:
    """Record what documents own as orphaned, before they are deleted without a removal; return the number of pairs.

    Raises:
        InventoryError: One of the ConfigMaps is damaged or missing.
        KubernetesConflict: Another writer was faster in every attempt.
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
