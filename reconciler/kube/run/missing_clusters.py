"""Documents whose QuotaCluster does not exist: they say so, and nothing holds them when they are deleted.

Deleting a QuotaCluster never blocks and removes no quota. What its documents own stays in the ConfigMaps of its cluster
id, from where it is taken up when the QuotaCluster is made again; limits of a document that is gone by then stay.
"""

from collections.abc import Mapping

from reconciler.app.loop import LoopOutcome, LoopTrigger
from reconciler.base.protocols import Clock
from reconciler.kube.api.custom_resources import (
    Obj,
    has_finalizer,
    is_terminating,
    status_of,
)
from reconciler.kube.records import finalizers
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
    """

    def __init__(
        self,
        cache: ResourceCache,
        *,
        writes: ResourceWriter,
        clock: Clock,
    ) -> None:
        self._cache, self._writer, self._clock = cache, writes, clock

    async def __call__(self, wake: LoopTrigger) -> LoopOutcome:
        """Look at all of them; one that goes is not held."""
        del wake
        unsaved: set[str] = set()
        for documents in self._cache.documents_without_cluster().values():
            unsaved |= await self._statuses(documents)
            unsaved |= await self._writer.patches(
                (obj, finalizers.removing(obj))
                for obj in documents.values()
                if is_terminating(obj) and has_finalizer(obj)
            )
        note = f"{len(unsaved)} documents without a cluster could not be written" if unsaved else ""
        return LoopOutcome(retry=bool(unsaved), note=note)

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
