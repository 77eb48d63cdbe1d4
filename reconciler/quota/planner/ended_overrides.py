"""Ends of overrides, for the guards: those that restore a value pass, those that write a new declared value are checked.

While an override is in force, declared values are not planned, so no guard has checked them. The end of an override
passes the guards only if it restores the live value that the override replaced.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from reconciler.quota.keys import same_value
from reconciler.quota.ownership import Override, OverrideEnded, OwnershipRecords, Pair
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.three_way_table import is_left_behind
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState

Overrides: TypeAlias = Mapping[Pair, Override]
NO_OVERRIDES: Final[Overrides] = {}


def select_judged(
    changes: Iterable[QuotaChange], live: QuotaState, overrides: Overrides
) -> tuple[tuple[QuotaChange, ...], QuotaState]:
    """Return the changes that guards judge, and the state that they are compared with.

    Not judged are overrides, and ends of overrides that restore a value. A new declared value is compared with the
    value that the override replaced: compared with an override to a tenth it would look ten times too large. After a
    rollback it is compared with the rolled-back value, if that is live: it is in place of the declared one.
    """
    judged_changes = tuple(
        change
        for change in changes
        if change.cause is not Cause.OVERRIDE
        and (change.cause is not Cause.OVERRIDE_EXPIRED or _is_redeclared(change, overrides))
    )
    ended = [
        overrides[change.pair]
        for change in judged_changes
        if change.cause is Cause.OVERRIDE_EXPIRED
    ]
    return judged_changes, live.with_values(
        (override.entity, override.key, override.before)
        for override in ended
        if not (
            override.ends_with_document
            and same_value(override.key, live.value(*override.pair), override.value)
        )
    )


def _is_redeclared(change: QuotaChange, overrides: Overrides) -> bool:
    override = overrides.get(change.pair)
    return (
        change.claim is not None
        and override is not None
        and not same_value(change.key, change.after, override.before)
    )


def without_refused(
    plan: Plan, refused: Collection[QuotaChange], owned: OwnershipRecords, *, now: float
) -> Plan:
    """Return the plan without refused changes; an override whose declared value is refused ends without it.

    The end restores the value that the override replaced: otherwise a document could keep an override in force, by a
    value that a guard refuses. If there is nothing to restore, the record of the override ends, unless an earlier write
    may still take effect. A rollback whose document changed stays recorded until its time is over: if the change is
    taken back, it is in force again.
    """
    changes: list[QuotaChange] = []
    record_changes = list(plan.bookkeeping)
    for change in plan.changes:
        if change not in refused:
            changes.append(change)
            continue
        override = owned.overrides.get(change.pair)
        if override is None or change.cause is not Cause.OVERRIDE_EXPIRED or change.claim is None:
            continue
        if is_left_behind(override, change.before, change.applied):
            changes.append(_restore(change, override))
        elif override.until <= now and change.pair not in owned.intents:
            record_changes.append(OverrideEnded(entity=change.entity, key=change.key))
    return replace(plan, changes=tuple(changes), bookkeeping=tuple(record_changes))


def _restore(change: QuotaChange, override: Override) -> QuotaChange:
    """Return the end of the override with the value that it replaced, which has its earlier owner again."""
    return replace(
        change,
        after=override.before,
        claim=None,
        owner=override.before_owner or change.owner,
        keeps_owner=override.before_owner is not None,
    )
