"""Publishes a reconciliation: records, finalizers, the QuotaCluster; then statuses and events, which nothing waits for.

Records first: statuses show them, and they note a deletion before its finalizer is removed. The status of a document is
computed when it is written, from the newest reconciliation that compared it.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.errors import Forbidden, KquotaError, WrongCluster
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.status.client_quota import GRACE_SECONDS, document_status
from reconciler.kube.status.conditions import unchanged
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.events import (
    MOST_EVENTS,
    ResourceEvent,
    left_in_kafka,
    releases,
    transitions,
)
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.kube.status.quota_cluster import cluster_status
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.kube.status.status_queue import StatusQueue
from reconciler.kube.status.writer import ResourceWriter
from reconciler.quota.ownership import Pair
from reconciler.quota.policy import REMOVING
from reconciler.quota.results.report import Reconciliation

NO_FINALIZER: Final = Forbidden("the finalizer could not be added, so nothing is written for it")
"""Why documents report that nothing was written for them."""

_Inputs: TypeAlias = tuple[object, ...]
"""What the statuses of documents were computed from that a reconciliation does not mention."""


class _StatusBatch(Struct, kw_only=True):
    """What the statuses of one reconciliation are computed from."""

    cluster: Resource
    now: float
    outage: float
    events_left: int = MOST_EVENTS


class StatusPublisher:
    """Publishes the reconciliations of one cluster.

    Args:
        name: Name of the QuotaCluster.
        writes: Writes to the API server.
        statuses: Receives the statuses of documents.
        inventory: The records.
        deletion_timeout: Maximum seconds that a finalizer may block the deletion of a document.
    """

    def __init__(
        self,
        name: str,
        *,
        writes: ResourceWriter,
        statuses: StatusQueue,
        inventory: KubeInventory,
        clock: Clock,
        deletion_timeout: float,
    ) -> None:
        self._name, self._writer, self._inventory, self._clock = name, writes, inventory, clock
        self._statuses = statuses
        self._deletion_timeout = deletion_timeout
        # Documents that have the status of a reconciliation that did not mention them, and its inputs.
        self._quiet: dict[str, tuple[_Inputs, Resource]] = {}
        self._failing_since: float | None = None

    async def publish(self, result: ReconcileResult) -> str:
        """Write everything that changed.

        Returns:
            What could not be done yet and has to be retried, as a sentence; "" = nothing. Removals that the removal
            guard withholds are not retried.

        Raises:
            KquotaError: The records could not be written; the QuotaCluster reports it.
        """
        leaving = result.leaving_documents
        try:
            hold = await self._held_back(leaving, result)
            await self._inventory.flush()
            released = {name: obj for name, obj in leaving.items() if name not in hold.waiting}
            await self._inventory.record_deletions(released)
        except KquotaError as error:
            # Documents show why, but none is released.
            failed = result.failed(error)
            self._queue(failed, frozenset(leaving))
            await self._cluster(failed, {})
            raise
        stuck = await self._finalizers(result, released)
        self._queue(result, hold.waiting)
        await self._cluster(result, hold.late)
        return _pending_text(result, stuck, hold.waiting - hold.withheld)

    def _outage(self, report: Reconciliation) -> float:
        """Return for how many seconds reconciliations have failed."""
        if report.error is None:
            self._failing_since = None
            return 0.0
        if self._failing_since is None:
            self._failing_since = report.started_at
        return self._clock.now() - self._failing_since

    async def _held_back(
        self, leaving: Mapping[str, Resource], result: ReconcileResult
    ) -> finalizers.DeletionHold:
        """Return the documents that are not released, and record the limits that stay of those past the timeout."""
        if not result.records_known:
            return finalizers.DeletionHold(waiting=frozenset(leaving))
        owned, now = self._inventory.owned, self._clock.now()
        hold = finalizers.deletion_hold(
            leaving,
            owned,
            result.report,
            note_withheld=partial(self._inventory.note_withheld, now=now),
            timeout=self._deletion_timeout,
            now=now,
        )
        if hold.late and isinstance(result.report.error, WrongCluster):
            await self._inventory.orphan_everywhere(hold.late)
        elif hold.late:
            given_up = [
                change
                for pairs in hold.late.values()
                for change in finalizers.given_up(pairs, owned)
            ]
            await self._inventory.write(owned.cluster_id, given_up)
        return hold

    def _queue(self, result: ReconcileResult, held_documents: frozenset[str]) -> None:
        """Queue the statuses that may have changed, and the events of this reconciliation."""
        mentioned, outage = result.mentioned_documents, self._outage(result.report)
        inputs = (*result.token, outage >= GRACE_SECONDS)
        unexplained, losses, owned = result.unexplained, result.losses, self._inventory.owned
        nothing_written = Reconciliation(cluster=self._name, error=NO_FINALIZER)
        reconciled = KeyStatusIndex(result.report, losses=losses, owned=owned)
        unwritten = KeyStatusIndex(nothing_written, losses=losses, owned=owned)
        batch = _StatusBatch(cluster=result.obj, now=self._clock.now(), outage=outage)
        if not result.is_partial:
            present = result.eligibilities
            self._quiet = {name: each for name, each in self._quiet.items() if name in present}
        for document, eligibility in result.eligibilities.items():
            if eligibility.obj.is_terminating and document not in held_documents:
                continue
            is_quiet = document not in mentioned and not unexplained
            earlier_inputs, written = self._quiet.get(document, (None, None))
            # A document whose status was edited is another object.
            if is_quiet and earlier_inputs == inputs and written is eligibility.obj:
                continue
            _ = self._quiet.pop(document, None)
            key_statuses = unwritten if document in result.without_finalizer else reconciled
            work = partial(
                self._write, eligibility, key_statuses, batch, inputs if is_quiet else None
            )
            self._statuses.put(eligibility.obj.namespace, (self._name, document), work)
        if result.report.error is None:
            for obj, event in left_in_kafka(result.report, result.rules):
                key = (self._name, f"{obj.document} (deleted)")
                post = partial(self._post, obj, [event], batch)
                self._statuses.put(obj.namespace, key, post)

    async def _write(
        self,
        eligibility: Eligibility,
        key_statuses: KeyStatusIndex,
        batch: "_StatusBatch",
        inputs: _Inputs | None,
    ) -> bool:
        """Compute and write the status of a document; return whether it is done, also because the document is gone."""
        document = eligibility.document
        obj = self._writer.present(self._name, document)
        if obj is None or obj.uid != eligibility.obj.uid:
            return True
        eligibility = replace(eligibility, obj=eligibility.obj.as_compared(obj))
        before = obj.status
        after = document_status(
            eligibility,
            key_statuses=key_statuses,
            previous=before,
            now=batch.now,
            outage=batch.outage,
        )
        if not unchanged(before, after):
            if await self._writer.statuses([(eligibility.obj, after)]):
                return False
            events = tuple(transitions(before, after, on="Q"))
            _ = await self._post(eligibility.obj, events, batch)
        # The write of an earlier, quiet status may have ended after this one was queued.
        _ = self._quiet.pop(document, None)
        newest = self._writer.present(self._name, document)
        if inputs is not None and newest is not None and unchanged(newest.status, after):
            self._quiet[document] = inputs, newest
        return True

    async def _post(
        self, obj: Resource, events: Sequence[ResourceEvent], batch: "_StatusBatch"
    ) -> bool:
        """Post events, as far as the reconciliation has events left; namespaces take turns."""
        events = events[: batch.events_left]
        batch.events_left -= len(events)
        await self._writer.events(((obj, event) for event in events), otherwise=batch.cluster)
        return True

    async def _finalizers(
        self, result: ReconcileResult, released: Mapping[str, Resource]
    ) -> set[str]:
        """Remove the operator's finalizer from released documents and from those that no longer need it."""
        unneeded = [
            eligibility.obj
            for eligibility in result.eligibilities.values()
            if eligibility.claim is not None
            and result.rules.in_force in REMOVING
            and not eligibility.obj.is_terminating
            and eligibility.obj.has_finalizer
            # Another cluster of the document may need it; it is removed when the document is deleted.
            and not eligibility.obj.selected_cluster
            and not finalizers.deletion_has_effect(
                eligibility.claim.declaration.deletion_policy, result.rules.in_force
            )
        ]
        stuck = await self._writer.release(released.values())
        return stuck | await self._writer.patches(
            # Its author may need it again meanwhile.
            (obj, [finalizers.same_version(obj), *finalizers.removing(obj)])
            for obj in unneeded
        )

    async def _cluster(
        self, result: ReconcileResult, gave_up: Mapping[str, Collection[Pair]]
    ) -> None:
        before = result.obj.status
        after = cluster_status(result, owned=self._inventory.owned, now=self._clock.now())
        events = (*transitions(before, after, on="C"), *releases(gave_up))
        if not unchanged(before, after):
            _ = await self._writer.cluster_status(result.obj, after)
        await self._writer.events(((result.obj, event) for event in events), otherwise=None)


def _pending_text(result: ReconcileResult, stuck: set[str], held_documents: frozenset[str]) -> str:
    texts = {
        "the finalizer could not be added to {} documents": result.without_finalizer,
        "{} finalizers could not be removed": stuck,
        "{} deleted documents wait for their quotas to be removed": held_documents,
    }
    parts = [text.format(len(documents)) for text, documents in texts.items() if documents]
    outcome = result.report.outcome
    if outcome is not None and finalizers.needs_retry(result.report, outcome):
        parts.append(outcome.failure or "not every change was applied and verified")
    return "; ".join(parts)
