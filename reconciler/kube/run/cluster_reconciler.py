"""The operator's reconciliation of one Kafka cluster: listing, records, finalizers, comparison, writes, statuses."""

import asyncio
import contextlib
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner, needs_confirmation
from reconciler.errors import InventoryLocked, KquotaError, StalePlan
from reconciler.kube.configuration.cluster_references import read_cluster
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.definition_guard import at_risk, is_recorded
from reconciler.kube.run.operator_context import OperatorContext
from reconciler.kube.run.partial_reconciliation import (
    KnownState,
    PartialReconciliation,
    known_state,
    names_documents,
)
from reconciler.kube.status.eligibility import (
    Eligibility,
    EligibilityIndex,
    assess_eligibility,
    resolve_desired_state,
)
from reconciler.kube.status.publisher import StatusPublisher
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import ResolvedClaims
from reconciler.quota.planner.plan import PlanRemainder
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.quota.state import Cluster
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, ValidationMode

HOLDING_TRIES: Final = 4
"""Maximum number of times that missing finalizers are added; documents may be created meanwhile."""

CHECK_SECONDS: Final = 0.5
"""Seconds after which a change of the QuotaCluster interrupts an attempt to reach its brokers."""

_T = TypeVar("_T")


class _ReconcileDraft(ReconcileResult, kw_only=True):
    """One reconciliation: its result as far as it is determined, and its input."""

    trigger: LoopTrigger
    baseline: KnownState | None  # the state that it may rely on; None = none
    is_fenced: bool  # whether the previous leader may still write: no difference counts as drift
    part: PartialReconciliation | None = None  # the part that is reconciled; None = everything
    compared: Mapping[str, Eligibility] | None = None  # the documents that are compared
    resolved: ResolvedClaims | None = None


class ClusterReconciler:
    """The work of one cluster's loop.

    Args:
        name: Name of the QuotaCluster.
        context: What all clusters of the operator share.
        inventory: The ownership records of this cluster.
        runner: Runs reconciliations and keeps state between them.
    """

    def __init__(
        self,
        name: str,
        context: OperatorContext,
        *,
        inventory: KubeInventory,
        runner: ReconcileRunner,
    ) -> None:
        self._name, self._context = name, context
        self._inventory, self._runner = inventory, runner
        self._index = EligibilityIndex(name, inventory.without_room)
        self._known: KnownState | None = None
        self._publisher = StatusPublisher(
            name,
            writes=context.writes,
            statuses=context.statuses,
            inventory=inventory,
            clock=context.clock,
            deletion_timeout=context.settings.deletion_timeout,
        )

    async def __call__(self, trigger: LoopTrigger) -> LoopOutcome:
        """Reconcile once; errors of the cluster, a document or the API server are reported in statuses.

        Raises:
            KquotaError: The records could not be read or written; the loop tries again.
        """
        if (obj := self._context.cache.clusters.get(self._name)) is None:
            return LoopOutcome(note="the QuotaCluster no longer exists")
        # Responses to the operator's writes have no defined order relative to watch events.
        is_reported = self._context.cache.take_changed(self._name).issubset(trigger.keys)
        draft = _ReconcileDraft(
            obj=obj,
            report=Reconciliation(cluster=self._name, started_at=self._context.clock.now()),
            trigger=trigger,
            baseline=self._known if is_reported and names_documents(trigger) else None,
            is_fenced=self._context.fence_seconds() > 0,
            next_resync_at=trigger.next_resync_at,
        )
        self._known = None
        await self._reconcile(draft)
        self._context.record_metrics(draft.report, len(set(chain(*draft.losses.values()))))
        pending = await self._publisher.publish(draft)
        if not draft.is_fenced:
            self._known = known_state(
                draft, draft.resolved, self._inventory.recorded, before=draft.part, pending=pending
            )
        if (error := draft.report.error) is not None:
            return LoopOutcome(retry=error.retriable, note=str(error))
        return LoopOutcome(
            retry=bool(pending),
            note=pending,
            confirm=draft.is_fenced or needs_confirmation(draft.report),
            confirm_after=self._context.fence_seconds() if draft.is_fenced else None,
        )

    async def _reconcile(self, draft: _ReconcileDraft) -> None:
        """Reconcile up to the point where the result can be published; an error is part of the result."""
        try:
            draft.report = await self._compare_and_write(draft)
        except KquotaError as error:
            ended = self._context.clock.now()
            draft.report = replace(draft.report, error=error, ended_at=ended)
            await self._read_records_after_error(draft)
        if draft.resolved is not None:
            draft.losses = draft.resolved.losses
        if draft.part is not None:
            draft.is_partial = True
            draft.report = draft.part.merged_report(draft.report)
            draft.losses = draft.part.merged_losses(draft.losses)
        draft.documents = self._context.cache.of(self._name)
        draft.eligibilities = self._reported_eligibilities(draft)
        draft.secret = self._context.secret_of(self._name)
        draft.obj = draft.obj.as_compared(self._context.cache.clusters.get(self._name, draft.obj))

    async def _compare_and_write(self, draft: _ReconcileDraft) -> Reconciliation:
        cluster = draft.cluster = read_cluster(
            draft.obj, allow_references=self._context.settings.allow_references
        )
        store = await self._unless_outdated(draft, self._context.store_of(cluster))
        answering = await self._unless_outdated(draft, store.cluster())
        expected = cluster.expected_cluster_id or await self._inventory.pinned(answering.id)
        if expected == self._inventory.owned.cluster_id:
            draft.part = await self._find_part(draft, cluster, store, answering)
        part = draft.part
        complete = part is not None or await self._read_everything(draft, cluster, expected)
        draft.rules = cluster.rules(complete=complete)
        draft.compared, draft.without_finalizer = await self._hold(draft, cluster)
        if part is None:
            claiming = draft.compared
            # Some came after the records.
            self._inventory.take_documents({name: each.obj for name, each in claiming.items()})
        else:
            claiming = self._assess_part(part)
        resolved = draft.resolved = self._resolve(claiming, part, draft.without_finalizer)
        ports = ReconcilePorts(
            store=store if part is None else part,
            inventory=self._inventory,
            clock=self._context.clock,
            audit=self._context.audit,
        )
        return await self._runner.run(
            ports,
            self._options(draft, cluster, expected, resolved),
            resolved.desired,
            counts_drift=not draft.is_fenced,
            refuses_removals=partial(self._context.refuses_removals, self._name),
        )

    async def _unless_outdated(self, draft: _ReconcileDraft, work: Awaitable[_T]) -> _T:
        """Await brokers, unless the QuotaCluster is changed: that may correct why they do not answer.

        Raises:
            StalePlan: It was changed.
        """
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=CHECK_SECONDS))[0]:
                obj = self._context.cache.clusters.get(self._name)
                if obj is None or obj.request != draft.obj.request:
                    raise StalePlan(f"QuotaCluster {self._name} was changed meanwhile")
            return await task
        finally:
            if not task.done():
                _ = task.cancel()
                _ = await asyncio.wait({task})

    async def _read_records(self, draft: _ReconcileDraft, cluster_id: str) -> OwnershipRecords:
        try:
            owned = await self._inventory.refresh(cluster_id, draft.cluster)
        except InventoryLocked:
            draft.records_known = True  # They are those of another QuotaCluster.
            raise
        draft.records_known = True
        return owned

    async def _read_records_after_error(self, draft: _ReconcileDraft) -> None:
        """Read the records if the error came before them: without records no document may be released."""
        if draft.records_known:
            return
        expected = None if draft.cluster is None else draft.cluster.expected_cluster_id
        with contextlib.suppress(KquotaError):  # The first error is more helpful.
            recorded = self._inventory.recorded.cluster_id
            if cluster_id := expected or recorded or await self._inventory.pinned(""):
                _ = await self._read_records(draft, cluster_id)
            else:  # No cluster ever answered, and nothing was applied.
                draft.records_known = True

    def _reported_eligibilities(self, draft: _ReconcileDraft) -> Mapping[str, Eligibility]:
        """Return the documents to report: as they were compared, with their current statuses, without deleted ones.

        Documents that were created, changed or deleted meanwhile are left to the next reconciliation: reporting them
        as in sync would be false, and releasing them would leave limits in Kafka that have to be removed.
        """
        present = draft.documents
        if draft.cluster is None:
            # Each document reports this, and the limits that it owns are frozen.
            return {
                document: assess_eligibility(obj, {}, unusable={self._name})
                for document, obj in present.items()
            }
        if draft.compared is None:
            return self._eligibilities(draft.cluster, draft.part)
        return {
            document: eligibility
            if (obj := present[document]) is eligibility.obj
            else replace(eligibility, obj=eligibility.obj.as_compared(obj))
            for document, eligibility in draft.compared.items()
            if document in present and present[document].uid == eligibility.obj.uid
        }

    async def _find_part(
        self, draft: _ReconcileDraft, cluster: QuotaCluster, store: QuotaStore, answering: Cluster
    ) -> PartialReconciliation | None:
        """Return the part of the cluster that has to be reconciled; ``None`` if everything has to be."""
        context, baseline, changed = self._context, draft.baseline, frozenset(draft.trigger.keys)
        if (
            baseline is None
            or baseline.cluster != cluster
            or draft.is_fenced
            or any(map(context.cache.selects_clusters, changed))
        ):
            return None
        owned_entities = self._inventory.entities_of(changed)
        scope = self._index.scope(context.cache.of(self._name), cluster, changed, owned_entities)
        part = PartialReconciliation(store, answering, baseline, scope)
        claiming = self._assess_part(part)
        objects = {name: each.obj for name, each in claiming.items()}
        self._inventory.narrow(part.entities, objects, deleted=scope.documents)
        # What a removal relies on: docs/adr/partial-reconciliation.md.
        if entities := self._at_risk(cluster, self._resolve(claiming, part)):
            documents = await context.list_declaring(entities)
            if documents is None or not self._index.knows(documents):
                return None
            self._inventory.note_listing()
        if not await part.is_confirmed(entities):
            return None
        draft.records_known = True
        return part

    def _resolve(
        self,
        claiming: Mapping[str, Eligibility],
        part: PartialReconciliation | None = None,
        waiting: Collection[str] = (),
    ) -> ResolvedClaims:
        return resolve_desired_state(
            claiming.values(),
            self._inventory.owned,
            waiting=waiting,
            entities=None if part is None else part.entities,
            now=self._context.clock.now(),
        )

    def _at_risk(self, cluster: QuotaCluster, resolved: ResolvedClaims) -> Collection[Entity]:
        """Return the entities of which something might be removed."""
        owned, is_missing = self._inventory.owned, self._inventory.is_missing
        return at_risk(owned, resolved, cluster.rules().in_force, is_missing=is_missing)

    def _assess_part(self, part: PartialReconciliation) -> Mapping[str, Eligibility]:
        """Return all documents that the claims of a part depend on."""
        owners = self._inventory.owners_of(part.entities)
        return self._index.of(part.entities, owners | part.scope.documents)

    def _options(
        self, draft: _ReconcileDraft, cluster: QuotaCluster, expected: str, resolved: ResolvedClaims
    ) -> ReconcileOptions:
        part = draft.part
        return ReconcileOptions(
            rules=draft.rules,
            # Deleting the last document is intended; documents that are missing for another reason are not.
            guards=replace(cluster.guards, allow_empty=self._is_leaving(part)),
            expected_cluster_id=expected,
            validation=ValidationMode.NONE,
            only=None if part is None else lambda entity, _: entity in part.scope.entities,
            remainder=PlanRemainder() if part is None else part.remainder(resolved),
            assess=False,
            advise=False,
            origin=RunOrigin(
                author=f"operator {self._context.settings.identity}", cluster=self._name
            ),
        )

    def _is_leaving(self, part: PartialReconciliation | None) -> bool:
        """Whether a document of this reconciliation was deleted or is being deleted."""
        if not (objects := self._context.cache.of(self._name)):
            return self._inventory.has_seen_deletion()
        documents = objects.keys() if part is None else part.scope.documents & objects.keys()
        return any(objects[document].is_terminating for document in documents)

    def _eligibilities(
        self, cluster: QuotaCluster, part: PartialReconciliation | None
    ) -> Mapping[str, Eligibility]:
        """Return the eligibility of each document of this reconciliation."""
        if part is None:
            return self._index.judge_all(self._context.cache.of(self._name), cluster)
        return self._index.of((), part.scope.documents)

    async def _read_everything(
        self, draft: _ReconcileDraft, cluster: QuotaCluster, cluster_id: str
    ) -> bool:
        """Read the records; return whether removals are allowed: there are none, or all documents were listed, as at resyncs."""
        owned = await self._read_records(draft, cluster_id)

        def resolve() -> ResolvedClaims:
            return self._resolve(self._eligibilities(cluster, None))

        def is_unchanged() -> bool:
            resolved = resolve()
            return not self._at_risk(cluster, resolved) and is_recorded(owned, resolved)

        if not draft.trigger.resync and not self._at_risk(cluster, resolve()):
            return True
        if complete := await self._context.list_everything(is_unchanged):
            self._inventory.note_listing()
        return complete

    async def _hold(
        self, draft: _ReconcileDraft, cluster: QuotaCluster
    ) -> tuple[Mapping[str, Eligibility], frozenset[str]]:
        """Add the operator's finalizer to every document whose deletion will have an effect, before any write to Kafka for it.

        Returns:
            The documents of this reconciliation, and the names of those whose finalizer could not be added. Nothing
            is written for the latter, because their deletion would not be noticed. Changes and deletions that arrive
            meanwhile are left to the next reconciliation: an older claim for the same pair may arrive after them.
        """
        eligibilities: Mapping[str, Eligibility] = {}
        for tries_left in reversed(range(HOLDING_TRIES)):
            # Documents that were created meanwhile are added; the others stay as they were.
            eligibilities = {**self._eligibilities(cluster, draft.part), **eligibilities}
            present = self._context.cache.of(self._name)
            needing = {
                document: eligibility.obj
                for document, eligibility in eligibilities.items()
                if eligibility.claim is not None
                and not ((obj := present.get(document)) and obj.has_finalizer)
                and finalizers.deletion_has_effect(
                    eligibility.claim.declaration.deletion_policy, draft.rules.in_force
                )
            }
            if not needing or not tries_left:
                return eligibilities, frozenset(needing)
            _ = await self._context.writes.patches(
                (obj, finalizers.adding(obj))
                for document, assessed in needing.items()
                if (obj := present.get(document)) is not None
                and obj.uid == assessed.uid
                and not obj.is_terminating
            )
        raise AssertionError("the last try returns")
