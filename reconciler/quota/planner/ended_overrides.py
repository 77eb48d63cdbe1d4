"""What guards judge under overrides, and the ends of overrides whose declared value a guard refuses.

A value of an override passes the guards of changes: a person asked for it. What documents declare anew under it is judged at
once, as a change of the value from before (``Plan.pending``): the override only delays the write.
"""

from collections.abc import Collection
from dataclasses import replace

from reconciler.quota.ownership import OverrideEnded, OwnershipRecords
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState


def without_refused(
    plan: Plan, refused: Collection[QuotaChange], owned: OwnershipRecords, *, now: float
) -> Plan:
    """Return the plan without refused changes; an override whose declared value is refused ends without it.

    The end restores the value from before: otherwise a document could keep an override in force, by a value that a guard
    refuses. If there is nothing to restore, the record of the override ends, unless an earlier write may still take effect.
    A rollback whose document changed stays recorded until its time is over: if the change is taken back, it is in force again.
    """
    pairs = {change.pair for change in refused}
    changes: list[QuotaChange] = []
    record_changes = list(plan.bookkeeping)
    for change in plan.changes:
        is_declared_end = change.cause is Cause.ENDED and change.claim is not None
        if change.pair not in pairs or (change.is_temporary and not is_declared_end):
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
