"""Publishes a reconciliation: records, statuses, finalizers and events, in the order that makes a crash least harmful.

Records first: statuses show them. Then statuses; then finalizers, because a document takes its status with it when it
is deleted, and the records note the deletion before; then the QuotaCluster.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar

from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import (
    Obj,
    deletion_requested_at,
    has_finalizer,
    is_terminating,
    namespace_of,
    projected_cluster,
    request_state,
    status_of,
)
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.status.budget_wait import waited_for_budget
from reconciler.kube.status.client_quota import (
    GRACE_SECONDS,
    document_status,
)
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.events import (
    ResourceEvent,
    released,
    released_more,
    transitions,
)
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.kube.status.quota_cluster import cluster_status
from reconciler.kube.status.reconcile_result import (
    ReconcileResult,
    leaving_documents,
    mentioned_documents,
    next_sync,
    result_token,
    unwritten_report,
)
from reconciler.kube.status.writer import ResourceWriter
from reconciler.quota.policy import Policy
from reconciler.quota.results.report import Reconciliation

PENDING_AFTER_SECONDS: Final = 10.0
"""Seconds of a reconciliation after which documents without a status are reported as pending."""

MOST_EVENTS: Final = 100
"""Maximum number of events per reconciliation; beyond that the QuotaCluster's counts are more useful."""


_T = TypeVar("_T")

GAVE_UP: Final = "they could not be removed within the deletion timeout"


_QuietDocument: TypeAlias = tuple[tuple[object, ...], Eligibility]
"""What the status of a document was computed from: the reconciliation's part and the document's."""


class StatusPublisher:
    """Publishes the reconciliations of one cluster.

    Args:
        name: Name of the QuotaCluster.
        writes: Writes to the API server.
        inventory: The records.
        clock: Time.
        deletion_timeout: Maximum seconds that a finalizer may block the deletion of a document.
    """

    def __init__(
        self,
        name: str,
        *,
        writes: ResourceWriter,
        inventory: KubeInventory,
        clock: Clock,
        deletion_timeout: float,
    ) -> None:
        self._name, self._writer, self._inventory, self._clock = name, writes, inventory, clock
        self._deletion_timeout = deletion_timeout
        # Documents whose status was computed from a reconciliation that did not mention them, and from what.
        self._quiet: dict[str, _QuietDocument] = {}
        self._failing_since: float | None = None
        # When documents that are being deleted last waited for a removal budget: their timeout starts after that.
        self._waited: Mapping[str, float] = {}

    async def awaited(self, work: Awaitable[_T], judge: Callable[[], Iterable[Eligibility]]) -> _T:
        """Await a part of a reconciliation; if it takes long, documents without a status become pending.

        Args:
            work: The part of the reconciliation.
            judge: Judges the documents without any status.
        """
        task = asyncio.ensure_future(work)
        try:
            done_tasks, _ = await asyncio.wait({task}, timeout=PENDING_AFTER_SECONDS)
            if not done_tasks:
                await self.pending(judge(), is_over=task.done)
            return await task
        finally:
            if not task.done():
                _ = task.cancel()
                _ = await asyncio.wait({task})

    async def pending(
        self, eligibilities: Iterable[Eligibility], *, is_over: Callable[[], bool]
    ) -> None:
        """Write the status ``Pending``.

        Args:
            eligibilities: Documents without any status; consumed lazily.
            is_over: Whether the wait has ended: no further status is written then.
        """
        now = self._clock.now()
        _ = await self._writer.statuses(
            (eligibility.obj, document_status(eligibility, previous={}, now=now))
            for eligibility in takewhile(lambda _: not is_over(), eligibilities)
        )

    async def publish(self, result: ReconcileResult, *, everything: bool) -> str:
        """Write everything that changed.

        Args:
            result: The result of the reconciliation.
            everything: Check every document, whether or not the reconciliation mentions it.

        Returns:
            What could not be done yet and has to be retried, as a sentence; "" = nothing.

        Raises:
            KquotaError: The records could not be written; the QuotaCluster reports it.
        """
        try:
            return await self._publish(result, everything=everything)
        except KquotaError as error:
            await self._cluster(replace(result, report=failed(result.report, error)), {})
            raise

    async def _publish(self, result: ReconcileResult, *, everything: bool) -> str:
        leaving = leaving_documents(result)
        held_documents, gave_up = await self._held_back(leaving, result)
        try:
            await self._inventory.flush()
        except KquotaError as error:
            # Documents show why, but none is released.
            result = replace(result, report=failed(result.report, error))
            _ = await self._statuses(result, frozenset(leaving), [], everything=everything)
            raise
        events: list[tuple[Obj, ResourceEvent]] = []
        unsaved = await self._statuses(result, held_documents, events, everything=everything)
        released = {
            document: obj for document, obj in leaving.items() if document not in held_documents
        }
        await self._inventory.record_deletions(released)
        stuck = await self._finalizers(result, released)
        await self._cluster(result, gave_up)
        if result.report.error is None:
            await self._writer.events(_shared_out(events), otherwise=result.obj)
        return _pending_text(result, unsaved, stuck, held_documents)

    def _outage(self, report: Reconciliation) -> float:
        """Return for how many seconds reconciliations have failed."""
        if report.error is None:
            self._failing_since = None
            return 0.0
        if self._failing_since is None:
            self._failing_since = report.started_at
        return self._clock.now() - self._failing_since

    async def _held_back(
        self, leaving: Mapping[str, Obj], result: ReconcileResult
    ) -> tuple[frozenset[str], Mapping[str, int]]:
        """Return documents that wait for a removal, and the number of limits that stay of those past the timeout."""
        if not result.records_known:
            return frozenset(leaving), {}
        now, owned = self._clock.now(), self._inventory.owned
        held_pairs = dict(finalizers.holds_back(leaving, owned, result.report))
        elsewhere = {
            document: cluster_id
            for document, obj in leaving.items()
            if (cluster_id := _other_cluster(obj, owned.cluster_id))
        }
        if result.report.error is not None:
            for document in elsewhere:
                _ = held_pairs.setdefault(document, set())
        self._waited = waited_for_budget(leaving, held_pairs, result.report, self._waited, now=now)
        late = {
            document
            for document in held_pairs
            if now
            - max(deletion_requested_at(leaving[document]) or now, self._waited.get(document, 0.0))
            >= self._deletion_timeout
        }
        waiting = frozenset(held_pairs).difference(late)
        for document, cluster_id in elsewhere.items():
            if document not in waiting:
                await self._inventory.orphan_elsewhere(cluster_id, [document])
        if late:
            given_up = [
                change
                for document in late
                for change in finalizers.given_up(held_pairs[document], owned)
            ]
            await self._inventory.write(owned.cluster_id, given_up)
        return waiting, {document: len(held_pairs[document]) for document in sorted(late)}

    async def _statuses(
        self,
        result: ReconcileResult,
        held_documents: frozenset[str],
        events: list[tuple[Obj, ResourceEvent]],
        *,
        everything: bool,
    ) -> set[str]:
        """Write the changed statuses; return the documents whose status could not be written."""
        quiet: dict[str, _QuietDocument] = {}
        unwritten = await self._writer.statuses(
            self._changed(result, held_documents, events, quiet, everything=everything)
        )
        if not result.is_partial:
            self._quiet = {}
        for document in result.eligibilities:
            _ = self._quiet.pop(document, None)
        self._quiet |= {name: token for name, token in quiet.items() if name not in unwritten}
        return unwritten

    def _changed(
        self,
        result: ReconcileResult,
        held_documents: frozenset[str],
        events: list[tuple[Obj, ResourceEvent]],
        quiet: dict[str, _QuietDocument],
        *,
        everything: bool,
    ) -> Iterator[tuple[Obj, Mapping[str, Any]]]:
        """Yield documents whose status changed, lazily: thousands of statuses are never in memory together."""
        now = self._clock.now()
        mentioned = mentioned_documents(result)
        outage = self._outage(result.report)
        made_from = (*result_token(result), outage >= GRACE_SECONDS)
        counts = Counter[str]()
        losses, owned = result.losses, self._inventory.owned
        key_statuses = KeyStatusIndex(result.report, losses=losses, owned=owned)
        unwritten = KeyStatusIndex(unwritten_report(result.report), losses=losses, owned=owned)
        for document, eligibility in result.eligibilities.items():
            if is_terminating(eligibility.obj) and document not in held_documents:
                continue
            if document not in mentioned:
                previous, quiet[document] = self._quiet.get(document), (made_from, eligibility)
                if previous and _is_quiet(previous, quiet[document], everything=everything):
                    # A resync must still see that the status was edited: the newer object was not judged.
                    quiet[document] = previous
                    continue
            before = status_of(eligibility.obj)
            after = document_status(
                eligibility,
                key_statuses=unwritten if document in result.without_finalizer else key_statuses,
                previous=before,
                now=now,
                outage=outage,
            )
            if not unchanged(before, after):
                namespace = namespace_of(eligibility.obj)
                if counts[namespace] < MOST_EVENTS:
                    changes = tuple(transitions(before, after, on="Q"))
                    counts[namespace] += len(changes)
                    events.extend((eligibility.obj, change) for change in changes)
                yield eligibility.obj, after

    async def _finalizers(self, result: ReconcileResult, released: Mapping[str, Obj]) -> set[str]:
        """Remove the operator's finalizer from released documents and from those that no longer need it."""
        unneeded = [
            eligibility.obj
            for eligibility in result.eligibilities.values()
            if eligibility.claim is not None
            and result.rules.in_force in {Policy.UPSERT, Policy.SYNC}
            and not is_terminating(eligibility.obj)
            and has_finalizer(eligibility.obj)
            # Another cluster of the document may need it; it is removed when the document is deleted.
            and not projected_cluster(eligibility.obj)
            and not finalizers.deletion_has_effect(
                eligibility.claim.declaration.deletion_policy, result.rules.in_force
            )
        ]
        stuck = await self._writer.release(released.values())
        return stuck | await self._writer.patches(
            (obj, finalizers.removing(obj)) for obj in unneeded
        )

    async def _cluster(self, result: ReconcileResult, gave_up: Mapping[str, int]) -> None:
        before = status_of(result.obj)
        after = cluster_status(
            result.obj,
            report=result.report,
            losses=result.losses,
            owned=self._inventory.owned,
            documents=len(result.documents),
            previous=before,
            now=self._clock.now(),
            next_sync=next_sync(result),
            behaves_as=result.behaves_as,
            secret=result.secret,
        )
        events = [
            *transitions(before, after, on="C"),
            *_releases(gave_up),
        ]
        if not unchanged(before, after):
            _ = await self._writer.cluster_status(result.obj, after)
        await self._writer.events(((result.obj, event) for event in events), otherwise=None)


def _shared_out(
    events: Sequence[tuple[Obj, ResourceEvent]],
) -> Sequence[tuple[Obj, ResourceEvent]]:
    """Return at most ``MOST_EVENTS`` events: the first of each namespace, then the second of each, and so on.

    A namespace with many changes displaces no event of another one.
    """
    counts = Counter[str]()
    places: list[tuple[int, int]] = []
    for index, (obj, _) in enumerate(events):
        namespace = namespace_of(obj)
        places.append((counts[namespace], index))
        counts[namespace] += 1
    return [events[index] for _, index in sorted(places)[:MOST_EVENTS]]


def _other_cluster(obj: Obj, cluster_id: str) -> str:
    """Return the id of the cluster that a document was applied to, if it differs from ``cluster_id``; "" otherwise."""
    status = status_of(obj)
    shown_id = status.get("clusterId") if status.get("keys") else None
    return shown_id if isinstance(shown_id, str) and shown_id != cluster_id else ""


def failed(report: Reconciliation, error: KquotaError) -> Reconciliation:
    """Return the reconciliation with the error that prevented writing its records."""
    return replace(report, error=report.error or error)


def _is_quiet(before: _QuietDocument, now: _QuietDocument, *, everything: bool) -> bool:
    """Whether a status need not be computed again because its inputs are unchanged.

    Args:
        before: The inputs last time.
        now: The current inputs.
        everything: Whether the status may have been edited meanwhile: then only the identical object counts.
    """
    if before[0] != now[0]:
        return False
    if before[1].obj is now[1].obj:
        return True
    return not everything and request_state(before[1].obj) == request_state(now[1].obj)


def _releases(gave_up: Mapping[str, int]) -> Iterator[ResourceEvent]:
    """Yield one event per document up to a limit, then one summary: a namespace may contain thousands."""
    releases = list(gave_up.items())
    for document, count in releases[:MOST_EVENTS]:
        yield released(document, count, GAVE_UP)
    if remaining := releases[MOST_EVENTS:]:
        yield released_more(len(remaining), sum(count for _, count in remaining), GAVE_UP)


def _pending_text(
    result: ReconcileResult, unsaved: set[str], stuck: set[str], held_documents: frozenset[str]
) -> str:
    parts = []
    if result.without_finalizer:
        parts.append(
            f"the finalizer could not be added to {len(result.without_finalizer)} documents"
        )
    if unsaved:
        parts.append(f"{len(unsaved)} statuses could not be written")
    if stuck:
        parts.append(f"{len(stuck)} finalizers could not be removed")
    if held_documents:
        parts.append(f"{len(held_documents)} deleted documents wait for their quotas to be removed")
    outcome = result.report.outcome
    if outcome is not None and not outcome.complete:
        parts.append(outcome.failure or "not every change was applied and verified")
    return "; ".join(parts)
