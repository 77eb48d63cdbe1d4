"""What a plan consists of: changes, findings, and the plan itself. Values, their digest, and what they do to a state.

Nothing is decided here: ``plan.py`` compares, ``send_order.py`` orders, ``guards.py`` refuses.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
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
"""Causes that ask for a write: reported with one of them, a pair was not written because the policy says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """One pair that is to be written.

    Attributes:
        entity: Whose quota.
        key: Which key.
        before: Live value, ``None`` = not set.
        after: Value to set, ``None`` = remove. Differs from ``before``.
        cause: Why, as the row of the three-way table.
        claim: The declaration that speaks of the pair: it asks for ``after``, or is what an override replaces
            meanwhile. ``None`` where no document declares the pair.
        owner: Whose the pair is afterwards (or was, for a removal).
        applied: Value last applied, ``None`` = no record.
        note: More for people, or "".
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
        entity: Whose quota.
        key: Which key.
        desired: What documents ask for.
        applied: What we applied last.
        live: What the broker has.
        cause: Why it is here.
        action: ``REPORT``; ``RECORD`` or ``ORPHAN`` where the records change; ``NOTHING`` for an override that is
            in force and live.
        claim: The declaration, where there is one.
        owner: Whose it is, where there is a record.
        since: For drift: when it was first seen, in seconds since the epoch.
        note: More for people, or "".
        ignored: Whether an ignore rule acts on it; ``note`` has its reason.
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
    """What is to be done to one cluster, and everything that was seen on the way.

    Attributes:
        cluster_id: Which cluster.
        changes: What is to be written, by entity (level, names) and column.
        findings: What is reported, in the same order.
        bookkeeping: Changes of the records that need no write to the broker.
        conflicts: Pairs that two documents claim.
        ip_aliases: Declared ip entities, and those that are to be set, whose address is live under another spelling.
        documents: How many documents there are, frozen ones included.
        desired_pairs: How many pairs documents ask for.
        in_sync: How many of them need nothing.
        owned_pairs: How many pairs we own before this plan.
        removals_known: Whether there was an inventory or a revision that removals follow from.
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
        """What identifies the effect: cluster id and operations, nothing else."""
        return effect_digest(self.cluster_id, self.changes)

    def findings_for(self, *causes: Cause) -> tuple[Finding, ...]:
        """The findings with these causes."""
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
        """Pairs that are live as declared and not on record yet: nothing is written for them but the record."""
        return self.findings_for(Cause.ADOPT, Cause.CONVERGED)

    @property
    def unmanaged(self) -> tuple[Finding, ...]:
        """Live pairs that no document declares and we do not own."""
        return self.findings_for(Cause.UNMANAGED)

    @property
    def exclusive(self) -> tuple[QuotaChange, ...]:
        """Removals of what no document declares and we never owned, which only an exclusive cluster allows."""
        return tuple(change for change in self.changes if change.cause is Cause.UNMANAGED)

    @property
    def orphans(self) -> tuple[Finding, ...]:
        """Pairs of ours whose document is gone and whose value stays."""
        return tuple(finding for finding in self.findings if finding.action is Action.ORPHAN)

    @property
    def ignored(self) -> tuple[Finding, ...]:
        """Differences that an ignore rule keeps us from writing and from complaining about."""
        return tuple(finding for finding in self.findings if finding.ignored)

    @property
    def shadowing_ip_aliases(self) -> tuple[IpAlias, ...]:
        """Twins of entities that are not written: brokers may apply the twin in place of what is declared."""
        written_entities = {change.entity for change in self.changes if not change.removes}
        return tuple(alias for alias in self.ip_aliases if alias.entity not in written_entities)

    @property
    def restricted(self) -> tuple[Finding, ...]:
        """Differences that the policy in force does not let us write."""
        return tuple(
            finding
            for finding in self.findings
            if finding.action is Action.REPORT
            and finding.cause in RESTRICTABLE
            and not finding.ignored
        )


def apply_to(state: QuotaState, changes: Iterable[QuotaChange]) -> QuotaState:
    """The state after these changes, for proofs, previews and impact."""
    return state.with_values((change.entity, change.key, change.after) for change in changes)


def effect_digest(cluster_id: str, changes: Iterable[QuotaChange]) -> str:
    """SHA-256 over cluster id and canonical operations: equal effects have equal digests, whatever the reasons.

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
