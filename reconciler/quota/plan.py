"""The three-way comparison: what documents ask for, what we applied last, what is live -> changes, reports, records.

    D desired, L last applied (or intended), V live; "=" as :func:`~reconciler.quota.keys.same_value` says

    D = L = V            InSync            D, no L, no V        Create
    D = V, no L          Adopt             D, no L, V other     Takeover
    D other, V = L       Spec              V = D, L other       Converged
    D = L, V other       Drift             D, L, V all differ   SpecOverDrift
    no D, V = L          Prune             no D, V other than L ChangedByAnother
    no D, L, no V        Gone              no D, no L, V        Unmanaged
    D frozen             Frozen

The rows exclude each other. Everything in a plan is sorted here, once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.quota.desired import Conflict, Declaration, Desired
from reconciler.quota.entity import DEFAULT, Entity, parts, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, same_value
from reconciler.quota.owned import (
    NO_RECORD,
    DriftSeen,
    Dropped,
    Intent,
    IntentEnded,
    Orphaned,
    OverrideEnded,
    Owned,
    Owner,
    Pair,
    RecordChange,
    Recorded,
)
from reconciler.quota.policy import Action, Cause, DeletionPolicy, Fate, Rules
from reconciler.quota.state import NO_LIMITS, State
from reconciler.quota.twins import Twin, find_twins


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One pair that is to be written.

    Attributes:
        entity: Whose quota.
        key: Which key.
        before: Live value, ``None`` = not set.
        after: Value to set, ``None`` = remove. Differs from ``before``.
        cause: Why, as the row of the three-way table.
        claim: The declaration that asks for ``after``; ``None`` for removals and overrides.
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
        action: ``REPORT``, ``RECORD`` or ``ORPHAN``.
        claim: The declaration, where there is one.
        owner: Whose it is, where there is a record.
        since: For drift: when it was first seen, in seconds since the epoch.
        note: More for people, or "".
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done to one cluster, and everything that was seen on the way.

    Attributes:
        cluster_id: Which cluster.
        changes: What is to be written, by entity (level, names) and column.
        findings: What is reported, in the same order.
        bookkeeping: Changes of the records that need no write to the broker.
        conflicts: Pairs that two documents claim.
        twins: Desired ip entities whose address is live under another spelling.
        desired_pairs: How many pairs documents ask for.
        in_sync: How many of them need nothing.
        owned_pairs: How many pairs we own before this plan.
        removals_known: Whether there was anything to tell removals from.
        complete: Whether every document was read.
    """

    cluster_id: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    bookkeeping: tuple[RecordChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    twins: tuple[Twin, ...] = ()
    desired_pairs: int = 0
    in_sync: int = 0
    owned_pairs: int = 0
    removals_known: bool = True
    complete: bool = True

    @property
    def digest(self) -> str:
        """What identifies the effect: cluster id and operations, nothing else."""
        return effect_digest(self.cluster_id, self.changes)

    def found(self, *causes: Cause) -> tuple[Finding, ...]:
        """The findings with these causes."""
        return tuple(finding for finding in self.findings if finding.cause in causes)

    @property
    def drift(self) -> tuple[Finding | Change, ...]:
        """Pairs that somebody changed behind our back, whether they are corrected or only reported."""
        corrected = tuple(change for change in self.changes if change.cause is Cause.DRIFT)
        return (*self.found(Cause.DRIFT), *corrected)

    @property
    def unmanaged(self) -> tuple[Finding, ...]:
        """Live pairs that nobody declares and we do not own."""
        return self.found(Cause.UNMANAGED)

    @property
    def orphans(self) -> tuple[Finding, ...]:
        """Pairs of ours whose document is gone and whose value stays."""
        return tuple(finding for finding in self.findings if finding.action is Action.ORPHAN)

    @property
    def restricted(self) -> tuple[Finding, ...]:
        """Differences that the policy in force does not let us write."""
        return self.found(
            Cause.CREATE, Cause.TAKEOVER, Cause.SPEC, Cause.SPEC_OVER_DRIFT, Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED
        )  # fmt: skip


NOTE_INCOMPLETE: Final = "not every document was read, so nothing is removed"


def compare(*, desired: Desired, owned: Owned, live: State, rules: Rules, now: float = 0.0) -> Plan:
    """The plan for one cluster.

    Args:
        desired: All documents; must be free of conflicts before its changes are applied in git mode.
        owned: The records of this cluster.
        live: What the cluster has, from one describe.
        rules: Policy, drift mode, scope and the rest, from the trusted side.
        now: Seconds since the epoch, for overrides, ignore rules and drift times.
    """
    comparison = _Comparison(desired=desired, owned=owned, live=live, rules=rules, now=now)
    comparison.run()
    return comparison.plan()


def classify(
    key: Key, desired: float | None, applied: float | None, live: float | None
) -> Cause | None:
    """The one row of the table that three values fall into; ``None`` where there is nothing at all."""
    if desired is None:
        return _undeclared(key, applied, live)
    if applied is None:
        if live is None:
            return Cause.CREATE
        return Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER
    if same_value(key, desired, live):
        return Cause.IN_SYNC if same_value(key, desired, applied) else Cause.CONVERGED
    if same_value(key, desired, applied):
        return Cause.DRIFT
    return Cause.SPEC if same_value(key, live, applied) else Cause.SPEC_OVER_DRIFT


def _undeclared(key: Key, applied: float | None, live: float | None) -> Cause | None:
    if applied is None:
        return None if live is None else Cause.UNMANAGED
    if live is None:
        return Cause.GONE
    return Cause.PRUNE if same_value(key, live, applied) else Cause.CHANGED_BY_ANOTHER


def effective_applied(
    key: Key, applied: float | None, intent: Intent | None, live: float | None
) -> float | None:
    """What counts as last applied: a live value that was intended counts as applied (a crash lost the record)."""
    if intent is None or intent.value is None or not same_value(key, intent.value, live):
        return applied
    return intent.value


class _Comparison:
    """One comparison under way. The loop touches only what is not plainly in sync."""

    def __init__(
        self, *, desired: Desired, owned: Owned, live: State, rules: Rules, now: float
    ) -> None:
        self.desired, self.owned, self.live, self.rules, self.now = desired, owned, live, rules, now
        self.changes: list[Change] = []
        self.findings: list[Finding] = []
        self.bookkeeping: list[RecordChange] = []
        self.in_sync = 0
        self.desired_pairs = 0
        # Entities with something rare about them always take the careful way.
        self.special: set[Entity] = {pair[0] for pair in owned.intents}
        self.special.update(pair[0] for pair in owned.drift_since)
        self.special.update(pair[0] for pair in owned.orphaned)
        self.special.update(pair[0] for pair in owned.overrides)

    def run(self) -> None:
        """Every entity that anybody knows, once."""
        desired, records, live, special = (
            self.desired.limits,
            self.owned.records,
            self.live.limits,
            self.special,
        )
        careful: list[Entity] = []
        quiet = seen_live = seen_records = 0
        # limits and claims were filled together, entity by entity, so their orders agree.
        for (subject, wanted), claims in zip(
            desired.items(), self.desired.claims.values(), strict=True
        ):
            there = live.get(subject)
            record = records.get(subject)
            seen_live += there is not None
            seen_records += record is not None
            if (
                wanted == there
                and record is not None
                and wanted == record.applied
                and (sole := record.sole) is not None
                and len(claims) == 1
                and sole.document == claims[0].document
                and sole.deletion_policy is claims[0].deletion_policy
                and (not special or subject not in special)
            ):
                quiet += 5 - wanted.count(None)
            else:
                careful.append(subject)
        if seen_records < len(records):
            careful.extend(subject for subject in records if subject not in desired)
        if special:
            careful.extend(
                subject for subject in special if subject not in desired and subject not in records
            )
        if seen_live < len(live):
            # Adds to a set the entities only where somebody else's pairs exist at all.
            known = records.keys() | special
            careful.extend(
                subject for subject in live if subject not in desired and subject not in known
            )
        self.in_sync = self.desired_pairs = quiet
        careful.sort(key=sort_key)
        for subject in careful:
            self._entity(subject)

    def plan(self) -> Plan:
        return Plan(
            cluster_id=self.owned.cluster_id,
            changes=tuple(self.changes),
            findings=tuple(self.findings),
            bookkeeping=tuple(self.bookkeeping),
            conflicts=self.desired.conflicts,
            twins=find_twins(self.changes_to_ips(), self.live),
            desired_pairs=self.desired_pairs,
            in_sync=self.in_sync,
            owned_pairs=self.owned.pair_count,
            removals_known=self.rules.removals_known,
            complete=self.rules.complete,
        )

    def changes_to_ips(self) -> Iterable[Entity]:
        """Named ip entities that are to be set."""
        return {
            one.entity for one in self.changes if isinstance(one.entity[2], str) and not one.removes
        }

    def _entity(self, subject: Entity) -> None:
        wanted = self.desired.limits.get(subject, NO_LIMITS)
        there = self.live.limits.get(subject, NO_LIMITS)
        record = self.owned.records.get(subject, NO_RECORD)
        intents, overrides = self.owned.intents, self.owned.overrides
        rare = subject in self.special
        for column, key in enumerate(COLUMNS):
            declared, live, applied = wanted[column], there[column], record.applied[column]
            pair: Pair = (subject, key)
            if declared is None and live is None and applied is None and not rare:
                continue
            self.desired_pairs += declared is not None
            view = _View(
                entity=subject,
                key=key,
                declared=declared,
                applied=applied,
                live=live,
                intent=intents.get(pair) if rare else None,
                claim=self.desired.claim(subject, key) if declared is not None else None,
                owner=self.owned.owner(subject, key),
            )
            override = overrides.get(pair) if rare else None
            if override is None:
                self._pair(view)
            elif override.in_force(self.now, declared):
                self._overridden(view, override.value, f"{override.who}: {override.reason}")
            else:
                self._expired(view, override.value, override.before)

    # -- one pair -------------------------------------------------------------------------------

    def _pair(self, view: "_View") -> None:
        applied = effective_applied(view.key, view.applied, view.intent, view.live)
        cause = classify(view.key, view.declared, applied, view.live)
        if view.owner is not None and view.owner.document in self.desired.frozen:
            self._report(
                view, Cause.FROZEN, Action.REPORT, "its document is suspended or cannot be used"
            )
            return
        if cause is None:
            if view.intent is not None:
                self.bookkeeping.append(IntentEnded(entity=view.entity, key=view.key))
            return
        self._act(view, cause, view.declared)

    def _act(self, view: "_View", cause: Cause, after: float | None) -> None:
        """Turns a cause into a change, a report or bookkeeping, as the rules permit."""
        if cause is Cause.IN_SYNC:
            self._in_sync(view)
            return
        fate = self._fate(view.owner)
        action = self.rules.permits(cause, fate)
        ignored = self.rules.ignored(view.entity, view.key, self.now)
        if (
            cause is Cause.UNMANAGED
            and action is Action.WRITE
            and not self.rules.in_scope(view.entity)
        ):
            action = Action.REPORT
        if ignored is not None and action is Action.WRITE:
            self._report(view, cause, Action.REPORT, f"ignored: {ignored.reason}")
            return
        match action:
            case Action.WRITE:
                self._write(view, cause, after)
            case Action.RECORD:
                self._record(view, cause)
            case Action.ORPHAN:
                self._orphan(view, cause)
            case Action.REPORT:
                note = NOTE_INCOMPLETE if cause is Cause.PRUNE and not self.rules.complete else ""
                self._report(view, cause, action, f"ignored: {ignored.reason}" if ignored else note)
            case Action.NOTHING:
                pass

    def _write(self, view: "_View", cause: Cause, after: float | None, note: str = "") -> None:
        self.changes.append(
            Change(
                entity=view.entity,
                key=view.key,
                before=view.live,
                after=after,
                cause=cause,
                claim=view.claim,
                owner=view.new_owner(self.now) if after is not None else view.owner,
                applied=view.applied,
                note=note,
            )
        )

    def _record(self, view: "_View", cause: Cause) -> None:
        """A pair whose records change and whose live value does not."""
        if view.declared is None:
            self.bookkeeping.append(Dropped(entity=view.entity, key=view.key))
        else:
            self.bookkeeping.append(
                Recorded(
                    entity=view.entity,
                    key=view.key,
                    value=view.declared,
                    owner=view.new_owner(self.now),
                )
            )
        self._report(view, cause, Action.RECORD)

    def _in_sync(self, view: "_View") -> None:
        self.in_sync += 1
        pair = (view.entity, view.key)
        stale = view.intent is not None or pair in self.owned.orphaned
        if stale or (view.owner_changed() and self.rules.permits(Cause.ADOPT) is Action.RECORD):
            self.bookkeeping.append(
                Recorded(
                    entity=view.entity,
                    key=view.key,
                    value=view.declared or 0.0,
                    owner=view.new_owner(self.now),
                )
            )
        elif pair in self.owned.drift_since:
            self.bookkeeping.append(DriftSeen(entity=view.entity, key=view.key, at=None))

    def _orphan(self, view: "_View", cause: Cause) -> None:
        if (view.entity, view.key) not in self.owned.orphaned:
            self.bookkeeping.append(Orphaned(entity=view.entity, key=view.key))
        self._report(view, cause, Action.ORPHAN, "its document is gone; the quota stays")

    def _report(self, view: "_View", cause: Cause, action: Action, note: str = "") -> None:
        since = None
        if cause is Cause.DRIFT:
            since = self.owned.drift_since.get((view.entity, view.key), self.now)
        self.findings.append(
            Finding(
                entity=view.entity,
                key=view.key,
                desired=view.declared,
                applied=view.applied,
                live=view.live,
                cause=cause,
                action=action,
                claim=view.claim,
                owner=view.owner,
                since=since,
                note=note,
            )
        )

    # -- overrides ------------------------------------------------------------------------------

    def _overridden(self, view: "_View", value: float | None, note: str) -> None:
        if same_value(view.key, value, view.live):
            self._report(view, Cause.OVERRIDE, Action.RECORD, note)
        elif self.rules.permits(Cause.OVERRIDE) is Action.WRITE:
            self._write(view, Cause.OVERRIDE, value, note)
        else:
            self._report(view, Cause.OVERRIDE, Action.REPORT, note)

    def _expired(self, view: "_View", value: float | None, before: float | None) -> None:
        """Back to what is declared or, where nothing is, to what the override replaced."""
        if not same_value(view.key, view.live, value):
            self.bookkeeping.append(OverrideEnded(entity=view.entity, key=view.key))
            self._pair(view)
            return
        after = before if view.declared is None else view.declared
        if same_value(view.key, after, view.live):
            self.bookkeeping.append(OverrideEnded(entity=view.entity, key=view.key))
            self._pair(view)
        elif self.rules.permits(Cause.OVERRIDE_EXPIRED) is Action.WRITE:
            self._write(view, Cause.OVERRIDE_EXPIRED, after)
        else:
            self._report(view, Cause.OVERRIDE_EXPIRED, Action.REPORT)

    def _fate(self, owner: Owner | None) -> Fate | None:
        """How a recorded pair ceased to be declared, by the deletionPolicy that was recorded last."""
        if owner is None:
            return None
        if owner.document in self.desired.documents:
            return Fate.KEY_LEFT
        return _FATES[owner.deletion_policy]


_FATES: Final[Mapping[DeletionPolicy | None, Fate]] = {
    DeletionPolicy.DELETE: Fate.EXPLICIT_DELETE,
    DeletionPolicy.RETAIN: Fate.EXPLICIT_RETAIN,
    None: Fate.UNSET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One pair from all three sides."""

    entity: Entity
    key: Key
    declared: float | None
    applied: float | None
    live: float | None
    intent: Intent | None
    claim: Declaration | None
    owner: Owner | None

    def new_owner(self, now: float) -> Owner:
        """Whose the pair is once it is as declared."""
        if self.claim is None:
            return self.owner or Owner(document="", since=now)
        since = self.owner.since if self.owner is not None and self.applied is not None else now
        return Owner(
            document=self.claim.document, deletion_policy=self.claim.deletion_policy, since=since
        )

    def owner_changed(self) -> bool:
        """Whether the record names another document or deletionPolicy than the claim."""
        return self.claim is not None and (
            self.owner is None
            or self.owner.document != self.claim.document
            or self.owner.deletion_policy is not self.claim.deletion_policy
        )


# -- what a plan does -------------------------------------------------------------------------------


def apply_to(state: State, changes: Iterable[Change]) -> State:
    """The state after these changes, for proofs, previews and impact."""
    return state.with_values((change.entity, change.key, change.after) for change in changes)


def effect_digest(cluster_id: str, changes: Iterable[Change]) -> str:
    """SHA-256 over cluster id and canonical operations: equal effects have equal digests, whatever the reasons.

    It binds an approval to an effect; it is not a signature.
    """
    operations = [
        [[[kind, name] for kind, name in parts(change.entity)], change.key, change.after]
        for change in changes
    ]
    text = json.dumps([cluster_id, operations], ensure_ascii=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def touches_default(change: Change) -> bool:
    """Whether a change reaches clients that nobody named."""
    return DEFAULT in change.entity


def column(key: Key) -> int:
    """Where a key stands in a row of limits."""
    return COLUMN_OF[key]
