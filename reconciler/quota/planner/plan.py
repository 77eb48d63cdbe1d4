"""The plan and its parts: changes, findings, their digest, and the state after them.

Decides nothing: ``comparison.py`` compares, ``send_order.py`` orders, ``guards.py`` refuses.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from reconciler.quota.entity import Entity, parts, sort_key
from reconciler.quota.ip_aliases import IpAlias
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import Owner, RecordChange
from reconciler.quota.planner.desired_state import Declaration, DeclarationConflict
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import QuotaState

RESTRICTABLE = frozenset(
    {
        Cause.CREATE,
        Cause.TAKEOVER,
        Cause.SPEC,
        Cause.SPEC_OVER_DRIFT,
        Cause.PRUNE,
        Cause.OVERRIDE,
        Cause.OVERRIDE_EXPIRED,
    }
)
"""Causes that need a write: a finding with one of them was not written because the policy does not permit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """One pair to write.

    Attributes:
        entity: The entity.
        key: The quota key.
        before: Live value, ``None`` = not set.
        after: Value to set, ``None`` = remove. Differs from ``before``.
        cause: The row of the three-way table.
        claim: The declaration of the pair: it declares ``after``, or an override replaces it for now.
            ``None`` if no document declares the pair.
        owner: The owner after the change (or before, for a removal).
        applied: Value last applied, ``None`` = no record.
        note: Additional text for display, or "".
    """

    entity: Entity
    key: Key
    before: float | None
    after: float | None
    cause: Cause
    claim: Declaration | None = None
    owner: Owner | None = None
    applied: float | None = None
    note: str = ""

    @property
    def removes(self) -> bool:
        """Whether the pair is removed rather than set."""
        return self.after is None

    @property
    def action(self) -> str:
        """``create``, ``update`` or ``remove``."""
        if self.after is None:
            return "remove"
        return "create" if self.before is None else "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One pair that is reported and not written.

    Attributes:
        entity: The entity.
        key: The quota key.
        desired: The declared value.
        applied: The value applied last.
        live: The live value.
        cause: The row of the three-way table.
        action: ``REPORT``; ``RECORD`` or ``ORPHAN`` if the records change; ``NOTHING`` for an override that is
            active and live.
        claim: The declaration, if there is one.
        owner: The owner, if there is a record.
        since: For drift: when it was first seen, in seconds since the epoch.
        note: Additional text for display, or "".
        ignored: Whether an ignore rule covers it; ``note`` has its reason.
    """

    entity: Entity
    key: Key
    desired: float | None
    applied: float | None
    live: float | None
    cause: Cause
    action: Action
    claim: Declaration | None = None
    owner: Owner | None = None
    since: float | None = None
    note: str = ""
    ignored: bool = False


@dataclass(frozen=True, kw_only=True)  # without slots: the digest is cached
class Plan:
    """The changes, findings and record changes for one cluster.

    Attributes:
        cluster_id: The cluster.
        changes: The writes, by entity (level, names) and column.
        findings: Pairs that are only reported, in the same order.
        bookkeeping: Changes of the records that need no write to the broker.
        conflicts: Pairs that two documents claim.
        ip_aliases: Declared ip entities, and those to be set, whose address is live under another spelling.
        documents: Number of documents, frozen ones included.
        desired_pairs: Number of declared pairs.
        in_sync: Number of declared pairs that need no change.
        owned_pairs: Number of owned pairs before this plan.
        removals_known: Whether an inventory or a revision determines removals.
        complete: Whether every document was read.
    """

    cluster_id: str
    changes: tuple[QuotaChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    bookkeeping: tuple[RecordChange, ...] = ()
    conflicts: tuple[DeclarationConflict, ...] = ()
    ip_aliases: tuple[IpAlias, ...] = ()
    documents: int = 0
    desired_pairs: int = 0
    in_sync: int = 0
    owned_pairs: int = 0
    removals_known: bool = True
    complete: bool = True

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the effect: cluster id and operations only."""
        return effect_digest(self.cluster_id, self.changes)

    def findings_for(self, *causes: Cause) -> tuple[Finding, ...]:
        """Return the findings with these causes."""
        return tuple(finding for finding in self.findings if finding.cause in causes)

    @property
    def drift(self) -> tuple[Finding | QuotaChange, ...]:
        """Pairs that were changed outside kquota, reported or corrected; without ignored ones."""
        reported = tuple(
            finding for finding in self.findings_for(Cause.DRIFT) if not finding.ignored
        )
        return (*reported, *(change for change in self.changes if change.cause is Cause.DRIFT))

    @property
    def adopted(self) -> tuple[Finding, ...]:
        """Pairs whose live value is the declared one and not recorded yet: only the record is written."""
        return self.findings_for(Cause.ADOPT, Cause.CONVERGED)

    @property
    def unmanaged(self) -> tuple[Finding, ...]:
        """Live pairs that no document declares and kquota does not own."""
        return self.findings_for(Cause.UNMANAGED)

    @property
    def exclusive(self) -> tuple[QuotaChange, ...]:
        """Removals of pairs that are neither declared nor owned, which only an exclusive cluster allows."""
        return tuple(change for change in self.changes if change.cause is Cause.UNMANAGED)

    @property
    def orphans(self) -> tuple[Finding, ...]:
        """Owned pairs whose document was deleted and whose value stays."""
        return tuple(finding for finding in self.findings if finding.action is Action.ORPHAN)

    @property
    def ignored(self) -> tuple[Finding, ...]:
        """Differences that an ignore rule covers: neither written nor reported as a problem."""
        return tuple(finding for finding in self.findings if finding.ignored)

    @property
    def shadowing_ip_aliases(self) -> tuple[IpAlias, ...]:
        """IP aliases of declared entities that are not written: brokers may apply the alias instead of the declared entity."""
        written_entities = {change.entity for change in self.changes if not change.removes}
        return tuple(alias for alias in self.ip_aliases if alias.entity not in written_entities)

    @property
    def restricted(self) -> tuple[Finding, ...]:
        """Differences that the effective policy does not permit to write."""
        return tuple(
            finding
            for finding in self.findings
            if finding.action is Action.REPORT
            and finding.cause in RESTRICTABLE
            and not finding.ignored
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRemainder:
    """What a plan of some entities leaves out: the findings and counts of all others, which it does not change.

    Attributes:
        documents: Number of documents, frozen ones included.
        desired_pairs: Number of declared pairs.
        in_sync: Number of declared pairs that need no change.
        findings: Pairs that are only reported.
    """

    documents: int = 0
    desired_pairs: int = 0
    in_sync: int = 0
    findings: tuple[Finding, ...] = ()

    def added_to(self, plan: Plan) -> Plan:
        """Return the plan of some entities as one of the whole cluster."""
        return replace(
            plan,
            findings=(*plan.findings, *self.findings),
            documents=plan.documents + self.documents,
            desired_pairs=plan.desired_pairs + self.desired_pairs,
            in_sync=plan.in_sync + self.in_sync,
        )


def apply_to(state: QuotaState, changes: Iterable[QuotaChange]) -> QuotaState:
    """Return the state after these changes, for previews, impact and proofs."""
    return state.with_values((change.entity, change.key, change.after) for change in changes)


def effect_digest(cluster_id: str, changes: Iterable[QuotaChange]) -> str:
    """Return SHA-256 over cluster id and canonical operations: equal effects have equal digests, whatever the causes.

    It binds an approval to an effect; it is not a signature.
    """
    by_entity: dict[Entity, list[QuotaChange]] = {}
    for change in changes:
        by_entity.setdefault(change.entity, []).append(change)
    operations: list[tuple[object, Key, float | None]] = []
    for subject in sorted(by_entity, key=sort_key):
        entity_parts = parts(subject)
        operations += [
            (entity_parts, change.key, change.after)
            for change in sorted(by_entity[subject], key=lambda change: COLUMN_OF[change.key])
        ]
    text = json.dumps([cluster_id, operations], ensure_ascii=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
