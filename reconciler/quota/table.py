"""The three-way table: which one row three values fall into, and what a write of unknown fate means for it.

    D desired, L last applied (or intended), V live; "=" as :func:`~reconciler.quota.keys.same_value` says

    D = L = V            InSync            D, no L, no V        Create
    D = V, no L          Adopt             D, no L, V other     Takeover
    D other, V = L       Spec              V = D, L other       Converged
    D = L, V other       Drift             D, L, V all differ   SpecOverDrift
    no D, V = L          Prune             no D, V other than L ChangedByAnother
    no D, L, no V        Gone              no D, no L, V        Unmanaged

The rows exclude each other. What may be done about each stands in ``policy.py``.
"""

from reconciler.quota.keys import Key, same_value
from reconciler.quota.owned import Intent
from reconciler.quota.policy import Cause


def classify(
    key: Key,
    *,
    desired: float | None,
    applied: float | None,
    live: float | None,
    intent: Intent | None = None,
) -> Cause | None:
    """The one row of the table that a pair falls into; ``None`` where there is nothing at all.

    Args:
        key: Which key; integral ones compare near whole numbers.
        desired: What is asked for.
        applied: What the record says was applied last.
        live: What the cluster has.
        intent: A write that may have happened: if its value is what is live, it counts as applied.
    """
    last = effective_applied(key, applied, intent, live)
    if desired is None:
        recorded = applied is not None or intent is not None
        return _undeclared(key, last, live, recorded=recorded)
    if last is None:
        if live is None:
            return Cause.CREATE
        return Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER
    if same_value(key, desired, live):
        return Cause.IN_SYNC if same_value(key, desired, last) else Cause.CONVERGED
    if same_value(key, desired, last):
        return Cause.DRIFT
    return Cause.SPEC if same_value(key, live, last) else Cause.SPEC_OVER_DRIFT


def _undeclared(
    key: Key, last: float | None, live: float | None, *, recorded: bool
) -> Cause | None:
    if live is None:
        return Cause.GONE if recorded else None
    if last is None:
        return Cause.UNMANAGED
    return Cause.PRUNE if same_value(key, live, last) else Cause.CHANGED_BY_ANOTHER


def landed(key: Key, intent: Intent | None, live: float | None) -> bool:
    """Whether what was intended is what is live: a set value, or none after a removal."""
    return intent is not None and same_value(key, intent.value, live)


def effective_applied(
    key: Key, applied: float | None, intent: Intent | None, live: float | None
) -> float | None:
    """What counts as last applied: an intended value that is live, since only its record was lost."""
    return intent.value if intent is not None and landed(key, intent, live) else applied
