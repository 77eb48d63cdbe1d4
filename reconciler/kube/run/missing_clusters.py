"""Documents whose QuotaCluster does not exist: they say so, and nothing holds them when they are deleted.

Deleting a QuotaCluster never blocks and removes no quota. What its documents own stays in their statuses; a document
that goes leaves its records to the ConfigMaps of its cluster id, from where they are taken up when the QuotaCluster
is made again.
"""

from collections.abc import Callable, Mapping

from reconciler.app.loop import LoopOutcome, LoopTrigger
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import (
    Obj,
    has_finalizer,
    is_terminating,
    status_of,
)
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.status.client_quota import document_status
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache


class MissingClusterReconciler:
    """The work of the loop for documents without a cluster.

    Args:
        cache: What was seen.
        writes: The way to statuses and finalizers.
        clock: Time.
        inventory_of: Records of a name of a QuotaCluster that does not exist.
    """

    def __init__(
        self,
        cache: ResourceCache,
        *,
        writes: ResourceWriter,
        clock: Clock,
        inventory_of: Callable[[str], KubeInventory],
    ) -> None:
        self._cache, self._writer, self._clock = cache, writes, clock
        self._inventory_of = inventory_of

    async def __call__(self, wake: LoopTrigger) -> LoopOutcome:
        """Look at all of them; one that goes is held where its records could not be kept."""
        del wake
        unsaved: set[str] = set()
        failed: list[KquotaError] = []
        for cluster, documents in self._cache.documents_without_cluster().items():
            unsaved |= await self._statuses(documents)
            for cluster_id, some in _by_cluster_id(documents).items():
                try:
                    unsaved |= await self._release(some, self._inventory_of(cluster), cluster_id)
                except (
                    KquotaError
                ) as error:  # The records of one cluster hold up no document of another.
                    failed.append(error)
        words = [str(error) for error in failed]
        if unsaved:
            words.append(f"{len(unsaved)} documents without a cluster could not be written")
        again = bool(unsaved) or any(error.retriable for error in failed)
        return LoopOutcome(retry=again, note="; ".join(words))

    async def _statuses(self, documents: Mapping[str, Obj]) -> set[str]:
        eligibilities = [
            assess_eligibility(obj, {}) for obj in documents.values() if not is_terminating(obj)
        ]
        now = self._clock.now()
        # Without a pass a status takes over what the last one recorded.
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

    async def _release(
        self, documents: Mapping[str, Obj], inventory: KubeInventory, cluster_id: str
    ) -> set[str]:
        leaving = {
            document: obj
            for document, obj in documents.items()
            if is_terminating(obj) and has_finalizer(obj)
        }
        if not leaving:
            return set()
        if cluster_id:
            owned = await inventory.refresh(cluster_id)
            left_behind = finalizers.orphaned(leaving, owned)
            if left_behind and inventory.has_ledger:
                staying_documents = [document for document in documents if document not in leaving]
                await inventory.write(cluster_id, left_behind)
                await inventory.flush(live=staying_documents)
        return await self._writer.patches(
            (obj, finalizers.removing(obj)) for obj in leaving.values()
        )


def _by_cluster_id(documents: Mapping[str, Obj]) -> dict[str, dict[str, Obj]]:
    """Documents by the id of the cluster that holds what they own; "" = they never had one."""
    objects_by_cluster_id: dict[str, dict[str, Obj]] = {}
    for document, obj in documents.items():
        cluster_id = status_of(obj).get("clusterId")
        name = cluster_id if isinstance(cluster_id, str) else ""
        objects_by_cluster_id.setdefault(name, {})[document] = obj
    return objects_by_cluster_id
