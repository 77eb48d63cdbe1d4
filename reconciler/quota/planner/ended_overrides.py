"""Ends of overrides, for the guards: those that restore a value pass, those that write a new declared value are checked.

While an override is in force, declared values are not planned, so no guard has checked them. The end of an override
passes the guards only if it restores the live value that the override replaced.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from reconciler.quota.keys import same_value
from reconciler.quota.ownership import Override, OverrideEnded, Pair, RecordChange
from reconciler.quota.planner.plan import QuotaChange
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
    rollback it is compared with the rolled-back value, which is in place of the declared one.
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
        if not override.ends_with_document
    )


def _is_redeclared(change: QuotaChange, overrides: Overrides) -> bool:
    override = overrides.get(change.pair)
    return (
        change.claim is not None
        and override is not None
        and not same_value(change.key, change.after, override.before)
    )


def restoring(change: QuotaChange, overrides: Overrides) -> QuotaChange | None:
    """Return the end of the same override with the value that it replaced, for a change that a guard refuses.

    Otherwise a document could keep an override in force after its end, by a value or a removal that a guard refuses.

    Returns:
        ``None`` if the change is neither the end of an override with a declared value nor the removal of its value.
    """
    override = overrides.get(change.pair)
    is_end = change.cause is Cause.OVERRIDE_EXPIRED and change.claim is not None
    if (
        override is None
        or override.ends_with_document
        or not (is_end or change.cause is Cause.PRUNE)
    ):
        return None
    is_live = same_value(change.key, change.before, override.value)
    if not is_live or same_value(change.key, change.before, override.before):
        return None
    return replace(
        change,
        after=override.before,
        cause=Cause.OVERRIDE_EXPIRED,
        claim=None,
        keeps_owner=override.before_owner is not None,
    )


def without_ends(
    record_changes: Iterable[RecordChange], pairs: Collection[Pair]
) -> tuple[RecordChange, ...]:
    """Return the record changes without the ends of overrides whose change is refused; the next run ends them."""
    return tuple(
        change
        for change in record_changes
        if not isinstance(change, OverrideEnded) or (change.entity, change.key) not in pairs
    )
