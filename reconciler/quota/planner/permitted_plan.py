"""What may be written of a finished comparison: a filter for each rule, and the plan that is left.

A filter sees one difference and the action that the filters before it permit. What is filtered out is a finding: it is shown,
and nothing waits for it.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.keys import same_value
from reconciler.quota.ownership import (
    DriftObserved,
    Orphaned,
    OverrideEnded,
    OverrideWritten,
    OwnershipRecords,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.plan import BEGINNING, TEMPORARY, Finding, QuotaChange
from reconciler.quota.planner.three_way_table import Difference, PairView
from reconciler.quota.policy import Action, Cause, DeclarationEnd, DeletionPolicy, Rules

NOTE_INCOMPLETE: Final = "not every document was read, so nothing is removed"
NOTE_UNSETTLED: Final = "an earlier write may still take effect, so nothing is recorded yet"
NOTE_ORPHAN: Final = "its document was deleted; the quota stays"
NOTE_RETAINED: Final = "its document was deleted with deletionPolicy Retain, or without a grant of Delete; the quota stays"
NOTE_OUT_OF_SCOPE: Final = "the scope of the cluster no longer includes it; the quota stays"
NOTE_FORCED: Final = "kquota apply --force removes it"
NOTE_PRUNED_NEXT: Final = "no document declares it any more: the next run plans its removal"


class Decision(Struct, frozen=True, gc=False):
    """What happens with one difference."""

    action: Action
    note: str  # additional text for display, or ""
    ignored: bool = False  # whether an ignore rule covers it


Filter: TypeAlias = Callable[[Difference, Decision, Rules], Decision]


def by_policy(difference: Difference, decision: Decision, rules: Rules) -> Decision:
    """Permit what the table of the policy says; a temporary limit begins as a document would write its value."""
    view, cause, end = difference.view, difference.cause, difference.end
    if cause in BEGINNING:
        return Decision(rules.permits_override(view.live), decision.note)
    if end is not None and end is not DeclarationEnd.NOT_READ and not rules.in_scope(view.entity):
        end = DeclarationEnd.EXPLICIT_RETAIN  # What leaves the scope is released.
    return Decision(rules.permits(cause, end, is_orphaned=view.is_orphaned), decision.note)


def by_scope(difference: Difference, decision: Decision, rules: Rules) -> Decision:
    """Report what is outside the scope; the end of a temporary limit undoes a write of kquota, and is written."""
    is_written = decision.action is Action.WRITE and difference.cause is not Cause.ENDED
    if is_written and not rules.in_scope(difference.view.entity):
        return Decision(Action.REPORT, decision.note)
    return decision


def by_ignore_rules(difference: Difference, decision: Decision, rules: Rules) -> Decision:
    """Report what an ignore rule covers; it decides nothing about the override of a person, or about an end."""
    if not rules.ignore or difference.cause in {Cause.OVERRIDE, Cause.ENDED, Cause.FROZEN}:
        return decision
    view = difference.view
    rule = rules.ignored(view.entity, view.key, view.now)
    if rule is None or decision.action not in {Action.WRITE, Action.REPORT}:
        return decision
    return Decision(Action.REPORT, f"ignored: {rule.reason}", ignored=True)


def by_unknown_outcome(difference: Difference, decision: Decision, _: Rules) -> Decision:
    """Report what cannot be recorded yet, because an earlier write may still take effect."""
    if decision.action is Action.RECORD and difference.view.unsettled:
        return Decision(Action.REPORT, NOTE_UNSETTLED)
    return decision


FILTERS: Final[tuple[Filter, ...]] = (by_policy, by_scope, by_ignore_rules, by_unknown_outcome)


def decide(difference: Difference, rules: Rules) -> Decision:
    """Return what the rules permit for one difference."""
    decision = Decision(Action.REPORT, difference.note)
    for narrow in FILTERS:
        decision = narrow(difference, decision, rules)
    return decision


class PlanDraft:
    """The parts of a plan, difference by difference.

    Attributes:
        changes: The writes.
        findings: What is only reported.
        bookkeeping: The record changes that need no write.
        in_sync: Number of declared pairs that were compared and are in sync.
    """

    def __init__(self, owned: OwnershipRecords, rules: Rules, now: float) -> None:
        self._owned, self._rules, self._now = owned, rules, now
        self.changes: list[QuotaChange] = []
        self.findings: list[Finding] = []
        self.bookkeeping: list[RecordChange] = []
        self.in_sync = 0

    def take(self, difference: Difference) -> None:
        """Add one difference, as the rules permit."""
        view, cause = difference.view, difference.cause
        if cause is Cause.IN_SYNC:
            self._note_in_sync(view)
        elif cause in TEMPORARY and difference.is_live:
            self._take_live_override(difference)
        else:
            self._take(difference, decide(difference, self._rules))

    def _take(self, difference: Difference, decision: Decision) -> None:
        view, cause, action = difference.view, difference.cause, decision.action
        record_change = difference.record_change
        # What changed of a temporary limit whose value is drifted is recorded, also if nothing is written.
        if record_change is not None and (action is Action.WRITE or difference.of_override):
            self.record(record_change)
        if action is Action.NOTHING:
            return
        if action is Action.WRITE:
            self.changes.append(difference.change(decision.note or self._next_note(difference)))
            return
        note = decision.note
        if action is Action.RECORD:
            self._set_record(view, view.declared)
        elif action is Action.ORPHAN:
            if not view.is_orphaned:
                self.record(Orphaned(entity=view.entity, key=view.key))
            note = (
                (
                    NOTE_RETAINED
                    if view.owner and view.owner.deletion_policy is DeletionPolicy.RETAIN
                    else NOTE_ORPHAN
                )
                if self._rules.in_scope(view.entity)
                else NOTE_OUT_OF_SCOPE
            )
        elif (
            cause in {Cause.PRUNE, Cause.GONE} and not decision.ignored and not self._rules.complete
        ):
            note = NOTE_INCOMPLETE
        elif cause is Cause.CHANGED_BY_ANOTHER and not decision.ignored:
            forced = decide(difference, replace(self._rules, force=True))
            note = NOTE_FORCED if forced.action is Action.WRITE else note
        self._report(difference, action, note, ignored=decision.ignored)

    def _take_live_override(self, difference: Difference) -> None:
        """Record a temporary limit whose value is live, or the end of one whose value is no longer live."""
        view, after = difference.view, difference.after
        entity, key = view.entity, view.key
        if difference.record_change is not None:
            self.record(difference.record_change)
        if not difference.is_over:
            recorded = self._owned.overrides.get(view.pair)
            is_recorded = recorded is not None and same_value(key, recorded.applied, after)
            if not view.unsettled and not is_recorded:
                self.record(OverrideWritten(entity=entity, key=key, value=after))
            self._report(difference, Action.NOTHING, difference.note)
        elif not view.unsettled:  # Else its write may still take effect and have to be reverted.
            self.record(OverrideEnded(entity=entity, key=key))

    def _next_note(self, difference: Difference) -> str:
        """Return that the next run removes the value from before, as the record below a temporary limit asks for."""
        view = difference.view
        if difference.cause is not Cause.ENDED or view.declared is not None:
            return ""
        if view.recorded is None or not same_value(view.key, view.applied, difference.after):
            return ""
        removal = replace(difference, cause=Cause.PRUNE, after=None)
        is_pruned = decide(removal, self._rules).action is Action.WRITE
        return NOTE_PRUNED_NEXT if is_pruned else ""

    def _note_in_sync(self, view: PairView) -> None:
        self.in_sync += 1
        if (view.is_orphaned or view.owner_changed()) and not view.unsettled:
            self._set_record(view, view.declared)
        elif view.pair in self._owned.drift_since:
            self.record(DriftObserved(entity=view.entity, key=view.key, at=None))

    def _set_record(self, view: PairView, value: float | None) -> None:
        """Record the live value, which does not change; ``None`` drops the record."""
        owner = view.new_owner()
        self.record(
            RecordDropped(entity=view.entity, key=view.key)
            if value is None or owner is None
            else Recorded(entity=view.entity, key=view.key, value=value, owner=owner)
        )

    def record(self, change: RecordChange) -> None:
        """Add a record change, if the policy permits any."""
        if self._rules.may_record:
            self.bookkeeping.append(change)

    def _report(
        self, difference: Difference, action: Action, note: str, *, ignored: bool = False
    ) -> None:
        view, cause = difference.view, difference.cause
        is_drift = cause is Cause.DRIFT
        self.findings.append(
            Finding(
                entity=view.entity,
                key=view.key,
                desired=difference.after if difference.of_override else view.declared,
                applied=view.applied,
                live=view.live,
                cause=cause,
                action=action,
                claim=view.claim,
                owner=view.owner,
                since=self._owned.drift_since.get(view.pair, self._now) if is_drift else None,
                note=note,
                ignored=ignored,
                is_new=note in {NOTE_ORPHAN, NOTE_RETAINED} and not view.is_orphaned,
                of_override=difference.of_override,
            )
        )
