"""Deleted documents that wait for a removal budget: the wait does not count against their deletion timeout."""

from collections.abc import Collection, Mapping

from reconciler.kube.api.custom_resources import Obj, status_of
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.removal_budgets import NEXT_AT
from reconciler.quota.results.report import Reconciliation


def waited_for_budget(
    leaving: Mapping[str, Obj],
    waiting_pairs: Mapping[str, Collection[Pair]],
    report: Reconciliation,
    before: Mapping[str, float],
    *,
    now: float,
) -> Mapping[str, float]:
    """Return when documents that are being deleted last waited for a budget, in seconds since the epoch.

    Args:
        leaving: Documents that are being deleted, with their current statuses.
        waiting_pairs: Documents whose limits still have to be removed, with these limits.
        before: The result of the previous reconciliation; empty after a restart.
        now: Seconds since the epoch.
    """
    waiting = {
        (withheld.change.entity, withheld.change.key)
        for withheld in report.withheld
        if any(violation.retry_at is not None for violation in withheld.violations)
    }
    times: dict[str, float] = {}
    for document, pairs in waiting_pairs.items():
        if report.preview is None:
            # No plan: use the previous result, or after a restart the status.
            at = before.get(document, now if _mentions_next_removal(leaving[document]) else 0.0)
        else:
            at = now if not waiting.isdisjoint(pairs) else before.get(document, 0.0)
            if not at and _mentions_next_removal(leaving[document]):
                at = now  # It waited until this reconciliation, whose removal failed.
        if at:
            times[document] = at
    return times


def _mentions_next_removal(obj: Obj) -> bool:
    return any(
        NEXT_AT in str(key_entry.get("message", "")) for key_entry in status_of(obj).get("keys", ())
    )
