"""Publishes a reconciliation: records, statuses, finalizers and events, in the order that makes a crash least harmful.

Records first: statuses show them. Then statuses; then finalizers, because a document takes its status with it when it
is deleted, and the records note the deletion before; then the QuotaCluster.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.errors import Forbidden, KquotaError
from reconciler.kube.api.custom_resources import (
    Obj,
    generation_of,
    has_finalizer,
    is_terminating,
    namespace_of,
    projected_cluster,
    request_state,
    status_of,
    uid_of,
)
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.status.client_quota import GRACE_SECONDS, document_status
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.events import (
    MOST_EVENTS,
    ResourceEvent,
    left_in_kafka,
    releases,
    shared_out,
    transitions,
)
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.kube.status.quota_cluster import NO_SECRET, cluster_status
from reconciler.kube.status.reasons import Reason
from reconciler.kube.status.writer import ResourceWriter
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.claims import Losses
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import REMOVING, Rules
from reconciler.quota.results.report import Reconciliation


class ReconcileResult(Struct, frozen=True, kw_only=True):
    """The result of reconciling one cluster."""

    obj: Obj  # the QuotaCluster
    cluster: QuotaCluster | None  # its parsed spec; None if it cannot be used
    rules: Rules  # the rules in force
    report: Reconciliation  # the reconciliation
    losses: Losses  # the pairs that documents declare and lose
    # The eligibility of each document; of a partial reconciliation, of each in its scope.
    eligibilities: Mapping[str, Eligibility]
    documents: Mapping[str, Obj]  # the current objects of the documents
    # Documents whose finalizer could not be added, so that nothing was written for them.
    without_finalizer: frozenset[str] = frozenset()
    # Whether the records could be read; without them no document is released.
    records_known: bool = True
    is_partial: bool = False  # whether only a part of the documents was reconciled
    behaves_as: str = ""  # Kafka release line, "" if the cluster was not reached
    secret: SecretState = NO_SECRET  # the credentials in use; without a version if there are none
    # When the next resync is due, in seconds since the epoch; None = unknown.
    next_resync_at: float | None = None

    @property
    def token(self) -> tuple[object, ...]:
        """What every status depends on besides its document and the reconciliation's results for it."""
        version = uid_of(self.obj), generation_of(self.obj)
        return *version, type(self.report.error), self.rules.in_force

    @property
    def leaving_documents(self) -> Mapping[str, Obj]:
        """The documents with the operator's finalizer that were being deleted when the reconciliation began."""
        return {
            document: obj
            for document, eligibility in self.eligibilities.items()
            if eligibility.reason is Reason.DELETING
            and (obj := self.documents.get(document)) is not None
            and is_terminating(obj)
            and has_finalizer(obj)
        }

    @property
    def mentioned_documents(self) -> set[str]:
        """The documents that the reconciliation mentions: those that own or declare something of its entities."""
        documents, report = set(self.losses) | self.without_finalizer, self.report
        items: tuple[QuotaChange | Finding, ...] = ()
        if report.preview is not None:
            items = (*report.preview.plan.changes, *report.preview.plan.findings)
        documents.update(item.owner.document for item in items if item.owner is not None)
        documents.update(observation.document for observation in report.observations)
        # A suspended document claims nothing, and its status shows the live value of what it declares.
        entities = {item.entity for item in items}
        documents.update(
            document
            for document, eligibility in self.eligibilities.items()
            if eligibility.entity in entities
        )
        return documents

    def failed(self, error: KquotaError) -> "ReconcileResult":
        """Return the result with the error that prevented writing its records."""
        return replace(self, report=replace(self.report, error=self.report.error or error))


PENDING_AFTER_SECONDS: Final = 10.0
"""Seconds of a reconciliation after which documents without a status are reported as pending."""

_T = TypeVar("_T")

NO_FINALIZER: Final = Forbidden("the finalizer could not be added, so nothing is written for it")
"""Why documents report that nothing was written for them."""

_QuietDocument: TypeAlias = tuple[tuple[object, ...], Eligibility]
"""What the status of a document was computed from: the reconciliation's part and the document's."""


class StatusPublisher:
    """Publishes the reconciliations of one cluster.

    Args:
        name: Name of the QuotaCluster.
        writes: Writes to the API server.
        inventory: The records.
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
        self._hold = finalizers.DeletionHold()

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
            What could not be done yet and has to be retried, as a sentence; "" = nothing. Removals that the removal
            guard withholds are not retried.

        Raises:
            KquotaError: The records could not be written; the QuotaCluster reports it.
        """
        try:
            return await self._publish(result, everything=everything)
        except KquotaError as error:
            await self._cluster(result.failed(error), {})
            raise

    async def _publish(self, result: ReconcileResult, *, everything: bool) -> str:
        leaving = result.leaving_documents
        hold = await self._held_back(leaving, result)
        try:
            await self._inventory.flush()
        except KquotaError as error:
            # Documents show why, but none is released.
            _ = await self._statuses(
                result.failed(error), frozenset(leaving), [], everything=everything
            )
            raise
        events: list[tuple[Obj, ResourceEvent]] = []
        unsaved = await self._statuses(result, hold.waiting, events, everything=everything)
        released = {
            document: obj for document, obj in leaving.items() if document not in hold.waiting
        }
        await self._inventory.record_deletions(released)
        stuck = await self._finalizers(result, released)
        await self._cluster(result, hold.late)
        if result.report.error is None:
            events.extend(left_in_kafka(result.report, result.rules))
            await self._writer.events(shared_out(events), otherwise=result.obj)
        return _pending_text(result, unsaved, stuck, hold.waiting - hold.withheld)

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
    ) -> finalizers.DeletionHold:
        """Return the documents that are not released, and record the limits that stay of those past the timeout."""
        if not result.records_known:
            return finalizers.DeletionHold(waiting=frozenset(leaving))
        owned = self._inventory.owned
        hold = self._hold = self._hold.after(
            leaving, owned, result.report, timeout=self._deletion_timeout, now=self._clock.now()
        )
        for document, cluster_id in hold.elsewhere.items():
            await self._inventory.orphan_elsewhere(cluster_id, [document])
        if hold.late:
            given_up = [
                change
                for pairs in hold.late.values()
                for change in finalizers.given_up(pairs, owned)
            ]
            await self._inventory.write(owned.cluster_id, given_up)
        return hold

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
        mentioned = result.mentioned_documents
        outage = self._outage(result.report)
        made_from = (*result.token, outage >= GRACE_SECONDS)
        losses, owned, counts = result.losses, self._inventory.owned, Counter[str]()
        key_statuses = KeyStatusIndex(result.report, losses=losses, owned=owned)
        nothing_written = Reconciliation(cluster=self._name, error=NO_FINALIZER)
        unwritten = KeyStatusIndex(nothing_written, losses=losses, owned=owned)
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
            and result.rules.in_force in REMOVING
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

    async def _cluster(
        self, result: ReconcileResult, gave_up: Mapping[str, Collection[Pair]]
    ) -> None:
        before = status_of(result.obj)
        is_failed = result.cluster is None or result.report.error is not None
        after = cluster_status(
            result.obj,
            report=result.report,
            losses=result.losses,
            owned=self._inventory.owned,
            documents=len(result.documents),
            previous=before,
            now=self._clock.now(),
            next_sync=None if is_failed else result.next_resync_at,  # A failure is retried sooner.
            behaves_as=result.behaves_as,
            secret=result.secret,
        )
        events = (*transitions(before, after, on="C"), *releases(gave_up))
        if not unchanged(before, after):
            _ = await self._writer.cluster_status(result.obj, after)
        await self._writer.events(((result.obj, event) for event in events), otherwise=None)


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
    if outcome is not None and finalizers.needs_retry(result.report, outcome):
        parts.append(outcome.failure or "not every change was applied and verified")
    return "; ".join(parts)
