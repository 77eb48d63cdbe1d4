"""Decides whether a status has to be written again; differences in times alone do not count."""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.manifest.rules.client_quota import seconds_of

REFRESH_SECONDS: Final = 600.0
"""Seconds by which the sync times of a status may lag before it is written for that alone."""

_IGNORED: Final = frozenset({"since", "firstSeen", "lastTransitionTime"})
_REFRESHED: Final = frozenset({"lastSuccessfulSyncTime", "nextSyncTime"})
CONDITIONS: Final = frozenset(
    {"Ready", "Drifted", "Conflict", "Paused", "Reconciling", "Stalled", "Doubtful"}
)
"""All types of conditions that the operator sets."""

_NAMED_BY: Final = ("type", "key", "name")


def unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether writing ``after`` in place of ``before`` would show nothing new.

    Args:
        before: The status as the API server has it.
        after: The computed status.
    """
    if before == after:
        return True  # The common case: thousands of documents in sync, compared at C speed.
    for name in _REFRESHED:
        previous_value, current_value = before.get(name), after.get(name)
        if (previous_value is None) != (current_value is None) or not _near(
            previous_value, current_value
        ):
            return False
    return _bare(_without_foreign_conditions(before)) == _bare(after)


def _without_foreign_conditions(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status without conditions of types that the operator never sets: others own them."""
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


def _near(first_value: object, second_value: object) -> bool:
    if first_value is None or first_value == second_value:
        return True
    first_time, second_time = seconds_of(str(first_value)), seconds_of(str(second_value))
    return (
        first_time is not None
        and second_time is not None
        and abs(second_time - first_time) < REFRESH_SECONDS
    )


def _bare(value: object) -> object:
    """Return the value without times; lists of named items become mappings by name."""
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
