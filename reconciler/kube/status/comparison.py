"""Whether a status has to be written again: equal but for times means no."""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.manifest.rules.cluster import seconds_of

REFRESH_SECONDS: Final = 600.0
"""So old the time of the last successful sync may grow in a status before it is written for its own sake."""

_IGNORED: Final = frozenset({"since", "firstSeen", "lastTransitionTime"})
_REFRESHED: Final = frozenset({"lastSuccessfulSyncTime", "nextSyncTime"})
CONDITIONS: Final = frozenset({"Ready", "Drifted", "Conflict", "Paused", "Reconciling", "Stalled"})
"""All types of conditions that we set."""

_NAMED_BY: Final = ("type", "key", "name")


def unchanged(
    before: Mapping[str, Any], after: Mapping[str, Any], *, refresh: float = REFRESH_SECONDS
) -> bool:
    """Whether writing the second status in place of the first would show nothing new.

    Args:
        before: The status as the API server has it.
        after: The one that was made.
        refresh: By how many seconds times of syncs may differ.
    """
    if before == after:
        return True  # What five thousand documents in order say at every pass, at C speed.
    for name in _REFRESHED:
        previous_value, current_value = before.get(name), after.get(name)
        if (previous_value is None) != (current_value is None) or not _near(
            previous_value, current_value, refresh
        ):
            return False
    return _bare(_without_foreign_conditions(before)) == _bare(after)


def _without_foreign_conditions(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without conditions of types that we never set: others own them, and writing changes nothing."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status
    own_conditions = [
        condition
        for condition in conditions
        if not isinstance(condition, Mapping) or condition.get("type") in CONDITIONS
    ]
    return (
        status
        if len(own_conditions) == len(conditions)
        else {**status, "conditions": own_conditions}
    )


def _near(first_value: object, second_value: object, tolerance: float) -> bool:
    if first_value is None or first_value == second_value:
        return True
    first_time, second_time = seconds_of(str(first_value)), seconds_of(str(second_value))
    return (
        first_time is not None
        and second_time is not None
        and abs(second_time - first_time) < tolerance
    )


def _bare(value: object) -> object:
    """The value without times of its own, lists of named things by name."""
    if isinstance(value, Mapping):
        dropped = _IGNORED | _REFRESHED
        return {
            name: _bare(field_value) for name, field_value in value.items() if name not in dropped
        }
    if not isinstance(value, list):
        return value
    for name in _NAMED_BY:
        if value and all(
            isinstance(item, Mapping) and name in item and "entity" not in item for item in value
        ):
            return {item[name]: _bare(item) for item in value}
    return [_bare(item) for item in value]
