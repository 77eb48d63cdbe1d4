"""Removes the operator's finalizer without an operator: records are marked first, then finalizers are removed. Kafka is not queried.

What the documents applied is recorded as orphaned in the ConfigMaps of every cluster id before any finalizer is
removed. A later operator then knows the owner of each limit, removes none for a deleted document, and gives an
existing document its records back. A repeated release continues where it stopped.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from reconciler.errors import KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.records import finalizers, record_store

IN_FLIGHT: Final = 16
TRIES: Final = 3
_TEST_FAILED: Final = 422

Progress = Callable[[str, int, int], None]


class ReleaseResult(Struct, frozen=True, kw_only=True):
    """The result of a release."""

    documents: tuple[str, ...] = ()  # `namespace/name` of the released documents, sorted
    pairs: int = 0  # number of pairs recorded as orphaned
    # Clusters whose records could not be marked, with the reason; their documents are released nevertheless.
    unrecorded: Mapping[str, str] = field(default_factory=dict[str, str])
    # Documents that still have the finalizer, with the reason.
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


async def release(
    api: KubernetesApi, *, namespaces: Sequence[str], operator_namespace: str, progress: Progress
) -> ReleaseResult:
    """Remove the operator's finalizer from every ClientQuota that has it.

    Args:
        namespaces: The namespaces; empty = all.
        operator_namespace: Namespace of the records.

    Raises:
        KubernetesError: ClientQuotas could not be listed; nothing was changed.
    """
    held_objects = await _documents_with_finalizer(api, namespaces)
    pairs, unrecorded = await _keep(api, operator_namespace, held_objects, progress)
    failed = await _remove_finalizers(api, held_objects, progress)
    # A running operator adds its finalizer again.
    readded = {
        obj.document for obj in await _documents_with_finalizer(api, namespaces)
    } - failed.keys()
    failed |= dict.fromkeys(readded, "its finalizer was added again: an operator is running")
    free = sorted({obj.document for obj in held_objects} - failed.keys())
    return ReleaseResult(documents=tuple(free), pairs=pairs, unrecorded=unrecorded, failed=failed)


async def _documents_with_finalizer(
    api: KubernetesApi, namespaces: Sequence[str]
) -> list[Resource]:
    held_objects: list[Resource] = []
    for namespace in namespaces or (None,):
        listing = await api.list(CLIENT_QUOTAS, namespace)
        held_objects += [obj for obj in map(parsed, listing.items) if obj.has_finalizer]
    return held_objects


# ---- records ---------------------------------------------------------------------------------


async def _keep(
    api: KubernetesApi, namespace: str, held_objects: Sequence[Resource], progress: Progress
) -> tuple[int, dict[str, str]]:
    """Record as orphaned what the documents own; return the number of pairs, and clusters that failed with the reason."""
    if not held_objects:
        return 0, {}
    documents = frozenset(obj.document for obj in held_objects)
    try:
        orphaning = await record_store.orphan_everywhere(
            api, namespace, documents, progress=progress
        )
    except KubernetesError as error:
        # The operator orphans what an unobserved deleted document owned, so release works without this permission.
        return 0, {f"records in namespace {namespace}": str(error)}
    failed = orphaning.failed.items()
    return orphaning.pairs, {f"records of cluster {name}": str(error) for name, error in failed}


# ---- finalizers ------------------------------------------------------------------------------


async def _remove_finalizers(
    api: KubernetesApi, held_objects: Sequence[Resource], progress: Progress
) -> dict[str, str]:
    """Remove the finalizers; return the documents that still have theirs, with the reason."""
    failed: dict[str, str] = {}
    slots = asyncio.Semaphore(IN_FLIGHT)
    release_count = 0

    async def remove(obj: Resource) -> None:
        nonlocal release_count
        async with slots:
            try:
                await _remove_finalizer(api, obj)
            except KubernetesError as error:
                failed[obj.document] = str(error)
        release_count += 1
        progress("finalizers", release_count, len(held_objects))

    _ = await asyncio.gather(*(remove(obj) for obj in held_objects))
    return failed


async def _remove_finalizer(api: KubernetesApi, obj: Resource) -> None:
    namespace, name = obj.namespace, obj.name
    present = obj
    for tries_left in reversed(range(TRIES)):
        try:
            _ = await api.patch_json(CLIENT_QUOTAS, namespace, name, finalizers.removing(present))
        except NotFound:
            return
        except KubernetesError as error:
            # Other finalizers were added or removed, so the operator's finalizer has another position.
            has_moved = isinstance(error, KubernetesConflict) or error.status == _TEST_FAILED
            if not has_moved or not tries_left:
                raise
            try:
                present = parsed(await api.get(CLIENT_QUOTAS, namespace, name))
            except NotFound:
                return
            if not present.has_finalizer:
                return
        else:
            return
