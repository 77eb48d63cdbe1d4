"""The comparison of desired, owned and live state, pair by pair: returns changes, findings and record changes.

The rows of the three-way table are in ``three_way_table.py``, the policies in ``quota/policy.py``; this module applies
both to every pair that is not in sync, and sorts the plan. These steps come before the table, in this order:

- the describe settles intents of unknown outcome (``intent_settlement.py``);
- an override in force replaces the declared value; its record, below, stays;
- where an override ends, the declared value follows or, if no usable document declares the pair, the value from before.
  What the record asks for then, such as a removal, is for the next run;
- a pair of a frozen document, and a pair that two documents claim, is reported and never written or pruned.
"""

from dataclasses import replace
from typing import Final

from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMNS, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NO_RECORD,
    NOBODY,
    DriftObserved,
    Orphaned,
    OverrideEnded,
    OverrideWritten,
    OwnershipRecords,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.intent_settlement import settle_intents
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.planner.three_way_table import PairView, beginning, declaration_end
from reconciler.quota.policy import Action, Cause, DeclarationEnd, Rules
from reconciler.quota.state import NO_LIMITS, QuotaState

NOTE_INCOMPLETE: Final = "not every document was read, so nothing is removed"
NOTE_NOT_READ: Final = "its document is not among the files of this run; only a project has a complete list of documents"
NOTE_EDITED: Final = "a document of its name has another entity; without a project the limit stays"
NOTE_FROZEN: Final = "its document is suspended or invalid"
NOTE_CONTESTED: Final = "two documents declare it"
NOTE_UNSETTLED: Final = "an earlier write may still take effect, so nothing is recorded yet"
NOTE_ORPHAN: Final = "its document was deleted; the quota stays"
NOTE_OUT_OF_SCOPE: Final = "the scope of the cluster no longer includes it; the quota stays"
NOTE_FOLLOWS: Final = "; what is declared now is written at its end, unless a guard refuses it"
NOTE_PRUNED_NEXT: Final = "no document declares it any more: the next run plans its removal"


def compare(
    *,
    desired: DesiredState,
    owned: OwnershipRecords,
    live: QuotaState,
    rules: Rules,
    now: float = 0.0,
) -> Plan:
    """Return the plan for one cluster.

    Args:
        desired: All documents. Pairs in conflict are not changed.
        live: The live quotas from one describe.
        rules: Policy, drift mode, scope and other rules, from the trusted configuration.
        now: Seconds since the epoch, for overrides, ignore rules, drift times and intents of unknown outcome.
    """
    comparison = _Comparison(desired=desired, owned=owned, live=live, rules=rules, now=now)
    comparison.run()
    return comparison.plan()


class _Comparison:
    """State of one comparison. The loop visits only entities that may be out of sync."""

    def __init__(
        self,
        *,
        desired: DesiredState,
        owned: OwnershipRecords,
        live: QuotaState,
        rules: Rules,
        now: float,
    ) -> None:
        settlement = settle_intents(owned, live, now=now)
        self.desired, self.owned, self.live = desired, settlement.owned, live
        self.rules, self.now = rules, now
        self.changes: list[QuotaChange] = []
        self.pending: list[QuotaChange] = []
        self.findings: list[Finding] = []
        self.bookkeeping: list[RecordChange] = []
        for change in settlement.changes:
            self._record(change)
        self.contested = {(item.entity, item.key) for item in desired.conflicts}
        self.unfinished = 0
        # Owned pairs without a declaration: entities in sync are skipped, because all their pairs are declared and owned.
        self.owned_elsewhere = 0
        if settlement.changes:
            self.owned_elsewhere = owned.pair_count - settlement.owned.pair_count
        # Entities with an intent, drift time, orphan, override or frozen pair are always compared in full.
        marks = (self.owned.intents, self.owned.drift_since, self.owned.orphaned)
        special_pairs = (*marks, self.owned.overrides, desired.halted)
        self.special: set[Entity] = {pair[0] for pairs in special_pairs for pair in pairs}

    def run(self) -> None:
        """Compare every entity that may be out of sync, sorted."""
        for subject in sorted(self._find_out_of_sync(), key=sort_key):
            self._compare_entity(subject)

    def _find_out_of_sync(self) -> set[Entity]:
        """Return the entities that may be out of sync and need a full comparison."""
        records, live, special = self.owned.records, self.live.limits, self.special
        record_of, limits_of = records.get, live.get
        out_of_sync: list[Entity] = []
        for subject, claims in self.desired.claims.items():
            claim = claims[0]
            record = record_of(subject, NO_RECORD)
            if (
                record.applied == (desired_limits := claim.limits)
                and limits_of(subject) == desired_limits
                and (owner := record.sole) is not None
                and owner.document == claim.document
                and owner.deletion_policy is claim.deletion_policy
                and len(claims) == 1
                and not (special and subject in special)
            ):
                continue
            out_of_sync.append(subject)
        # Every entity in sync has a record and is live; if a map has more entities than that, the rest is compared too.
        in_sync = len(self.desired.claims) - len(out_of_sync)
        known_entities = set(out_of_sync)
        for entities in (records, live):
            if len(entities) > in_sync + sum(subject in entities for subject in known_entities):
                declared = self.desired.claims.keys()
                known_entities.update(subject for subject in entities if subject not in declared)
        known_entities.update(special)
        return known_entities

    def plan(self) -> Plan:
        """Return the plan of the finished comparison."""
        pairs = self.desired.pair_count
        return Plan(
            cluster_id=self.owned.cluster_id,
            changes=tuple(self.changes),
            pending=tuple(self.pending),
            findings=tuple(self.findings),
            bookkeeping=tuple(self.bookkeeping),
            conflicts=self.desired.conflicts,
            documents=len(self.desired.documents),
            desired_pairs=pairs,
            in_sync=pairs - self.unfinished,
            owned_pairs=pairs + self.owned_elsewhere + sum(self.owned.elsewhere.owned.values()),
            removals_known=self.rules.removals_known,
            complete=self.rules.complete,
        )

    def _compare_entity(self, subject: Entity) -> None:
        desired_limits = self.desired.limits.get(subject, NO_LIMITS)
        live_limits = self.live.limits.get(subject, NO_LIMITS)
        record = self.owned.records.get(subject, NO_RECORD)
        self.owned_elsewhere += desired_limits.count(None) - record.applied.count(None)
        rare = subject in self.special
        intents, overrides = self.owned.intents, self.owned.overrides
        rows = zip(COLUMNS, desired_limits, live_limits, record.applied, record.owners, strict=True)
        for key, declared, live, applied, owner in rows:
            if declared is None and live is None and applied is None and not rare:
                continue
            intent = intents.get((subject, key)) if rare else None
            intended = None if intent is None or intent.owner == NOBODY else intent.owner
            view = PairView(
                entity=subject,
                key=key,
                declared=declared,
                applied=applied,
                live=live,
                intent=intent,
                claim=self.desired.claim(subject, key) if declared is not None else None,
                owner=owner or intended,
                recorded=owner,
                is_orphaned=rare and (subject, key) in self.owned.orphaned,
                now=self.now,
            )
            self._compare_pair(view, overrides.get((subject, key)) if rare else None)

    # -- one pair -------------------------------------------------------------------------------

    def _compare_pair(self, view: PairView, override: Override | None) -> None:
        self.unfinished += view.declared is not None
        is_frozen, is_contested = self._is_frozen(view), view.pair in self.contested
        if override is not None:
            self._compare_override(view.without_claim() if is_frozen else view, override)
            return
        cause = view.cause
        if is_frozen:
            self._report(view, Cause.FROZEN, Action.REPORT, _frozen_note(view))
        elif cause is not None and is_contested:
            self._report(view, Cause.FROZEN, Action.REPORT, NOTE_CONTESTED)
        elif cause is not None:
            self._decide(view, cause, view.declared)

    def _is_frozen(self, view: PairView) -> bool:
        """Whether a frozen document is the recorded owner, or the only document that declares the pair."""
        document = "" if view.owner is None else view.owner.document
        undeclared = view.declared is None and (view.applied is None or document != "")
        return document in self.desired.frozen or (undeclared and view.pair in self.desired.halted)

    def _decide(
        self,
        view: PairView,
        cause: Cause,
        after: float | None,
        note: str = "",
        *,
        of_override: bool = False,
    ) -> None:
        """Turn a cause into a change, a finding or a record change, as the rules permit."""
        if cause is Cause.IN_SYNC:
            self._note_in_sync(view)
            return
        action = self._action(view, cause)
        ignored = self.rules.ignored(view.entity, view.key, self.now)
        if ignored is not None and action in {Action.WRITE, Action.REPORT}:
            self._report(view, cause, Action.REPORT, f"ignored: {ignored.reason}", ignored=True)
            return
        match action:
            case Action.WRITE:
                self.changes.append(view.change(cause, after, note, of_override=of_override))
            case Action.RECORD if view.unsettled:
                self._report(view, cause, Action.REPORT, NOTE_UNSETTLED)
            case Action.RECORD:
                self._set_record(view, view.declared)
                self._report(view, cause, Action.RECORD)
            case Action.ORPHAN:
                self._orphan(view)
                is_released = not self.rules.in_scope(view.entity)
                self._report(view, cause, action, NOTE_OUT_OF_SCOPE if is_released else NOTE_ORPHAN)
            case Action.REPORT:
                is_undeclared = cause in {Cause.PRUNE, Cause.GONE}
                words = self._undeclared_note(view) if is_undeclared else note
                self._report(view, cause, action, words, of_override=of_override)
            case _:
                pass

    def _action(self, view: PairView, cause: Cause) -> Action:
        """Return the action that the rules permit; outside the scope nothing is written."""
        end = self._declaration_end(view)
        action = self.rules.permits(cause, end, is_orphaned=view.is_orphaned)
        is_permitted = action is not Action.WRITE or self.rules.in_scope(view.entity)
        return action if is_permitted else Action.REPORT

    def _declaration_end(self, view: PairView) -> DeclarationEnd | None:
        """Return how a pair stopped being declared; outside the scope it is released, which is a retention."""
        end = declaration_end(view, self.desired, self.rules)
        is_kept = end in {None, DeclarationEnd.NOT_READ} or self.rules.in_scope(view.entity)
        return end if is_kept else DeclarationEnd.EXPLICIT_RETAIN

    def _undeclared_note(self, view: PairView) -> str:
        """Return why an undeclared pair and its record stay; "" if the policy is the reason."""
        if not self.rules.complete:
            return NOTE_INCOMPLETE
        if self._declaration_end(view) is not DeclarationEnd.NOT_READ:
            return ""
        was_read = view.owner is not None and view.owner.document in self.desired.documents
        return NOTE_EDITED if was_read else NOTE_NOT_READ

    def _note_in_sync(self, view: PairView) -> None:
        self.unfinished -= 1
        if (view.is_orphaned or view.owner_changed()) and not view.unsettled:
            self._set_record(view, view.declared)
        elif view.pair in self.owned.drift_since:
            self._record(DriftObserved(entity=view.entity, key=view.key, at=None))

    def _set_record(self, view: PairView, value: float | None) -> None:
        """Record the live value, which does not change; ``None`` drops the record."""
        owner = view.new_owner()
        self._record(
            RecordDropped(entity=view.entity, key=view.key)
            if value is None or owner is None
            else Recorded(entity=view.entity, key=view.key, value=value, owner=owner)
        )

    def _orphan(self, view: PairView) -> None:
        if not view.is_orphaned:
            self._record(Orphaned(entity=view.entity, key=view.key))

    def _record(self, change: RecordChange) -> None:
        if self.rules.may_record:
            self.bookkeeping.append(change)

    def _report(
        self,
        view: PairView,
        cause: Cause,
        action: Action,
        note: str = "",
        *,
        ignored: bool = False,
        of_override: bool = False,
    ) -> None:
        since = self.owned.drift_since.get(view.pair, self.now) if cause is Cause.DRIFT else None
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
                ignored=ignored,
                is_new=note == NOTE_ORPHAN and not view.is_orphaned,
                of_override=of_override,
            )
        )

    # -- overrides ------------------------------------------------------------------------------

    def _compare_override(self, view: PairView, override: Override) -> None:
        """Compare a pair under an override, which waits above its record; documents that cannot be used declare nothing."""
        base = replace(view, live=override.before)
        if base.cause is not None and override.is_news(view.declared, view.applied):
            self.pending.append(base.change(base.cause, view.declared))
        declared = view.declared if self._is_decided(view) else override.declared
        if override.in_force(self.now, declared):
            self._apply_override(view, override)
        else:
            self._end_override(view, override)

    def _is_decided(self, view: PairView) -> bool:
        """Whether the documents that were read say that no document declares the pair, if none of them does."""
        if view.declared is not None:
            return True
        document = "" if view.owner is None else view.owner.document
        is_read = self.rules.configured or document in self.desired.documents
        return self.rules.complete and is_read

    def _apply_override(self, view: PairView, override: Override) -> None:
        """Hold the value of the override: it is written once, and then again only where drift is corrected."""
        value, note = override.value, f"override by {override.author}: {override.reason}"
        if override.is_news(view.declared, view.applied):
            note += NOTE_FOLLOWS
        if same_value(view.key, value, view.live):
            if not same_value(view.key, value, override.applied) and not view.unsettled:
                self._record(OverrideWritten(entity=view.entity, key=view.key, value=value))
            self._report(view, Cause.OVERRIDE, Action.NOTHING, note)
        elif same_value(view.key, value, override.applied):
            self._decide(view, Cause.DRIFT, value, note, of_override=True)
        elif self._action(view, beginning(view.live)) is Action.WRITE:
            self.changes.append(view.change(Cause.OVERRIDE, value, note))
        else:
            self._report(view, Cause.OVERRIDE, Action.REPORT, note)

    def _end_override(self, view: PairView, override: Override) -> None:
        """Return to the declared value or, if there is none, to the value from before, unless another writer changed it."""
        after = override.before if override.has_written(view.live) else view.live
        if view.declared is not None:
            after = view.declared
        if same_value(view.key, after, view.live):
            if not view.unsettled:  # Else its write may still take effect and have to be reverted.
                self._record(OverrideEnded(entity=view.entity, key=view.key))
            if view.declared is not None and view.cause is not None:
                self._decide(view, view.cause, after)  # It is recorded.
        elif self.rules.permits(Cause.ENDED) is Action.WRITE:
            self.changes.append(view.change(Cause.ENDED, after, self._next_note(view, after)))
        else:
            self._report(view, Cause.ENDED, Action.REPORT)

    def _next_note(self, view: PairView, after: float | None) -> str:
        """Return that the next run removes the value from before, as the record below the override asks for."""
        is_owned = view.recorded is not None and same_value(view.key, view.applied, after)
        is_ignored = self.rules.ignored(view.entity, view.key, self.now) is not None
        if view.declared is not None or not is_owned or is_ignored:
            return ""
        return NOTE_PRUNED_NEXT if self._action(view, Cause.PRUNE) is Action.WRITE else ""


def _frozen_note(view: PairView) -> str:
    """Return why a pair is frozen; a pair that another document declares is frozen by its recorded owner."""
    if view.claim is None or view.owner is None:
        return NOTE_FROZEN
    return f"{view.owner.document}, which is suspended or invalid, owns it until it is deleted"
