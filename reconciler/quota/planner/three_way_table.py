"""The three-way table: which one row three values fall into.

    D desired, L last applied, V live; "=" as :func:`~reconciler.quota.keys.same_value` says

    D = L = V            InSync            D, no L, no V        Create
    D = V, no L          Adopt             D, no L, V other     Takeover
    D other, V = L       Spec              V = D, L other       Converged
    D = L, V other       Drift             D, L, V all differ   SpecOverDrift
    no D, V = L          Prune             no D, V other than L ChangedByAnother
    no D, L, no V        Gone              no D, no L, V        Unmanaged

The rows exclude each other. What may be done about each stands in ``quota/policy.py``. A write of unknown outcome is no
row: ``intent_settlement.py`` makes it a record or ends it before the table is read.
"""

from reconciler.quota.keys import Key, same_value
from reconciler.quota.policy import Cause


def classify(
    key: Key,
    *,
    desired: float | None,
    applied: float | None,
    live: float | None,
    is_pending: bool = False,
) -> Cause | None:
    """The one row of the table that a pair falls into; ``None`` where there is nothing at all.

    Args:
        key: Which key; integral ones compare near whole numbers.
        desired: What is asked for.
        applied: What the record says was applied last.
        live: What the cluster has.
        is_pending: Whether a write of ours may still land.
    """
    if desired is None:
        return _undeclared(key, applied, live, is_pending=is_pending)
    if applied is None:
        if live is None:
            return Cause.CREATE
        return Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER
    if same_value(key, desired, live):
        return Cause.IN_SYNC if same_value(key, desired, applied) else Cause.CONVERGED
    if same_value(key, desired, applied):
        return Cause.DRIFT
    return Cause.SPEC if same_value(key, live, applied) else Cause.SPEC_OVER_DRIFT


def _undeclared(
    key: Key, applied: float | None, live: float | None, *, is_pending: bool
) -> Cause | None:
    if live is None:
        return Cause.GONE if applied is not None or is_pending else None
    if applied is None:
        return Cause.UNMANAGED
    return Cause.PRUNE if same_value(key, live, applied) else Cause.CHANGED_BY_ANOTHER
