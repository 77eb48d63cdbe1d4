"""Documents whose QuotaCluster does not exist: sets their statuses and releases them when they are deleted.

Deleting a QuotaCluster never blocks and removes no quota. The records of its documents stay in the ConfigMaps of its
cluster id and are used again when the QuotaCluster is recreated. A document that is deleted meanwhile leaves its
limits in Kafka: they are recorded as orphaned before its finalizer is removed, in whatever cluster they are. A document
whose records cannot be read waits for them, and says so, for a day.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.records.finalizers import WITHHELD_SECONDS
from reconciler.kube.records.record_store import Orphaning
from reconciler.kube.status.client_quota import document_status
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.results.report import Reconciliation


class MissingClusterReconciler:
    """The work of the loop for documents without a cluster.

    Args:
        cache: The documents.
        writes: Writes statuses and finalizers.
        orphan: Records what documents own in any Kafka cluster as orphaned.
    """

    def __init__(
        self,
        cache: ResourceCache,
        *,
        writes: ResourceWriter,
        clock: Clock,
        orphan: Callable[[Collection[str]], Awaitable[Orphaning]],
    ) -> None:
        self._cache, self._writer, self._clock = cache, writes, clock
        self._orphan = orphan

    async def __call__(self, trigger: LoopTrigger) -> LoopOutcome:
        """Process all such documents; a deleted one keeps its finalizer if its limits could not be recorded as orphaned."""
        del trigger
        documents = self._cache.documents_without_cluster()
        leaving = {
            document: obj
            for document, obj in documents.items()
            if obj.is_terminating and obj.has_finalizer
        }
        waiting = await self._orphaned(leaving) if leaving else {}
        unsaved = await self._statuses(documents, waiting)
        unsaved |= await self._writer.release(
            obj for document, obj in leaving.items() if document not in waiting
        )
        errors = dict.fromkeys(waiting.values())
        notes = [str(error) for error in errors]
        if unsaved:
            notes.append(f"{len(unsaved)} documents without a cluster could not be written")
        return LoopOutcome(retry=bool(unsaved or waiting), note="; ".join(notes))

    async def _orphaned(self, leaving: Mapping[str, Resource]) -> Mapping[str, KquotaError]:
        """Record as orphaned what documents own; return those that wait because records of theirs could not be changed."""
        try:
            failed = (await self._orphan(leaving)).failed
        except KquotaError as error:
            failed = {"": error}
        begun = self._clock.now() - WITHHELD_SECONDS
        # A document may own something in each cluster whose records cannot be read.
        waiting = [name for name, obj in leaving.items() if (obj.deleted_at or 0.0) > begun]
        return dict.fromkeys(waiting, next(iter(failed.values()))) if failed else {}

    async def _statuses(
        self, documents: Mapping[str, Resource], waiting: Mapping[str, KquotaError]
    ) -> set[str]:
        """Write the statuses; without a reconciliation a status keeps what the last one recorded."""
        now = self._clock.now()
        statuses: list[tuple[Resource, dict[str, Any]]] = []
        for document, obj in documents.items():
            error = waiting.get(document)
            if error is None and obj.is_terminating:
                continue
            status = document_status(
                assess_eligibility(obj, {}),
                key_statuses=None if error is None else _failed(error),
                previous=obj.status,
                now=now,
            )
            statuses.append((obj, status))
        return await self._writer.statuses(statuses)


def _failed(error: KquotaError) -> KeyStatusIndex:
    failure = Reconciliation(cluster="", error=error)
    return KeyStatusIndex(failure, losses={}, owned=OwnershipRecords(cluster_id=""))
