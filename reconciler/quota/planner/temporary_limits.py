"""The rows of a pair under temporary limits: one begins or is in force, or the last one ends.

A temporary limit of a person wins over one of a document, and that over the declared value. At the end the table is in
charge again: the declared value follows or, if no usable document declares the pair, the value from before. What the
record asks for then, such as a removal, is for the next run.

What documents declare anew under a temporary limit is judged at once, as a change of the value from before
(``Plan.pending``): the limit only delays the write.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import sort_key
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    EndReached,
    OverrideEnded,
    OverrideSet,
    OwnershipRecords,
    Pair,
    ProjectNamed,
    RecordChange,
    pair_of,
)
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.three_way_table import Difference, PairView
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState

NOTE_FOLLOWS: Final = "; what is declared now is written at its end, unless a guard refuses it"
NOTE_FOREIGN: Final = "; the value before has no ownership record"


# The record below is not written: docs/adr/temporary-limits.md.
class Layer(Struct, frozen=True, kw_only=True, gc=False):
    """The temporary limits of one pair."""

    first: Override  # the recorded one or, if there is none, that of `declared`
    is_recorded: bool  # whether `first` is recorded
    declared: Declaration | None = None  # the document with an end that declares the pair now
    # Whether the documents that were read say that nothing is declared, if nothing is.
    is_decided: bool = True

    @property
    def has_begun(self) -> bool:
        """Whether the recorded one is that of the document that declares the pair now."""
        is_same = self.declared is not None and self.declared.document == self.first.document
        return self.is_recorded and is_same

    @property
    def never_began(self) -> bool:
        """Whether the recorded one is of a document that declares it no more, and was never written."""
        is_of_document = self.is_recorded and bool(self.first.document)
        return is_of_document and not self.has_begun and not self.first.is_written

    def value(self, view: PairView) -> float | None:
        """Return what documents declare, with an end or without."""
        return view.declared if self.declared is None else _value(self.declared, view)

    def in_force(self, view: PairView) -> Override | None:
        """Return the temporary limit that decides about the pair now; ``None`` = the recorded one has ended."""
        first, declared = self.first, self.value(view)
        if not first.document:
            is_decided = declared is not None or self.is_decided
            if first.in_force(view.now, declared if is_decided else first.declared):
                return first
        if self.declared is not None:
            return of_document(self.declared, view, first if self.is_recorded else None)
        return first if first.document and not self.is_decided and view.now < first.until else None


def _value(declaration: Declaration, view: PairView) -> float | None:
    return declaration.limits[COLUMN_OF[view.key]]


def of_document(declaration: Declaration, view: PairView, recorded: Override | None) -> Override:
    """Return the temporary limit that a document declares; its value and end may have changed since it was written."""
    override = Override(
        entity=view.entity,
        key=view.key,
        value=_value(declaration, view),
        until=declaration.until or 0.0,
        declared=view.declared,
        document=declaration.document,
    )
    if recorded is not None and recorded.document == override.document and recorded.is_written:
        return replace(
            recorded, value=override.value, until=override.until, declared=override.declared
        )
    return override.begun(recorded, view.live)


def news(view: PairView, layer: Layer) -> Iterator[QuotaChange]:
    """Yield what documents declare anew below a temporary limit, as changes of the value from before."""
    first, declared = layer.first, layer.declared
    below = replace(view, live=first.before)
    if first.is_news(view.declared, view.applied) and below.cause is not None:
        yield below.change(below.cause, view.declared)
    if declared is None or not layer.is_recorded:
        return
    value = _value(declared, view)
    has_other_end = same_value(view.key, value, first.value) and declared.until != first.until
    is_news = has_other_end or not layer.has_begun
    if is_news and not same_value(view.key, value, first.before):
        note = of_document(declared, view, None).words
        yield replace(below, claim=declared).change(Cause.TEMPORARY, value, note)


def difference_under(view: PairView, layer: Layer) -> Difference:
    """Return what is to be written or recorded for a temporary limit."""
    override = layer.in_force(view)
    if override is None:
        return _ended(view, layer.first)
    if override.document != layer.first.document:
        # A document with an end follows: the end of the other one writes its value.
        return Difference(
            view=replace(view, claim=layer.declared, declared=override.value),
            cause=Cause.ENDED,
            after=override.value,
            note=override.words,
            record_change=OverrideSet(override=override),
        )
    return _held(view, override, layer)


def _held(view: PairView, override: Override, layer: Layer) -> Difference:
    """Hold the value of the override: it is written once, and then again only where drift is corrected."""
    note = override.words
    if override.is_news(view.declared, view.applied):
        note += NOTE_FOLLOWS
    is_drift = override.is_written and not same_value(view.key, override.value, view.live)
    is_foreign = view.live is not None and not same_value(view.key, view.live, view.applied)
    if not layer.is_recorded and is_foreign:
        note += NOTE_FOREIGN
    is_news = not layer.is_recorded or override != layer.first
    return Difference(
        view=replace(view, claim=layer.declared) if layer.declared and override.document else view,
        cause=Cause.DRIFT if is_drift else Cause.TEMPORARY if override.document else Cause.OVERRIDE,
        after=override.value,
        note=note,
        of_override=is_drift,
        record_change=OverrideSet(override=override) if is_news else None,
    )


def _ended(view: PairView, override: Override) -> Difference:
    """Return to the declared value or, if there is none, to the value from before, unless another writer changed it."""
    after = override.before if override.has_written(view.live) else view.live
    if view.declared is not None:
        after = view.declared
    is_due = bool(override.document) and override.until <= view.now
    reached = EndReached(entity=view.entity, key=view.key, at=override.until) if is_due else None
    return Difference(view=view, cause=Cause.ENDED, after=after, record_change=reached)


def without_refused(
    plan: Plan, refused: Collection[QuotaChange], owned: OwnershipRecords, *, now: float
) -> Plan:
    """Return the plan without refused changes; a temporary limit whose successor is refused ends without it.

    The end restores the value from before: otherwise a document could keep a temporary limit in force, by a value that a
    guard refuses. If there is nothing to restore, the record of it ends, unless an earlier write may still take effect.
    A rollback whose document changed stays recorded until its time is over: if the change is taken back, it is in force again.
    """
    successors = {(change.pair, _document(change)) for change in refused}
    changes, ends = _divided(plan, refused, successors, owned)
    record_changes = _without_ends(plan.bookkeeping, ends, successors)
    for change, live in ends.values():
        override = owned.overrides[change.pair]
        after = override.before if override.has_written(live) else live
        if after != live:
            changes.append(
                replace(
                    change,
                    cause=Cause.ENDED,
                    before=live,
                    after=after,
                    claim=None,
                    owner=change.recorded,
                    note="",
                )
            )
        elif override.until <= now and change.pair not in owned.intents:
            record_changes.append(OverrideEnded(entity=change.entity, key=change.key))
    return replace(
        plan,
        changes=tuple(sorted(changes, key=_place)) if ends else tuple(changes),
        pending=tuple(change for change in plan.pending if change not in refused),
        findings=tuple(finding for finding in plan.findings if finding.pair not in ends),
        bookkeeping=tuple(record_changes),
    )


def _divided(
    plan: Plan,
    refused: Collection[QuotaChange],
    successors: Collection[tuple[Pair, str]],
    owned: OwnershipRecords,
) -> tuple[list[QuotaChange], dict[Pair, tuple[QuotaChange, float | None]]]:
    """Return the changes that stay, and those whose temporary limit ends without them, with the live value."""
    changes: list[QuotaChange] = []
    ends: dict[Pair, tuple[QuotaChange, float | None]] = {}
    for change in plan.changes:
        # The end that writes a successor is in no review: what was refused is the pending row of the same document.
        is_end = change.cause is Cause.ENDED and change.claim is not None
        row = change.pair, _document(change)
        if not (row in successors if is_end else change in refused):
            changes.append(change)
        elif change.pair in owned.overrides and change.is_temporary:
            ends[change.pair] = change, change.before
    # A refused value that is live already: that of the temporary limit which ends.
    written = {change.pair for change in plan.changes}
    ending = {_pair(item) for item in plan.bookkeeping if _ends_another(item, owned)}
    for change in plan.pending:
        if change in refused and change.pair in ending - written:
            ends[change.pair] = change, change.after
    return changes, ends


def _without_ends(
    record_changes: Iterable[RecordChange],
    ends: Collection[Pair],
    successors: Collection[tuple[Pair, str]],
) -> list[RecordChange]:
    """Return the record changes without what ends or begins temporary limits otherwise; settled intents come before."""
    remaining: list[RecordChange] = []
    undone: set[Pair | None] = set()
    for item in record_changes:
        pair = _pair(item)
        is_closing = isinstance(item, OverrideSet | OverrideEnded) and pair in ends
        if is_closing or _begins(item, successors):
            undone.add(pair)
        if pair not in undone or isinstance(item, EndReached):
            remaining.append(item)
    return remaining


def _begins(change: RecordChange, successors: Collection[tuple[Pair, str]]) -> bool:
    """Whether a record change begins what one of these documents declares."""
    if not isinstance(change, OverrideSet):
        return False
    return (change.override.pair, change.override.document) in successors


def _document(change: QuotaChange) -> str:
    return "" if change.claim is None else change.claim.document


def _place(change: QuotaChange) -> tuple[object, int]:
    return sort_key(change.entity), COLUMN_OF[change.key]


def _pair(change: RecordChange) -> Pair | None:
    return None if isinstance(change, ProjectNamed) else pair_of(change)


def _ends_another(change: RecordChange, owned: OwnershipRecords) -> bool:
    """Whether a record change ends a recorded temporary limit, with another one in its place or none."""
    if not isinstance(change, OverrideSet):
        return isinstance(change, OverrideEnded) and (change.entity, change.key) in owned.overrides
    recorded = owned.overrides.get(change.override.pair)
    return recorded is not None and recorded.document != change.override.document


def below_overrides(live: QuotaState, owned: OwnershipRecords) -> QuotaState:
    """Return the state without overrides, which have the values from before them: what a review and guards look at."""
    if not owned.overrides:
        return live
    return live.with_values(
        (override.entity, override.key, override.before) for override in owned.overrides.values()
    )
