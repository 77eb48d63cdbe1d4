"""The plan and its parts: changes, findings, their digest, and the state after them.

Decides nothing: ``comparison.py`` compares, ``send_order.py`` orders, ``guards.py`` refuses.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from reconciler.quota.entity import Entity, parts, sort_key
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import Owner, Pair, RecordChange
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
    """One pair to write."""

    entity: Entity
    key: Key
    before: float | None  # live value, None = not set
    after: float | None  # value to set, None = remove. Differs from `before`.
    cause: Cause  # the row of the three-way table
    # The declaration of the pair: it declares `after`, or an override replaces it for now. None if no document
    # declares the pair.
    claim: Declaration | None = None
    owner: Owner | None = None  # the owner after the change (or before, for a removal)
    applied: float | None = None  # value last applied, None = no record
    note: str = ""  # additional text for display, or ""
    # Whether the document stays the owner of a value that an override replaced.
    keeps_owner: bool = False

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key

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
    """One pair that is reported and not written."""

    entity: Entity
    key: Key
    desired: float | None  # the declared value
    applied: float | None  # the value applied last
    live: float | None  # the live value
    cause: Cause  # the row of the three-way table
    # `REPORT`; `RECORD` or `ORPHAN` if the records change; `NOTHING` for an override that is active and live.
    action: Action
    claim: Declaration | None = None  # the declaration, if there is one
    owner: Owner | None = None  # the owner, if there is a record
    since: float | None = None  # for drift: when it was first seen, in seconds since the epoch
    note: str = ""  # additional text for display, or ""
    ignored: bool = False  # whether an ignore rule covers it; `note` has its reason
    # For an orphan: whether its document is deleted, and no earlier run recorded that.
    is_new: bool = False

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key


@dataclass(frozen=True, kw_only=True)  # without slots: the digest is cached
class Plan:
    """The changes, findings and record changes for one cluster."""

    cluster_id: str
    changes: tuple[QuotaChange, ...] = ()  # the writes, by entity (level, names) and column
    findings: tuple[Finding, ...] = ()  # pairs that are only reported, in the same order
    # Changes of the records that need no write to the broker.
    bookkeeping: tuple[RecordChange, ...] = ()
    conflicts: tuple[DeclarationConflict, ...] = ()  # pairs that two documents claim
    documents: int = 0  # number of documents, frozen ones included
    desired_pairs: int = 0  # number of declared pairs
    in_sync: int = 0  # number of declared pairs that need no change
    owned_pairs: int = 0  # number of owned pairs before this plan
    removals_known: bool = True  # whether an inventory or a revision determines removals
    complete: bool = True  # whether every document was read

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
    """What a plan of some entities leaves out: the findings and counts of all others, which it does not change."""

    documents: int = 0  # number of documents, frozen ones included
    desired_pairs: int = 0  # number of declared pairs
    in_sync: int = 0  # number of declared pairs that need no change
    findings: tuple[Finding, ...] = ()  # pairs that are only reported

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
