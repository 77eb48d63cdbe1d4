"""Taking our finalizer off, where no operator will: records to the ConfigMaps first, then the finalizers. Kafka is not asked.

What a document applied stands in its own status and would go with it. So it is kept as orphaned, by cluster id, before
anything lets go; an operator that comes back then knows whose a quota was, and a document that is still there takes
its records back. Run again, it does only what is left.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reconciler.errors import (
    InventoryError,
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
    status_of,
)
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.records import finalizers, record_store
from reconciler.kube.records.config_maps import StoredRecords
from reconciler.kube.records.confirmation import confirmation_of
from reconciler.kube.records.status_records import release as released_records
from reconciler.quota.ownership import OwnershipRecords, Pair

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
        unkept: Documents whose records could not be kept, with the reason; they are free all the same.
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
    """Records of the documents to the ConfigMaps; how many pairs, and what could not be kept."""
    by_cluster: dict[str, list[Obj]] = {}
    unkept: dict[str, str] = {}
    for obj in held_objects:
        cluster_id = status_of(obj).get("clusterId")
        if isinstance(cluster_id, str):
            by_cluster.setdefault(cluster_id, []).append(obj)
        elif status_of(obj).get("keys"):
            unkept[document_of(obj)] = "its status does not say which Kafka cluster it is about"
    pairs = 0
    for number, (cluster_id, documents) in enumerate(sorted(by_cluster.items()), 1):
        readable, faults = _readable(cluster_id, documents)
        unkept |= faults
        try:
            change = _OrphanUpdate(documents=readable)
            if readable and any(status_of(document).get("keys") for document in readable):
                _ = await record_store.change(api, namespace, cluster_id, change)
                pairs += len(change.pairs)
        except KquotaError as error:
            unkept |= {document_of(readable_obj): str(error) for readable_obj in readable}
        progress("records", number, len(by_cluster))
    return pairs, unkept


def _readable(cluster_id: str, documents: Iterable[Obj]) -> tuple[list[Obj], dict[str, str]]:
    """The documents whose status can be read, and the faults of the others."""
    readable: list[Obj] = []
    faults: dict[str, str] = {}
    for document in documents:
        try:
            _ = released_records(OwnershipRecords(cluster_id=cluster_id), [document])
        except InventoryError as error:
            faults[document_of(document)] = str(error)
        else:
            readable.append(document)
    return readable, faults


@dataclass(slots=True, kw_only=True)
class _OrphanUpdate:
    """What is done to the records of one cluster id; callable, so that it can be done again after a conflict.

    Attributes:
        documents: Those that are let go.
        pairs: What was kept as orphaned by the last call.
    """

    documents: Sequence[Obj]
    pairs: frozenset[Pair] = frozenset()

    def __call__(self, stored: StoredRecords) -> StoredRecords:
        confirmation = confirmation_of(stored.holdings, None)
        kept_records = released_records(
            OwnershipRecords(cluster_id=stored.remainder.cluster_id),
            self.documents,
            confirmation=confirmation,
        )
        self.pairs = frozenset(
            (subject, key)
            for subject, record in kept_records.records.items()
            for key, _ in record.pairs()
        )
        remainder = released_records(stored.remainder, self.documents, confirmation=confirmation)
        return replace(
            stored, remainder=replace(remainder, orphaned=remainder.orphaned | self.pairs)
        )


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
