"""The rows of a pair under temporary limits: one begins or is in force, or the last one ends.

A temporary limit of a person wins over one of a document, and that over the declared value. At the end the table is in
charge again: the declared value follows or, if no usable document declares the pair, the value from before. What the
record asks for then, such as a removal, is for the next run.

What documents declare anew under a temporary limit is judged at once, as a change of the value from before
(``Plan.pending``): the limit only delays the write.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import EndReached, OverrideEnded, OverrideSet, OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.three_way_table import Difference, PairView
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState

NOTE_FOLLOWS: Final = "; what is declared now is written at its end, unless a guard refuses it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The temporary limits of one pair: at least one."""

    recorded: Override | None = None  # the one that began
    declared: Declaration | None = None  # the document with an end that declares the pair now
    # Whether the documents that were read say that nothing is declared, if nothing is.
    is_decided: bool = True

    def in_force(self, view: PairView) -> Override | None:
        """Return the temporary limit that decides about the pair now; ``None`` = the recorded one has ended."""
        recorded, now = self.recorded, view.now
        if recorded is not None and not recorded.document:
            is_decided = view.declared is not None or self.is_decided
            if recorded.in_force(now, view.declared if is_decided else recorded.declared):
                return recorded
        if self.declared is not None:
            return _of_document(self.declared, view, recorded)
        is_unread = recorded is not None and bool(recorded.document) and not self.is_decided
        return recorded if recorded is not None and is_unread and now < recorded.until else None


def _of_document(declaration: Declaration, view: PairView, recorded: Override | None) -> Override:
    """Return the temporary limit that a document declares; its value and end may have changed since it was written."""
    override = Override(
        entity=view.entity,
        key=view.key,
        value=declaration.limits[COLUMN_OF[view.key]],
        until=declaration.until or 0.0,
        declared=view.declared,
        document=declaration.document,
    )
    if recorded is not None and recorded.document == override.document and recorded.is_written():
        return replace(
            recorded, value=override.value, until=override.until, declared=override.declared
        )
    return override.begun(recorded, view.live)


def news(view: PairView, layer: Layer) -> Iterator[QuotaChange]:
    """Yield what a document declares anew under a temporary limit, as a change of the value from before."""
    override = layer.recorded or layer.in_force(view)
    if override is None or not override.is_news(view.declared, view.applied):
        return
    below = replace(view, live=override.before)
    if below.cause is not None:
        yield below.change(below.cause, view.declared)


def differences_under(view: PairView, layer: Layer) -> Iterator[Difference]:
    """Yield what is to be written or recorded for a temporary limit."""
    override = layer.in_force(view)
    if override is not None:
        yield _held(view, override, layer)
    elif layer.recorded is not None:
        yield _ended(view, layer.recorded)


def _held(view: PairView, override: Override, layer: Layer) -> Difference:
    """Hold the value of the override: it is written once, and then again only where drift is corrected."""
    note = override.words
    if override.is_news(view.declared, view.applied):
        note += NOTE_FOLLOWS
    is_drift = override.is_written() and not same_value(view.key, override.value, view.live)
    return Difference(
        view=view
        if layer.declared is None or not override.document
        else replace(view, claim=layer.declared),
        cause=Cause.DRIFT if is_drift else Cause.TEMPORARY if override.document else Cause.OVERRIDE,
        after=override.value,
        note=note,
        of_override=is_drift,
        begins=None if override == layer.recorded else OverrideSet(override=override),
    )


def _ended(view: PairView, override: Override) -> Difference:
    """Return to the declared value or, if there is none, to the value from before, unless another writer changed it."""
    after = override.before if override.has_written(view.live) else view.live
    if view.declared is not None:
        after = view.declared
    is_due = bool(override.document) and override.until <= view.now
    reached = EndReached(entity=view.entity, key=view.key, at=override.until) if is_due else None
    return Difference(view=view, cause=Cause.ENDED, after=after, begins=reached)


def without_refused(
    plan: Plan, refused: Collection[QuotaChange], owned: OwnershipRecords, *, now: float
) -> Plan:
    """Return the plan without refused changes; an override whose declared value is refused ends without it.

    The end restores the value from before: otherwise a document could keep an override in force, by a value that a guard
    refuses. If there is nothing to restore, the record of the override ends, unless an earlier write may still take effect.
    A rollback whose document changed stays recorded until its time is over: if the change is taken back, it is in force again.
    """
    pairs = {change.pair for change in refused}
    unbegun = {change.pair for change in refused if change.cause is Cause.TEMPORARY}
    changes: list[QuotaChange] = []
    record_changes = [
        record_change
        for record_change in plan.bookkeeping
        if not isinstance(record_change, OverrideSet) or record_change.override.pair not in unbegun
    ]
    for change in plan.changes:
        is_declared_end = change.cause is Cause.ENDED and change.claim is not None
        is_other = change.is_temporary and not is_declared_end and change not in refused
        if change.pair not in pairs or is_other:
            changes.append(change)
        elif is_declared_end:
            override = owned.overrides[change.pair]
            after = override.before if override.has_written(change.before) else change.before
            if after != change.before:
                changes.append(replace(change, after=after, claim=None, owner=change.recorded))
            elif override.until <= now and change.pair not in owned.intents:
                record_changes.append(OverrideEnded(entity=change.entity, key=change.key))
    return replace(
        plan,
        changes=tuple(changes),
        pending=tuple(change for change in plan.pending if change not in refused),
        bookkeeping=tuple(record_changes),
    )


def below_overrides(live: QuotaState, owned: OwnershipRecords) -> QuotaState:
    """Return the state without overrides, which have the values from before them: what a review and guards look at."""
    if not owned.overrides:
        return live
    return live.with_values(
        (override.entity, override.key, override.before) for override in owned.overrides.values()
    )
