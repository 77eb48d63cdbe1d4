"""Whether a status has to be written again: equal but for times means no."""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.manifest.cluster_rules import seconds_of

REFRESH_SECONDS: Final = 600.0
"""So old the time of the last successful sync may grow in a status before it is written for its own sake."""

_IGNORED: Final = frozenset({"since", "firstSeen", "lastTransitionTime"})
_REFRESHED: Final = frozenset({"lastSuccessfulSyncTime", "nextSyncTime"})
CONDITIONS: Final = frozenset({"Ready", "Drifted", "Conflict", "Paused", "Reconciling", "Stalled"})
"""All types of conditions that we set."""

_NAMED_BY: Final = ("type", "key")


def unchanged(
    before: Mapping[str, Any], after: Mapping[str, Any], *, refresh: float = REFRESH_SECONDS
) -> bool:
    """Whether writing the second status in place of the first would tell nobody anything new.

    Args:
        before: The status as the API server has it.
        after: The one that was made.
        refresh: By how many seconds times of syncs may differ.
    """
    if before == after:
        return True  # What five thousand documents in order say at every pass, at C speed.
    for name in _REFRESHED:
        one, other = before.get(name), after.get(name)
        if (one is None) != (other is None) or not _near(one, other, refresh):
            return False
    return _bare(_ours(before)) == _bare(after)


def _ours(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without conditions of types that we never set: whoever did owns them, and writing changes nothing."""
    found = status.get("conditions")
    if not isinstance(found, list):
        return status
    ours = [one for one in found if not isinstance(one, Mapping) or one.get("type") in CONDITIONS]
    return status if len(ours) == len(found) else {**status, "conditions": ours}


def _near(one: object, other: object, most: float) -> bool:
    if one is None or one == other:
        return True
    earlier, later = seconds_of(str(one)), seconds_of(str(other))
    return earlier is not None and later is not None and abs(later - earlier) < most


def _bare(value: object) -> object:
    """The value without times of its own, lists of named things by name."""
    if isinstance(value, Mapping):
        dropped = _IGNORED | _REFRESHED
        return {name: _bare(one) for name, one in value.items() if name not in dropped}
    if not isinstance(value, list):
        return value
    for name in _NAMED_BY:
        if value and all(
            isinstance(one, Mapping) and name in one and "entity" not in one for one in value
        ):
            return {one[name]: _bare(one) for one in value}
    return [_bare(one) for one in value]
