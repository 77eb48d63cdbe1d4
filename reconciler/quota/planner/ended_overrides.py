"""Tells the end of an override that restores a value from one that writes a new value of a document, for the guards.

Guards judge a value when it is planned. While an override is in force, a new declared value is not planned; it is
written when the override ends. The end restores what guards have judged before only if the declaration is unchanged.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from reconciler.quota.keys import same_value
from reconciler.quota.ownership import Override, Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState

Overrides: TypeAlias = Mapping[Pair, Override]
NO_OVERRIDES: Final[Overrides] = {}


def judged(
    changes: Iterable[QuotaChange], live: QuotaState, overrides: Overrides
) -> tuple[tuple[QuotaChange, ...], QuotaState]:
    """Return the changes that guards judge, and the state that they are compared with.

    Not judged are overrides, and ends of overrides that restore a value. An override that limits a client to a tenth
    must not make the new declared value look ten times too large, so that one is compared with the value that the
    override replaced. A rolled-back value is compared as it is: it stands for the declared one.
    """
    judged_changes = tuple(
        change
        for change in changes
        if change.cause is not Cause.OVERRIDE
        and (change.cause is not Cause.OVERRIDE_EXPIRED or _is_redeclared(change, overrides))
    )
    ended = [
        overrides[change.entity, change.key]
        for change in judged_changes
        if change.cause is Cause.OVERRIDE_EXPIRED
    ]
    return judged_changes, live.with_values(
        (override.entity, override.key, _replaced(override))
        for override in ended
        if not override.ends_with_document
    )


def _is_redeclared(change: QuotaChange, overrides: Overrides) -> bool:
    override = overrides.get((change.entity, change.key))
    return (
        change.claim is not None
        and override is not None
        and not same_value(change.key, change.after, _replaced(override))
    )


def _replaced(override: Override) -> float | None:
    return override.before if override.declared is None else override.declared
