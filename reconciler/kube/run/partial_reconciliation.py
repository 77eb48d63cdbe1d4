"""Partial reconciliations: the entities of changed documents alone, with counts and findings for all others.

The steps are those of a complete reconciliation. Their input is smaller: the claims, records and quotas of the changed
entities and of those that guards look at for them. The result equals that of a complete one if nothing was open for
all other entities: no difference that waits for time, a second observation, a guard or a retry. Otherwise, and after
each resync, the next reconciliation is complete.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.kube.status.eligibility import ReconcileScope
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import ForwardingStore, QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import Losses, ResolvedClaims
from reconciler.quota.planner.effects import candidates_by_client
from reconciler.quota.planner.plan import TEMPORARY, Finding, PlanRemainder
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import Reconciliation
from reconciler.quota.state import (
    ALL,
    NO_LIMITS,
    Cluster,
    ClusterDescription,
    Filter,
    Limits,
    QuotaState,
    exactly,
)

MOST_DESCRIBED: Final = 64
"""Maximum number of entities that are described one by one; for more one describe of all costs less."""

_OPEN_CAUSES: Final = TEMPORARY | {Cause.DRIFT}
"""Differences whose meaning changes with time."""


class KnownState(Struct, frozen=True, kw_only=True):
    """The state after a reconciliation, on which the next one may rely."""

    cluster: QuotaCluster
    live: QuotaState  # the quotas in Kafka
    limits: Mapping[Entity, Limits]  # the declared limits
    documents: frozenset[str]  # every document that exists, frozen ones included
    losses: Losses  # the pairs that documents declare and lose
    desired_pairs: int  # number of declared pairs
    # Pairs that are reported and not written, also by the next reconciliation, to which none is new.
    findings: tuple[Finding, ...]


def known_state(
    result: ReconcileResult,
    resolved: ResolvedClaims | None,
    owned: OwnershipRecords,
    *,
    before: "PartialReconciliation | None",
    pending: str,
) -> KnownState | None:
    """Return what a partial reconciliation may rely on; ``None`` if the next one has to be complete.

    Args:
        result: The result of the reconciliation.
        resolved: The claims that it resolved.
        owned: All records after it.
        before: Set if the reconciliation was partial.
        pending: What could not be done yet, as a sentence; "" = nothing.
    """
    report = result.report
    if pending or not report.in_order or report.preview is None or report.live is None:
        return None
    if result.cluster is None or resolved is None or result.cluster.guards.budgets:
        return None  # A budget counts the limits of all entities.
    plan = report.preview.plan
    is_waiting = (
        report.waiting
        or report.observations
        or report.expired_overrides
        or report.has_restored_owned
    )
    is_unsettled = owned.intents or owned.overrides or owned.drift_since
    if is_waiting or is_unsettled or result.unexplained or any(map(_is_open, plan.findings)):
        return None
    limits, documents = resolved.desired.limits, resolved.desired.documents
    return KnownState(
        cluster=result.cluster,
        live=report.live,
        limits=limits if before is None else before.merged_limits(limits),
        documents=documents if before is None else before.merged_documents(documents),
        losses=result.losses,
        desired_pairs=plan.desired_pairs,
        findings=tuple(
            replace(item, is_new=False) if item.is_new else item
            for item in plan.findings
            if item.action is not Action.RECORD
        ),
    )


def _is_open(finding: Finding) -> bool:
    """Whether a difference may have to be handled in another way later, although no document changes."""
    is_removal_open = finding.cause in {Cause.PRUNE, Cause.GONE} and finding.action is Action.REPORT
    return finding.cause in _OPEN_CAUSES or finding.ignored or is_removal_open


def names_documents(trigger: LoopTrigger) -> bool:
    """Whether changed documents are the only reason for a reconciliation.

    The key of a document contains a slash; other keys are names of QuotaClusters and Secrets, and listings.
    """
    is_complete = trigger.everything or trigger.resync or trigger.retry
    return bool(trigger.keys) and not is_complete and all("/" in key for key in trigger.keys)


class PartialReconciliation(ForwardingStore):
    """The part of a cluster that one reconciliation is about, and its store.

    Args:
        store: The store of the cluster.
        cluster: Id and brokers of the cluster.
        baseline: The state after the last reconciliation.
        scope: The documents and entities that may be written.

    Attributes:
        scope: See above.
        entities: The entities that are compared: those of the scope, and those that their clients can fall back to.
    """

    def __init__(
        self, store: QuotaStore, cluster: Cluster, baseline: KnownState, scope: ReconcileScope
    ) -> None:
        self.scope = scope
        self.entities = frozenset(
            candidate
            for entity in scope.entities
            for wider_entities in candidates_by_client(entity)
            for candidate in (entity, *wider_entities)
        )
        super().__init__(store)
        self._cluster, self._baseline = cluster, baseline
        # What the confirmation described, for one observation.
        self._confirmed: QuotaState | None = None

    # ---- the state of the cluster -----------------------------------------------------------------

    async def is_confirmed(self, at_risk: Collection[Entity]) -> bool:
        """Whether the entities are unchanged in Kafka, and have what the clients of removed limits may fall back to.

        A client of a limit without a named client-id may have any, and so fall back to the limit of any client-id.

        Args:
            at_risk: Entities of which something might be removed.

        Raises:
            ClientError: The cluster cannot be queried.
        """
        if any(not isinstance(entity[1], str) for entity in at_risk) and any(
            isinstance(entity[1], str)
            for entity in self._baseline.live.limits
            if entity not in self.entities
        ):
            return False
        current, earlier = await self._described(self.entities), self._baseline.live
        self._confirmed = current
        return all(
            earlier.limits.get(entity) == current.limits.get(entity)
            and earlier.foreign_values.get(entity) == current.foreign_values.get(entity)
            for entity in self.entities
        )

    async def cluster(self) -> Cluster:
        """Return id and brokers of the cluster."""
        return self._cluster

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """Return the quotas of the entities: the confirmed ones the first time, later the present ones."""
        del scram_users
        quotas, self._confirmed = self._confirmed, None
        if quotas is None:
            quotas = await self._described(self.entities)
        return ClusterDescription(cluster=self._cluster, quotas=quotas, scram_users=frozenset())

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """Return the present quotas of the scope if ``filter_`` matches everything, else query the cluster."""
        if filter_ != ALL or node is not None:
            return await self._store.describe(filter_, node=node)
        return await self._described(self.scope.entities)

    async def _described(self, entities: Collection[Entity]) -> QuotaState:
        """Describe entities: few concurrently, one filter for each, and many among all."""
        filters = map(exactly, entities) if len(entities) <= MOST_DESCRIBED else [ALL]
        states = await asyncio.gather(*map(self._store.describe, filters))
        return QuotaState(
            limits={
                entity: limits
                for state in states
                for entity, limits in state.limits.items()
                if entity in entities
            },
            foreign_values={
                entity: values
                for state in states
                for entity, values in state.foreign_values.items()
                if entity in entities
            },
        )

    # ---- the rest of the cluster ------------------------------------------------------------------

    def remainder(self, resolved: ResolvedClaims) -> PlanRemainder:
        """Return the findings and counts of all other entities.

        Args:
            resolved: The resolved claims of the entities.
        """
        baseline, documents = self._baseline, resolved.desired.documents
        findings = tuple(item for item in baseline.findings if item.entity not in self.entities)
        pairs = baseline.desired_pairs - sum(
            sum(value is not None for value in baseline.limits.get(entity, NO_LIMITS))
            for entity in self.entities
        )
        return PlanRemainder(
            documents=len(self.merged_documents(documents)) - len(documents),
            desired_pairs=pairs,
            in_sync=pairs - sum(finding.desired is not None for finding in findings),
            findings=findings,
        )

    def merged_report(self, report: Reconciliation) -> Reconciliation:
        """Return the reconciliation with the quotas of the whole cluster."""
        if report.live is None:
            return report
        earlier, live = self._baseline.live, report.live
        return replace(
            report,
            live=QuotaState(
                limits=_merged(earlier.limits, self.entities, live.limits),
                foreign_values=_merged(earlier.foreign_values, self.entities, live.foreign_values),
                foreign_entities=earlier.foreign_entities,
            ),
        )

    def merged_limits(self, limits: Mapping[Entity, Limits]) -> Mapping[Entity, Limits]:
        """Return the declared limits of the whole cluster."""
        return _merged(self._baseline.limits, self.entities, limits)

    def merged_documents(self, documents: frozenset[str]) -> frozenset[str]:
        """Return all documents of the cluster."""
        return self._baseline.documents - self.scope.documents | documents

    def merged_losses(self, losses: Losses) -> Losses:
        """Return the losses of all documents."""
        return _merged(self._baseline.losses, self.scope.documents, losses)


_K = TypeVar("_K")
_V = TypeVar("_V")


def _merged(
    earlier: Mapping[_K, _V], keys: Collection[_K], current: Mapping[_K, _V]
) -> Mapping[_K, _V]:
    """Return a mapping whose items of some keys are replaced by the present ones."""
    merged = dict(earlier)
    for key in keys:
        _ = merged.pop(key, None)
    merged.update(current)
    return merged
