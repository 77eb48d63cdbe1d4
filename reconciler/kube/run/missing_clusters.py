"""Documents whose QuotaCluster does not exist: sets their statuses and releases them when they are deleted.

Deleting a QuotaCluster never blocks and removes no quota. The records of its documents stay in the ConfigMaps of its
cluster id and are used again when the QuotaCluster is recreated. A document that is deleted meanwhile leaves its
limits in Kafka: they are recorded as orphaned before its finalizer is removed.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import Obj, has_finalizer, is_terminating, status_of
from reconciler.kube.status.client_quota import document_status
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.projection import parts_of
from reconciler.kube.watch.resource_cache import ResourceCache


class MissingClusterReconciler:
    """The work of the loop for documents without a cluster.

    Args:
        cache: The documents.
        writes: Writes statuses and finalizers.
        orphan: ``orphan(cluster id, documents)`` records what the documents own in a Kafka cluster as orphaned.
    """

    def __init__(
        self,
        cache: ResourceCache,
        *,
        writes: ResourceWriter,
        clock: Clock,
        orphan: Callable[[str, Collection[str]], Awaitable[int]],
    ) -> None:
        self._cache, self._writer, self._clock = cache, writes, clock
        self._orphan = orphan

    async def __call__(self, trigger: LoopTrigger) -> LoopOutcome:
        """Process all such documents; a deleted one keeps its finalizer if its limits could not be recorded as orphaned."""
        del trigger
        unsaved: set[str] = set()
        failures: list[KquotaError] = []
        for documents in self._cache.documents_without_cluster().values():
            unsaved |= await self._statuses(documents)
            leaving = {
                document: obj
                for document, obj in documents.items()
                if is_terminating(obj) and has_finalizer(obj)
            }
            for cluster_id, owning in _by_cluster_id(leaving).items():
                try:
                    _ = await self._orphan(cluster_id, owning)
                except KquotaError as error:
                    # An error in the records of one cluster does not block documents of another.
                    failures.append(error)
                    for document in owning:
                        _ = leaving.pop(document, None)
            unsaved |= await self._writer.release(leaving.values())
        notes = [str(error) for error in failures]
        if unsaved:
            notes.append(f"{len(unsaved)} documents without a cluster could not be written")
        retry = bool(unsaved) or any(error.retriable for error in failures)
        return LoopOutcome(retry=retry, note="; ".join(notes))

    async def _statuses(self, documents: Mapping[str, Obj]) -> set[str]:
        eligibilities = [
            assess_eligibility(obj, {}) for obj in documents.values() if not is_terminating(obj)
        ]
        now = self._clock.now()
        # Without a reconciliation a status keeps what the last one recorded.
        statuses = [
            (
                eligibility.obj,
                document_status(eligibility, previous=status_of(eligibility.obj), now=now),
            )
            for eligibility in eligibilities
        ]
        return await self._writer.statuses(
            (obj, after) for obj, after in statuses if not unchanged(status_of(obj), after)
        )


def _by_cluster_id(leaving: Mapping[str, Obj]) -> dict[str, set[str]]:
    """Group documents by the ids of the clusters that they were applied to."""
    documents: dict[str, set[str]] = {}
    for document, obj in leaving.items():
        for status in (status_of(obj), *parts_of(obj).values()):
            cluster_id = status.get("clusterId")
            if isinstance(cluster_id, str) and cluster_id:
                documents.setdefault(cluster_id, set()).add(document)
    return documents
