"""Conditions of a resource, derived from its reason.

Ready, Drifted, Conflict and Paused are always present, Reconciling, Stalled, Doubtful and OverBudget only while true.

``lastTransitionTime`` changes only when a condition's status changes, so that a restart writes nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from reconciler import errors
from reconciler.base.escaping import escaped_lines
from reconciler.kube.api.custom_resources import read_time, time_text
from reconciler.kube.status.reasons import Reason, Truth
from reconciler.manifest.rules.client_quota import seconds_of

REFRESH_SECONDS: Final = 600.0
"""Seconds by which the sync times of a status may lag before it is written for that alone."""

_REFRESHED: Final = frozenset({"lastSuccessfulSyncTime", "nextSyncTime"})
CONDITIONS: Final = frozenset(
    {"Ready", "Drifted", "Conflict", "Paused", "Reconciling", "Stalled", "Doubtful", "OverBudget"}
)
"""All types of conditions that the operator sets."""

_NAMES: Final = {"conditions": "type", "keys": "key", "clusters": "name"}
"""The lists of a status, and the field that names their items: the API server may order them in another way."""


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
    return _comparable(before) == _comparable(after)


def _comparable(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status without the times of syncs, and without conditions of types that the operator never sets."""
    fields = {name: value for name, value in status.items() if name not in _REFRESHED}
    for field, name in _NAMES.items():
        if isinstance(items := fields.get(field), list):
            fields[field] = {
                item.get(name): _comparable(item)
                for item in items
                if field != "conditions" or item.get(name) in CONDITIONS
            }
    return fields


def _near(first_value: object, second_value: object) -> bool:
    if first_value is None or first_value == second_value:
        return True
    first_time, second_time = seconds_of(str(first_value)), seconds_of(str(second_value))
    return (
        first_time is not None
        and second_time is not None
        and abs(second_time - first_time) < REFRESH_SECONDS
    )


MOST_CHARACTERS: Final = 1024
"""Maximum characters of a message; the schema allows more, but thousands of objects store one each."""

NOT_COMPARED: Final = "NotCompared"


class ReconcileFailure(Struct, frozen=True, kw_only=True):
    """Why a whole reconciliation failed."""

    reason: Reason
    # For the owner of the QuotaCluster; documents show the sentence of the reason's row instead.
    message: str


def conditions(
    reason: Reason,
    message: str,
    *,
    generation: int,
    previous: Iterable[Mapping[str, Any]],
    now: float,
    drifted: str | None = None,
    conflict: str | None = None,
    doubt: str = "",
    doubt_reason: str = "MatchesNoClient",
    over_budget: str = "",
    keep: bool = False,
) -> list[dict[str, Any]]:
    """Return the conditions of a resource.

    Args:
        reason: Reason of the Ready condition.
        message: Message; cut if too long.
        generation: The observed generation.
        previous: The current conditions.
        now: Seconds since the epoch.
        drifted: Message of Drifted; "" = no drift, ``None`` = not compared.
        conflict: Message of Conflict; "" = no conflict, ``None`` = not compared.
        doubt: Message of Doubtful; "" = no doubt.
        doubt_reason: Its reason.
        over_budget: Message of OverBudget; "" = no budget is exceeded.
        keep: Whether Drifted, Conflict and OverBudget keep their previous values, because nothing was compared.
    """
    before = {
        str(previous_condition.get("type")): previous_condition for previous_condition in previous
    }
    words = bounded(message)
    conditions_now = [_condition("Ready", reason.ready, reason, words)]
    conditions_now.append(_aspect("Drifted", "NoDrift", drifted, before if keep else {}))
    conditions_now.append(_aspect("Conflict", "NoConflict", conflict, before if keep else {}))
    conditions_now.append(
        _condition("Paused", "True", reason, words)
        if reason.paused
        else _condition("Paused", "False", "NotSuspended", "")
    )
    if reason.reconciling:
        conditions_now.append(_condition("Reconciling", "True", reason, words))
    if reason.stalled:
        conditions_now.append(_condition("Stalled", "True", reason, words))
    if doubt:
        conditions_now.append(_condition("Doubtful", "True", doubt_reason, bounded(doubt)))
    if over_budget:
        conditions_now.append(
            _condition("OverBudget", "True", "BudgetExceeded", bounded(over_budget))
        )
    elif keep and "OverBudget" in before:
        conditions_now.append(dict(before["OverBudget"]))
    for condition in conditions_now:
        if "observedGeneration" not in condition:
            condition["observedGeneration"] = generation
        condition["lastTransitionTime"] = _since(condition, before, now)
    return conditions_now


def _condition(kind: str, status: Truth, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": str(reason), "message": message}


def _aspect(
    kind: str, nothing: str, problem: str | None, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if problem is None:
        previous = before.get(kind)
        return dict(previous) if previous else _condition(kind, "Unknown", NOT_COMPARED, "")
    if problem:
        return _condition(kind, "True", kind, bounded(problem))
    return _condition(kind, "False", nothing, "")


def _since(
    condition: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]], now: float
) -> str:
    previous = before.get(condition["type"])
    if previous is not None and previous.get("status") == condition["status"]:
        transition_time = previous.get("lastTransitionTime")
        if isinstance(transition_time, str) and read_time(transition_time) is not None:
            return transition_time
    return time_text(now)


def bounded(text: str, max_characters: int = MOST_CHARACTERS) -> str:
    """Return the text, control characters escaped, cut to ``max_characters`` with the number of omitted characters."""
    text = escaped_lines(text)
    if len(text) <= max_characters:
        return text
    mark = f" … ({len(text) - max_characters} characters more)"
    return text[: max_characters - len(mark)] + mark


def first_of(texts: Iterable[str], most: int) -> str:
    """Join the first texts, with the number of those that are left out."""
    listed_texts = list(texts)
    if (more := len(listed_texts) - most) > 0:
        listed_texts[most:] = [f"and {more} more"]
    return "; ".join(listed_texts)


# ---- errors ----------------------------------------------------------------------------------

_OF_ERRORS: Final[tuple[tuple[type[errors.KquotaError], Reason], ...]] = (
    (errors.WrongCluster, Reason.WRONG_CLUSTER),
    (errors.AuthenticationError, Reason.AUTHENTICATION_FAILED),
    (errors.AuthorizationError, Reason.AUTHORIZATION_FAILED),
    (errors.TlsError, Reason.TLS_FAILED),
    (errors.ControllerUnavailable, Reason.BROKER_UNAVAILABLE),
    (errors.UnsupportedVersion, Reason.UNSUPPORTED_BROKER),
    (errors.ConnectError, Reason.BROKER_UNAVAILABLE),
    (errors.RequestTimeout, Reason.BROKER_UNAVAILABLE),
    (errors.InventoryLocked, Reason.OTHER_QUOTA_CLUSTER),
    (errors.InventoryError, Reason.RECORDS_UNREADABLE),
    (errors.CredentialsError, Reason.SECRET_INVALID),
    (errors.ConfigError, Reason.INVALID),
    (errors.StalePlan, Reason.PENDING),
    (errors.Interrupted, Reason.PENDING),
    (errors.LeaseLost, Reason.PENDING),
)
"""Closest class first."""


def trouble_of(error: errors.KquotaError) -> ReconcileFailure:
    """Map an error that ended a reconciliation to a reason and a message: the first matching row, else a failure."""
    message = f"{error}; {error.hint}" if error.hint else str(error)
    return ReconcileFailure(reason=_reason_of(error), message=message)


def _reason_of(error: errors.KquotaError) -> Reason:
    if isinstance(error, errors.KubernetesError):
        return Reason.KUBERNETES_UNAVAILABLE if error.retriable else Reason.KUBERNETES_REFUSED
    for kind, reason in _OF_ERRORS:
        if isinstance(error, kind):
            return reason
    return Reason.PENDING if error.retriable else Reason.FAILED
