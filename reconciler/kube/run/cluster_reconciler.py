"""The operator's reconciliation of one Kafka cluster: listing, records, finalizers, comparison, writes, statuses."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner, needs_confirmation
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import (
    Obj,
    as_compared,
    declared_entity,
    has_finalizer,
    is_terminating,
    status_of,
    uid_of,
)
from reconciler.kube.configuration.cluster_references import read_cluster
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.operator_context import OperatorContext
from reconciler.kube.run.partial_reconciliation import (
    KnownState,
    PartialReconciliation,
    known_state,
    names_documents,
)
from reconciler.kube.run.removal_guard import is_recorded, might_remove
from reconciler.kube.status.eligibility import (
    Eligibility,
    EligibilityIndex,
    assess_eligibility,
    resolve_desired_state,
)
from reconciler.kube.status.publisher import ReconcileResult, StatusPublisher
from reconciler.kube.status.quota_cluster import pinned_id
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import QuotaStore
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.claims import Losses, ResolvedClaims
from reconciler.quota.planner.plan import PlanRemainder
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.quota.state import Cluster
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, ValidationMode

HOLDING_TRIES: Final = 4
"""Maximum number of passes that add missing finalizers; documents may be created while finalizers are added."""


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
        self._index = EligibilityIndex(name)
        self._known: KnownState | None = None
        self._is_fenced = False
        # Of the current reconciliation: the claims that it resolved, and its part of the cluster; None = everything.
        self._resolved: ResolvedClaims | None = None
        self._part: PartialReconciliation | None = None
        # Whether the records could be read in the current reconciliation; None = not tried.
        self._records_known: bool | None = None
        self._publisher = StatusPublisher(
            name,
            writes=context.writes,
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
        baseline, self._known = self._known, None
        # Until the fence ends, differences may be late writes of the previous leader: none counts as drift.
        self._is_fenced = self._context.fence_seconds() > 0
        result = await self._reconcile_once(obj, trigger, baseline)
        self._context.passed(result.report, len(set(chain(*result.losses.values()))))
        pending = await self._publisher.publish(result, everything=trigger.resync)
        if self._inventory.is_undisturbed and not self._is_fenced:
            self._known = known_state(
                result, self._resolved, self._inventory.recorded, before=self._part, pending=pending
            )
        self._resolved = self._part = None  # They refer to the state before this reconciliation.
        error = result.report.error
        if error is not None:
            return LoopOutcome(retry=error.retriable, note=str(error))
        return LoopOutcome(
            retry=bool(pending),
            note=pending,
            confirm=self._is_fenced or needs_confirmation(result.report),
            confirm_after=self._context.fence_seconds() if self._is_fenced else None,
        )

    async def _reconcile_once(
        self, obj: Obj, trigger: LoopTrigger, baseline: KnownState | None
    ) -> ReconcileResult:
        """Reconcile up to the point where the result can be published."""
        # Responses to the operator's writes have no defined order relative to watch events.
        is_reported = self._context.cache.take_changed(self._name).issubset(trigger.keys)
        baseline = baseline if is_reported and names_documents(trigger) else None
        self._part = self._resolved = None
        started = self._context.clock.now()
        cluster: QuotaCluster | None = None
        rules = Rules(policy=Policy.OBSERVE)
        behaves_as = ""
        used_eligibilities: Mapping[str, Eligibility] | None = None
        without_finalizer: frozenset[str] = frozenset()
        self._records_known = None
        try:
            cluster = read_cluster(obj, allow_references=self._context.settings.allow_references)
            judge = partial(self._judge_unreported, cluster)
            self._runner.window.resize(cluster.guard_window)
            store = await self._publisher.awaited(self._context.store_of(cluster), judge)
            answering = await self._publisher.awaited(store.cluster(), judge)
            behaves_as = answering.behaves_as
            self._context.check_manager(answering.id, self._name)
            expected = cluster.expected_cluster_id or pinned_id(obj) or answering.id
            if baseline is not None and expected == self._inventory.owned.cluster_id:
                changed = frozenset(trigger.keys)
                self._part = await self._partial(cluster, baseline, changed, store, answering)
            complete = bool(self._part) or await self._read_everything(trigger, expected, cluster)
            rules = cluster.rules(complete=complete)
            if self._context.settings.namespaces:
                rules = replace(rules, exclusive=False)  # This would need every namespace.
            used_eligibilities, without_finalizer = await self._hold(cluster, rules)
            part, judged = self._part, used_eligibilities
            if part is None:
                self._inventory.take_documents(_objects_of(judged))  # Some came after the records.
            else:
                judged = self._judge_part(part)
            resolved = self._resolved = resolve_desired_state(
                judged.values(),
                self._inventory.owned,
                waiting=without_finalizer,
                entities=None if part is None else part.entities,
            )
            options = self._options(cluster, expected, rules, resolved)
            ports = ReconcilePorts(
                store=store if part is None else part,
                inventory=self._inventory,
                clock=self._context.clock,
                audit=self._context.audit,
            )
            report = await self._publisher.awaited(
                self._runner.run(
                    ports,
                    options,
                    resolved.desired,
                    counts_drift=not self._is_fenced,
                    refuses_removals=partial(self._context.refuses_removals, self._name),
                ),
                judge,
            )
        except KquotaError as error:
            ended = self._context.clock.now()
            report = Reconciliation(
                cluster=self._name, error=error, started_at=started, ended_at=ended
            )
            expected_id = None if cluster is None else cluster.expected_cluster_id
            known_id = expected_id or pinned_id(obj) or self._inventory.recorded.cluster_id
            await self._read_records_of(known_id, cluster)
        if used_eligibilities is not None:
            eligibilities = self._as_compared(used_eligibilities)
        else:
            eligibilities = self._unusable() if cluster is None else self._eligibilities(cluster)
        losses: Losses = {} if self._resolved is None else self._resolved.losses
        if self._part is not None:
            report, losses = self._part.merged_report(report), self._part.merged_losses(losses)
        return ReconcileResult(
            obj=as_compared(obj, self._context.cache.clusters.get(self._name, obj)),
            cluster=cluster,
            rules=rules,
            report=report,
            losses=losses,
            is_partial=self._part is not None,
            eligibilities=eligibilities,
            without_finalizer=without_finalizer,
            records_known=self._records_known is not False,
            documents=self._context.cache.of(self._name),
            behaves_as=behaves_as,
            secret=self._context.secret_of(self._name),
            next_resync_at=trigger.next_resync_at,
        )

    async def _read_records(
        self, cluster_id: str, cluster: QuotaCluster | None
    ) -> OwnershipRecords:
        self._records_known = False
        owned = await self._inventory.refresh(cluster_id, cluster)
        self._records_known = True
        return owned

    async def _read_records_of(self, cluster_id: str, cluster: QuotaCluster | None) -> None:
        """Read the records after Kafka failed to answer: without records no document may be released."""
        if self._records_known is not None:
            return
        self._records_known = True
        if cluster_id:  # Otherwise no cluster ever answered, and nothing was applied.
            with contextlib.suppress(KquotaError):  # The first error is more helpful.
                _ = await self._read_records(cluster_id, cluster)

    def _as_compared(
        self, used_eligibilities: Mapping[str, Eligibility]
    ) -> Mapping[str, Eligibility]:
        """Return the documents as they were compared, with their current statuses, without those that were deleted since.

        Documents that were created, changed or deleted meanwhile are left to the next reconciliation: reporting them
        as in sync would be false, and releasing them would leave limits in Kafka that have to be removed.
        """
        present = self._context.cache.of(self._name)
        compared: dict[str, Eligibility] = {}
        for document, eligibility in used_eligibilities.items():
            obj = present.get(document)
            if obj is eligibility.obj:
                compared[document] = eligibility
            elif obj is not None and uid_of(obj) == uid_of(eligibility.obj):
                compared[document] = replace(eligibility, obj=as_compared(eligibility.obj, obj))
        return compared

    async def _partial(
        self,
        cluster: QuotaCluster,
        baseline: KnownState,
        changed: frozenset[str],
        store: QuotaStore,
        answering: Cluster,
    ) -> PartialReconciliation | None:
        """Return the part of the cluster that has to be reconciled; ``None`` if everything has to be.

        A partial reconciliation may remove limits without a listing: the deletion was reported by a watch of all
        documents, and every claim that was made before the deletion has been reported, too.
        """
        context = self._context
        if (
            baseline.cluster != cluster
            or self._is_fenced
            or not context.watch_order.is_kept()
            or any(map(context.cache.selects_clusters, changed))
        ):
            return None
        owned_entities = self._inventory.entities_of(changed)
        scope = self._index.scope(context.cache.of(self._name), cluster, changed, owned_entities)
        part = PartialReconciliation(store, answering, baseline, scope)
        if not part.is_describable:
            return None
        judged = self._judge_part(part)
        # At once: a document that ends from now on is left to the next reconciliation, with its last spec.
        self._inventory.narrow(part.entities, _objects_of(judged), deleted=scope.documents)
        if not await part.is_confirmed():
            return None
        self._records_known = True
        owned = self._inventory.owned
        resolved = resolve_desired_state(judged.values(), owned, entities=part.entities)
        if not might_remove(owned, resolved, cluster.rules().in_force):
            return part
        is_certain = await context.watch_order.is_certain()
        claimed = map(declared_entity, context.cache.changed(self._name))
        return part if is_certain and part.entities.isdisjoint(claimed) else None

    def _judge_part(self, part: PartialReconciliation) -> Mapping[str, Eligibility]:
        """Return all documents that the claims of a part depend on."""
        owners = self._inventory.owners_of(part.entities)
        return self._index.of(part.entities, owners | part.scope.documents)

    def _options(
        self, cluster: QuotaCluster, expected: str, rules: Rules, resolved: ResolvedClaims
    ) -> ReconcileOptions:
        part = self._part
        return ReconcileOptions(
            rules=rules,
            # Deleting the last document is intended; documents that are missing for another reason are not.
            guards=replace(cluster.guards, allow_empty=self._is_leaving()),
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

    def _is_leaving(self) -> bool:
        objects = self._context.cache.of(self._name)
        if not objects:
            return self._inventory.has_seen_deletion()
        part = self._part
        documents = objects.keys() if part is None else part.scope.documents & objects.keys()
        return any(is_terminating(objects[document]) for document in documents)

    def _eligibilities(self, cluster: QuotaCluster) -> Mapping[str, Eligibility]:
        """Return the eligibility of each document of this reconciliation."""
        objects = self._context.cache.of(self._name)
        if self._part is None:
            return self._index.judge_all(objects, cluster)
        return self._index.of((), self._part.scope.documents)

    def _judge_unreported(self, cluster: QuotaCluster) -> Iterator[Eligibility]:
        """Judge the documents without a status, one after the other."""
        documents = self._context.cache.of(self._name).values()
        without_status = [obj for obj in documents if not status_of(obj).get("conditions")]
        return (assess_eligibility(obj, {self._name: cluster}) for obj in without_status)

    def _unusable(self) -> Mapping[str, Eligibility]:
        """Return the documents of an invalid QuotaCluster: each reports this and freezes the limits that it owns."""
        return {
            document: assess_eligibility(obj, {}, unusable={self._name})
            for document, obj in self._context.cache.of(self._name).items()
        }

    async def _read_everything(
        self, trigger: LoopTrigger, cluster_id: str, cluster: QuotaCluster
    ) -> bool:
        """Read the records; return whether removals are allowed: only after a complete listing in this reconciliation.

        Listing costs ten requests for 5,000 documents, so it is done at resyncs and where something might be removed.
        """
        owned, rules = await self._read_records(cluster_id, cluster), cluster.rules()

        def settled() -> ResolvedClaims:
            return resolve_desired_state(self._eligibilities(cluster).values(), owned)

        if not trigger.resync and not might_remove(owned, settled(), rules.in_force):
            return False
        if complete := await self._context.list_everything(
            lambda: self._inventory.is_undisturbed and is_recorded(owned, settled(), rules)
        ):
            self._inventory.note_listing()
        return complete

    async def _hold(
        self, cluster: QuotaCluster, rules: Rules
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
            eligibilities = {**self._eligibilities(cluster), **eligibilities}
            present = self._context.cache.of(self._name)
            needing = {
                document: eligibility.obj
                for document, eligibility in eligibilities.items()
                if eligibility.claim is not None
                and not has_finalizer(present.get(document, {}))
                and finalizers.deletion_has_effect(
                    eligibility.claim.declaration.deletion_policy, rules.in_force
                )
            }
            if not needing or not tries_left:
                return eligibilities, frozenset(needing)
            _ = await self._context.writes.patches(
                (obj, finalizers.adding(obj))
                for document, judged in needing.items()
                if (obj := present.get(document)) is not None
                and uid_of(obj) == uid_of(judged)
                and not is_terminating(obj)
            )
        raise AssertionError("the last try returns")


def _objects_of(eligibilities: Mapping[str, Eligibility]) -> Mapping[str, Obj]:
    return {document: eligibility.obj for document, eligibility in eligibilities.items()}
