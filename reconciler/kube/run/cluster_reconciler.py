"""One pass over one Kafka cluster as the operator makes it: listing, records, finalizers, the pass, and what it reports.

The loop makes one call at a time. Each compares everything; its trigger decides how much is listed and written again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from reconciler.app.loop import LoopOutcome, LoopTrigger, ReconcileRunner
from reconciler.app.loop.loop_outcome import needs_confirmation
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, InventoryLocked, KquotaError
from reconciler.kube.api.custom_resources import (
    FINALIZER_FIELDS,
    Obj,
    few_finalizers,
    generation_of,
    has_finalizer,
    is_terminating,
    request_state,
    status_of,
    uid_of,
)
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records import finalizers
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.removal_guard import might_remove
from reconciler.kube.status.eligibility import (
    Eligibility,
    assess_eligibility,
    cluster_problems,
    grounds_of,
    resolve_desired_state,
)
from reconciler.kube.status.publisher import StatusPublisher
from reconciler.kube.status.quota_cluster import SecretUse
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.ports import AuditLog, QuotaStore
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.claims import ResolvedClaims
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Reconciliation, RunOrigin
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, ValidationMode

PENDING_AFTER_SECONDS: Final = 10.0
"""A pass that takes longer lets documents without any status say that they are pending."""

HOLDING_TRIES: Final = 4
"""So often documents are looked through for some that need our finalizer; others may come while it is put on."""

_T = TypeVar("_T")


class SessionProvider(Protocol):
    """Connected clients by cluster. Implemented by ``session.SessionKeeper``."""

    async def for_(self, cluster: QuotaCluster) -> QuotaStore:
        """A client with the newest credentials that work.

        Raises:
            KquotaError: There is none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What the clusters of one operator share.

    Attributes:
        settings: As started.
        cache: What was seen.
        list_everything: Lists every watched namespace into the cache; whether nothing is missing.
        sessions: Clients.
        writes: The way to statuses, finalizers and events.
        clock: Time.
        audit: Where applies are noted.
        refuses_removals: ``refuses_removals(name, plan)``: why no removal of a plan may be made now; "" = nothing is against it.
        fenced: Whether writes of an earlier leader may still land.
        looks_after: ``looks_after(cluster id, name)``: the name of the QuotaCluster that looks after a Kafka cluster.
        secret_of: The credentials of a cluster's session, for its status.
        passed: Called with each pass and with how many limits are asked for twice, for metrics.
    """

    settings: OperatorSettings
    cache: ResourceCache
    list_everything: Callable[[], Awaitable[bool]]
    sessions: SessionProvider
    writes: ResourceWriter
    clock: Clock
    audit: AuditLog
    refuses_removals: Callable[[str, Plan], Awaitable[str]]
    fenced: Callable[[], bool]
    looks_after: Callable[[str, str], str]
    secret_of: Callable[[str], SecretUse | None]
    passed: Callable[[Reconciliation, int], None]


class ClusterReconciler:
    """The work of one cluster's loop.

    Args:
        name: Of the QuotaCluster.
        around: What all clusters share.
        inventory: The records of this cluster.
        passes: Runs passes and remembers the ones before.
    """

    def __init__(
        self,
        name: str,
        context: OperatorContext,
        *,
        inventory: KubeInventory,
        passes: ReconcileRunner,
    ) -> None:
        self._name, self._context = name, context
        self._inventory, self._passes = inventory, passes
        self._known_eligibilities: dict[str, tuple[tuple[object, ...], Eligibility]] = {}
        # Of the pass under way: the QuotaCluster's generation, and whether the records could be read; None = not tried.
        self._generation = 0
        self._records_known: bool | None = None
        self._publisher = StatusPublisher(
            name,
            writes=context.writes,
            inventory=inventory,
            clock=context.clock,
            deletion_timeout=context.settings.deletion_timeout,
        )

    async def __call__(self, wake: LoopTrigger) -> LoopOutcome:
        """One pass; what a cluster, a document or the API server did wrong is reported in statuses.

        Raises:
            KquotaError: The records could not be read or written; the loop tries again.
        """
        obj = self._context.cache.clusters.get(self._name)
        if obj is None:
            return LoopOutcome(note="there is no such QuotaCluster any more")
        result = await self._reconcile_once(obj, wake)
        lost_pairs = {pair for pairs in result.settled.losses.values() for pair in pairs}
        self._context.passed(result.report, len(lost_pairs))
        pending = await self._publisher.publish(result, everything=wake.resync)
        error = result.report.error
        if error is not None:
            return LoopOutcome(retry=error.retriable, note=str(error))
        # While writes of an earlier leader may land nothing is confirmed.
        confirm = not self._context.fenced() and needs_confirmation(result.report)
        return LoopOutcome(retry=bool(pending), note=pending, confirm=confirm)

    async def _reconcile_once(self, obj: Obj, wake: LoopTrigger) -> ReconcileResult:
        """Everything up to the end of the pass."""
        started = self._context.clock.now()
        cluster: QuotaCluster | None = None
        rules = Rules(policy=Policy.OBSERVE)
        behaves_as = ""
        used_eligibilities: Mapping[str, Eligibility] | None = None
        unheld: frozenset[str] = frozenset()
        self._generation, self._records_known = generation_of(obj), None
        try:
            cluster = self._configured(obj)
            self._passes.window.resize(cluster.guard_window)
            store = await self._await_with_status(cluster, self._context.sessions.for_(cluster))
            answering = await self._await_with_status(cluster, store.cluster())
            behaves_as = answering.behaves_as
            self._check_sole_manager(answering.id)
            expected = cluster.expected_cluster_id or _pinned(obj) or answering.id
            owned = await self._read_records(expected, cluster)
            complete = await self._complete(wake, owned, cluster)
            if complete:
                _ = self._inventory.reload_from_cache(complete=True)
            orders = self._orders(cluster, expected, complete=complete)
            rules = orders.rules
            used_eligibilities, unheld = await self._hold(cluster, rules)
            if self._context.cache.has_departed(self._name):
                _ = self._inventory.reload_from_cache()
            # Some of them came after the records were read.
            self._inventory.take_documents(
                {document: judged.obj for document, judged in used_eligibilities.items()}
            )
            settled = self._gathered(used_eligibilities, unheld)
            ports = ReconcilePorts(
                store=store,
                inventory=self._inventory,
                clock=self._context.clock,
                audit=self._context.audit,
            )
            report = await self._await_with_status(
                cluster,
                self._passes.run(
                    ports,
                    orders,
                    settled.desired,
                    counts_drift=not self._context.fenced(),
                    refuses_removals=partial(self._context.refuses_removals, self._name),
                ),
            )
        except KquotaError as error:
            ended = self._context.clock.now()
            report = Reconciliation(
                cluster=self._name, error=error, started_at=started, ended_at=ended
            )
            await self._read_records_of(_known_id(obj, cluster), cluster)
        if used_eligibilities is not None:
            eligibilities = self._as_compared(used_eligibilities)
        else:
            eligibilities = self._unusable() if cluster is None else self._eligibilities(cluster)
        return ReconcileResult(
            obj=as_compared(obj, self._context.cache.clusters.get(self._name, obj)),
            cluster=cluster,
            rules=rules,
            report=report,
            settled=self._gathered(eligibilities, unheld),
            eligibilities=eligibilities,
            unheld=unheld,
            records_known=self._records_known is not False,
            documents=self._context.cache.of(self._name),
            behaves_as=behaves_as,
            secret=self._context.secret_of(self._name),
        )

    # ---- the words of it ---------------------------------------------------------------------

    async def _read_records(
        self, cluster_id: str, cluster: QuotaCluster | None
    ) -> OwnershipRecords:
        self._records_known = False
        owned = await self._inventory.refresh(cluster_id, cluster)
        self._records_known = True
        return owned

    async def _read_records_of(self, cluster_id: str | None, cluster: QuotaCluster | None) -> None:
        """The records, where Kafka does not answer: without them no document may be released."""
        if self._records_known is not None:
            return
        self._records_known = True
        if cluster_id is not None:  # Else no cluster ever answered, and nothing was applied.
            with contextlib.suppress(KquotaError):  # Why the pass ended is more telling.
                _ = await self._read_records(cluster_id, cluster)

    def _as_compared(
        self, used_eligibilities: Mapping[str, Eligibility]
    ) -> Mapping[str, Eligibility]:
        """The documents as the pass knew them, with the statuses that they have by now; those that are gone left out.

        What came, changed or was deleted meanwhile is the next pass's: to say that it is in order would be a lie, and
        to release it would leave behind what was to be removed.
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

    def _gathered(
        self, eligibilities: Mapping[str, Eligibility], unheld: frozenset[str]
    ) -> ResolvedClaims:
        """What all documents together ask for."""
        return resolve_desired_state(eligibilities.values(), self._inventory.owned, waiting=unheld)

    def _configured(self, obj: Obj) -> QuotaCluster:
        problems = cluster_problems(obj, allow_references=self._context.settings.allow_references)
        if problems:
            raise ConfigError(
                f"QuotaCluster {self._name} cannot be used: {'; '.join(problems)}",
                hint="correct its spec",
            )
        return from_spec(self._name, obj["spec"])

    def _check_sole_manager(self, cluster_id: str) -> None:
        first = self._context.looks_after(cluster_id, self._name)
        if first != self._name:
            raise InventoryLocked(
                f"Kafka cluster {cluster_id} is looked after by another QuotaCluster already",
                hint="delete one of the two: they would fight over every limit",
            )

    def _orders(self, cluster: QuotaCluster, expected: str, *, complete: bool) -> ReconcileOptions:
        rules = cluster.rules(complete=complete)
        if self._context.settings.namespaces:
            # Removing what no document declares requires a look at every namespace.
            rules = replace(rules, exclusive=False)
        return ReconcileOptions(
            rules=rules,
            # Deleting the last document is intended; documents that are just not there are another thing.
            guards=replace(cluster.guards, allow_empty=self._is_leaving()),
            expected_cluster_id=expected,
            validation=ValidationMode.NONE,
            assess=False,
            origin=RunOrigin(
                author=f"operator {self._context.settings.identity}", cluster=self._name
            ),
        )

    def _is_leaving(self) -> bool:
        documents = self._context.cache.of(self._name)
        if not documents:
            return self._inventory.has_seen_deletion()
        return any(is_terminating(obj) for obj in documents.values())

    def _eligibilities(self, cluster: QuotaCluster) -> Mapping[str, Eligibility]:
        """What each document may ask for; worked out again only where it or the cluster changed."""
        generation = self._generation
        known_eligibilities: dict[str, tuple[tuple[object, ...], Eligibility]] = {}
        for document, obj in self._context.cache.of(self._name).items():
            previous = self._known_eligibilities.get(document)
            if previous is not None and previous[1].obj is obj and previous[0][-1] == generation:
                known_eligibilities[document] = previous
                continue
            token = (*grounds_of(obj), generation)
            if previous is None or previous[0] != token:
                known_eligibilities[document] = (
                    token,
                    assess_eligibility(obj, {self._name: cluster}),
                )
            else:
                known_eligibilities[document] = token, replace(previous[1], obj=obj)
        self._known_eligibilities = known_eligibilities
        return {document: eligibility for document, (_, eligibility) in known_eligibilities.items()}

    def _unusable(self) -> Mapping[str, Eligibility]:
        """The documents of a QuotaCluster that cannot be used: each says so and freezes what it owns."""
        return {
            document: assess_eligibility(obj, {}, unusable={self._name})
            for document, obj in self._context.cache.of(self._name).items()
        }

    async def _complete(
        self, wake: LoopTrigger, owned: OwnershipRecords, cluster: QuotaCluster
    ) -> bool:
        """Whether removals may be made: only after a complete listing in this very pass.

        Listing costs ten requests for 5,000 documents, so it is done at resyncs and where something might be removed.
        """
        if not wake.resync and not might_remove(
            owned, resolve_desired_state(self._eligibilities(cluster).values(), owned)
        ):
            return False
        return await self._context.list_everything()

    async def _hold(
        self, cluster: QuotaCluster, rules: Rules
    ) -> tuple[Mapping[str, Eligibility], frozenset[str]]:
        """Our finalizer on every document whose deletion will have an effect, before anything is sent for it.

        Returns:
            The documents of this pass, without any that came while others were held and was not held. And
            those that could not be held: their deletion would go unseen, so nothing is written for them.
        """
        for tries_left in reversed(range(HOLDING_TRIES)):
            eligibilities = self._eligibilities(cluster)
            needing = {
                document: eligibility.obj
                for document, eligibility in eligibilities.items()
                if eligibility.claim is not None
                and not has_finalizer(eligibility.obj)
                and finalizers.deletion_has_effect(
                    eligibility.claim.declaration.deletion_policy, rules.in_force
                )
            }
            if not needing or not tries_left:
                return eligibilities, frozenset(needing)
            _ = await self._context.writes.patches(
                (obj, finalizers.adding(obj)) for obj in needing.values()
            )
        raise AssertionError("the last try returns")

    async def _await_with_status(self, cluster: QuotaCluster, work: Awaitable[_T]) -> _T:
        """The result of some work; meanwhile no document is left without any status for long."""
        task = asyncio.ensure_future(work)
        try:
            done_tasks, _ = await asyncio.wait({task}, timeout=PENDING_AFTER_SECONDS)
            if not done_tasks:
                await self._publisher.pending(self._eligibilities(cluster))
            return await task
        finally:
            if not task.done():
                _ = task.cancel()
                _ = await asyncio.wait({task})


def _pinned(obj: Obj) -> str | None:
    """The id of the cluster that answered first: another one is not to be written to by mistake."""
    cluster_id = status_of(obj).get("clusterId")
    return cluster_id if isinstance(cluster_id, str) else None


def _known_id(obj: Obj, cluster: QuotaCluster | None) -> str | None:
    """The id of the cluster as far as it is known without asking."""
    return (cluster.expected_cluster_id if cluster is not None else None) or _pinned(obj)


def as_compared(before: Obj, now: Obj) -> Obj:
    """An object as a pass knew it, with the status and the finalizers that it has by now."""
    if before is now or request_state(before) == request_state(now):
        return now
    metadata = {
        key: field_value
        for key, field_value in before["metadata"].items()
        if key not in FINALIZER_FIELDS
    }
    metadata |= few_finalizers(now["metadata"])
    return {**before, "metadata": metadata, "status": status_of(now)}
