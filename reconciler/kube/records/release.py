"""Taking our finalizer off, where no operator will: records are marked first, then the finalizers go. Kafka is not asked.

What the documents applied is marked as orphaned in the ConfigMaps of every cluster id before anything lets go. An
operator that comes back then knows whose a quota was, removes none for a document that is gone, and gives a document
that still exists its records back. Run again, it does only what is left.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.errors import (
    KquotaError,
    KubernetesConflict,
    KubernetesError,
    NotFound,
)
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import (
    Obj,
    document_of,
    has_finalizer,
    name_of,
    namespace_of,
)
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.records import finalizers, record_store

IN_FLIGHT: Final = 16
TRIES: Final = 3
_TEST_FAILED: Final = 422

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResult:
    """What became of a release.

    Attributes:
        documents: ``namespace/name`` of those that are free now, sorted.
        pairs: How many pairs of entity and key were kept as orphaned.
        unkept: Clusters whose records could not be marked, with the reason; documents are free all the same.
        failed: Documents whose finalizer is still there, with the reason.
    """

    documents: tuple[str, ...] = ()
    pairs: int = 0
    unkept: Mapping[str, str] = field(default_factory=dict[str, str])
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


async def release(
    api: KubernetesApi,
    *,
    namespaces: Sequence[str],
    operator_namespace: str,
    progress: Progress,
) -> ReleaseResult:
    """Take our finalizer off every ClientQuota that has it.

    Args:
        api: The way to the API server.
        namespaces: Where; empty = everywhere.
        operator_namespace: Where the records are.
        progress: How far it is.

    Raises:
        KubernetesError: ClientQuotas could not be listed; nothing was changed.
    """
    held_objects = await _documents_with_finalizer(api, namespaces)
    pairs, unkept = await _keep(api, operator_namespace, held_objects, progress)
    failed = await _remove_finalizers(api, held_objects, progress)
    # An operator that still runs puts its finalizer back.
    again = {
        document_of(obj) for obj in await _documents_with_finalizer(api, namespaces)
    } - failed.keys()
    failed |= dict.fromkeys(again, "its finalizer came back: an operator is running")
    free = sorted({document_of(obj) for obj in held_objects} - failed.keys())
    return ReleaseResult(documents=tuple(free), pairs=pairs, unkept=unkept, failed=failed)


async def _documents_with_finalizer(api: KubernetesApi, namespaces: Sequence[str]) -> list[Obj]:
    held_objects: list[Obj] = []
    for namespace in namespaces or (None,):
        listing = await api.list(CLIENT_QUOTAS, namespace)
        held_objects += [obj for obj in listing.items if has_finalizer(obj)]
    return held_objects


# ---- records ---------------------------------------------------------------------------------


async def _keep(
    api: KubernetesApi, namespace: str, held_objects: Sequence[Obj], progress: Progress
) -> tuple[int, dict[str, str]]:
    """Mark the records of the documents as orphaned; how many pairs, and the clusters whose records could not be marked."""
    pairs, unkept = 0, dict[str, str]()
    if not held_objects:
        return pairs, unkept
    documents = frozenset(document_of(obj) for obj in held_objects)
    try:
        cluster_ids = await record_store.cluster_ids(api, namespace)
    except KubernetesError as error:
        # The operator orphans what a document owned that went unseen, so a person without this right may release.
        unkept[f"records in namespace {namespace}"] = str(error)
        return pairs, unkept
    for number, cluster_id in enumerate(cluster_ids, 1):
        try:
            pairs += await record_store.orphan(api, namespace, cluster_id, documents)
        except KquotaError as error:
            unkept[f"records of cluster {cluster_id}"] = str(error)
        progress("records", number, len(cluster_ids))
    return pairs, unkept


# ---- finalizers ------------------------------------------------------------------------------


async def _remove_finalizers(
    api: KubernetesApi, held_objects: Sequence[Obj], progress: Progress
) -> dict[str, str]:
    """Take the finalizers off; the documents that still have theirs, with the reason."""
    failed: dict[str, str] = {}
    slots = asyncio.Semaphore(IN_FLIGHT)
    release_count = 0

    async def one(obj: Obj) -> None:
        nonlocal release_count
        async with slots:
            try:
                await _remove_finalizer(api, obj)
            except KubernetesError as error:
                failed[document_of(obj)] = str(error)
        release_count += 1
        progress("finalizers", release_count, len(held_objects))

    _ = await asyncio.gather(*(one(obj) for obj in held_objects))
    return failed


async def _remove_finalizer(api: KubernetesApi, obj: Obj) -> None:
    namespace, name = namespace_of(obj), name_of(obj)
    present: Mapping[str, Any] = obj
    for tries_left in reversed(range(TRIES)):
        try:
            _ = await api.patch_json(CLIENT_QUOTAS, namespace, name, finalizers.removing(present))
        except NotFound:
            return
        except KubernetesError as error:
            # Other finalizers came or went, so that ours stands elsewhere.
            has_moved = isinstance(error, KubernetesConflict) or error.status == _TEST_FAILED
            if not has_moved or not tries_left:
                raise
            try:
                present = await api.get(CLIENT_QUOTAS, namespace, name)
            except NotFound:
                return
            if not has_finalizer(present):
                return
        else:
            return
