"""Reads and writes the ConfigMaps of one cluster id, also for writers other than the operator.

The operator may write at the same time: each attempt starts from the present content, and every write is bound to the
resource version that was read.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import KquotaError, KubernetesConflict, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import config_maps, finalizers
from reconciler.kube.records.config_maps import QUOTA_CLUSTER
from reconciler.kube.records.config_maps import read as read_config_maps
from reconciler.kube.records.stored_records import (
    CLUSTER_ID,
    FIRST,
    PARTS,
    RECORDS_LABEL,
    StoredRecords,
    selector,
)
from reconciler.quota.entity import Entity

TRIES: Final = 5

IN_FLIGHT: Final = 8
"""ConfigMaps written concurrently."""


def new_salt() -> str:
    """Return a salt for new parts."""
    return secrets.token_hex(16)


async def read(api: KubernetesApi, namespace: str, cluster_id: str) -> StoredRecords:
    """Return the content of the ConfigMaps of a cluster id.

    Raises:
        InventoryError: One of them is damaged or missing.
        KubernetesError: They cannot be read.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=selector(cluster_id))
    return read_config_maps(cluster_id, listing.items)


async def cluster_ids_of(api: KubernetesApi, namespace: str, quota_cluster: str) -> frozenset[str]:
    """Return the ids of the Kafka clusters whose records a QuotaCluster wrote last.

    Raises:
        KubernetesError: The records cannot be listed.
    """
    listing = await api.list(CONFIG_MAPS, namespace, labels=f"{RECORDS_LABEL}={FIRST}")
    return frozenset(
        str((config_map["metadata"].get("annotations") or {}).get(CLUSTER_ID))
        for config_map in listing.items
        if (config_map.get("data") or {}).get(QUOTA_CLUSTER) == quota_cluster
    )


async def save(
    api: KubernetesApi,
    namespace: str,
    objects: dict[str, Obj],
    stored: StoredRecords,
    *,
    before: StoredRecords,
    among: Collection[Entity] | None = None,
) -> StoredRecords:
    """Write the parts that changed, and return what is stored now. Before the first records all parts are created empty.

    Args:
        namespace: The operator's own.
        objects: The present ConfigMaps by name, from the API server; brought up to date after each write.
        stored: The records to store.
        before: The records in ``objects``.
        among: The entities whose records may differ from ``before``; ``None`` = any.

    Raises:
        InventoryError: A part is larger than a ConfigMap may be.
        KubernetesConflict: Another writer created, changed or deleted one meanwhile.
        KubernetesError: They cannot be written.
    """

    async def create(config_map: Obj) -> None:
        objects[config_map["metadata"]["name"]] = await api.create(
            CONFIG_MAPS, namespace, dict(config_map)
        )

    async def update(config_map: Obj) -> None:
        name = config_map["metadata"]["name"]
        try:
            objects[name] = await api.replace(CONFIG_MAPS, namespace, name, dict(config_map))
        except NotFound as error:
            raise KubernetesConflict(error.message, status=error.status) from error

    if len(objects) < PARTS:
        cluster_id = stored.owned.cluster_id
        empty_parts = config_maps.empty_parts(cluster_id, stored.salt, namespace=namespace)
        await _each(create, [obj for name, obj in empty_parts.items() if name not in objects])
    stored = replace(stored, owned=replace(stored.owned, is_known=True))
    wanted_objects = await asyncio.to_thread(
        config_maps.config_maps,
        stored,
        namespace=namespace,
        before=before,
        among=among,
    )
    await _each(update, config_maps.updates(objects, wanted_objects))
    return stored


async def _each(write: Callable[[Obj], Awaitable[None]], objects: Sequence[Obj]) -> None:
    """Write the first part before the others: it decides which creator's salt counts, and has the counts of removals."""
    for config_map in objects[:1]:
        await write(config_map)
    for start in range(1, len(objects), IN_FLIGHT):
        batch = objects[start : start + IN_FLIGHT]
        results = await asyncio.gather(*map(write, batch), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result


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
        objects: dict[str, Obj] = {
            config_map["metadata"]["name"]: config_map for config_map in listing.items
        }
        present = read_config_maps(cluster_id, listing.items)
        changed = work(present)
        if changed == present:
            return present
        changed = replace(changed, salt=present.salt or new_salt())
        try:
            return await save(api, namespace, objects, changed, before=present)
        except KubernetesConflict:
            if not tries_left:
                raise
    raise AssertionError("unreachable")


class Orphaning(Struct, frozen=True, kw_only=True):
    """What was recorded as orphaned in the records of all clusters."""

    pairs: int = 0
    # Clusters whose records could not be changed, by id.
    failed: Mapping[str, KquotaError] = field(default_factory=dict[str, KquotaError])


async def orphan_everywhere(
    api: KubernetesApi,
    namespace: str,
    documents: Collection[str],
    *,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Orphaning:
    """Record what documents own in any cluster as orphaned, before they are deleted without a removal.

    Their statuses, which say where, may have been edited.

    Raises:
        KubernetesError: The records cannot be listed.
    """

    def work(stored: StoredRecords) -> StoredRecords:
        left_behind = finalizers.orphaned(documents, stored.owned)
        return replace(stored, owned=stored.owned.with_changes(left_behind))

    listing = await api.list(CONFIG_MAPS, namespace, labels=RECORDS_LABEL)
    annotations = (config_map["metadata"].get("annotations") or {} for config_map in listing.items)
    cluster_ids = sorted({str(named[CLUSTER_ID]) for named in annotations if CLUSTER_ID in named})
    pairs, failed = 0, dict[str, KquotaError]()
    for number, cluster_id in enumerate(cluster_ids, 1):
        try:
            stored = await change(api, namespace, cluster_id, work)
            pairs += len(finalizers.orphaned(documents, stored.owned))
        except KquotaError as error:
            failed[cluster_id] = error
        progress("records", number, len(cluster_ids))
    return Orphaning(pairs=pairs, failed=failed)
