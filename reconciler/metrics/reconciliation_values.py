"""Converts a reconciliation into numbers. Independent of Prometheus."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.quota.entity import sanitized
from reconciler.quota.planner.plan import TEMPORARY, Plan
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Outcome, PairVisibility, Reconciliation, WithheldChange
from reconciler.quota.state import QuotaState, set_values

OPERATIONS: Final = ("create", "update", "remove")
"""Every ``QuotaChange.action``."""

OUTCOMES: Final = ("applied", "rejected", "held", "unknown", "not_sent")
"""Every ``PairOutcome.status_text``, as a label value."""


def states(reconciliation: Reconciliation, plan: Plan, *, foreign: int) -> Mapping[str, int]:
    """Return the number of pairs in each state of ``families.STATES``.

    Drifted are those with confirmed drift (``DriftObservation.confirmed``), so that alerts, messages and this number
    agree.

    Args:
        foreign: Number of pairs with an unknown entity type or key.
    """
    return {
        "declared": plan.desired_pairs,
        "owned": plan.owned_pairs,
        "in_sync": plan.in_sync,
        "drifted": sum(observation.confirmed for observation in reconciliation.observations),
        "unmanaged": len(plan.unmanaged),
        "orphaned": len(plan.orphans),
        "frozen": len(plan.findings_for(Cause.FROZEN)),
        "restricted": len(plan.restricted),
        "overridden": len(plan.findings_for(*TEMPORARY)),
        "foreign": foreign,
    }


def foreign_pairs(live: QuotaState) -> int:
    """Return the number of pairs with an unknown entity type or key."""
    unknown_keys = sum(len(values) for values in live.foreign_values.values())
    return unknown_keys + sum(len(values) for _, values in live.foreign_entities)


def named_limits(live: QuotaState) -> Iterator[tuple[str, str, str, float]]:
    """Yield ``(user, client-id, key, limit)`` of every live pair without default slots; "" for an absent slot.

    Brokers tag their metrics of a client with exactly the slots of the entity that limits it, and omit an absent one,
    which Prometheus treats as "". Clients of an entity with a default slot cannot be joined by name; limits of
    addresses have no such metric.
    """
    for (user, client_id, ip), limits in live.limits.items():
        if user is None or client_id is None or ip is not False:
            continue
        for key, value in set_values(limits):
            yield sanitized(user or ""), client_id or "", key.value, value


def verdict(reconciliation: Reconciliation) -> tuple[str, str]:
    """Return ``(result, reason)`` of a reconciliation: words of a small set, never a message."""
    if reconciliation.error is not None:
        return "failed", _snake_case(type(reconciliation.error).__name__)
    if reconciliation.preview is None:
        return "failed", "no_plan"
    if reconciliation.withheld:
        return "incomplete", "withheld"
    if reconciliation.outcome is None or reconciliation.outcome.complete:
        return "in_order", ""
    return "incomplete", _unsuccessful(reconciliation.outcome)


def _unsuccessful(outcome: Outcome) -> str:
    """Return the first of these that applies to an outcome; the worst is first."""
    for word in ("UNKNOWN", "REJECTED", "HELD"):
        if outcome.count(word):
            return word.lower()
    if outcome.interrupted:
        return "interrupted"
    if not outcome.recorded:
        return "not_recorded"
    if any(pair.visibility is PairVisibility.CHANGED for pair in outcome.pairs):
        return "changed_by_another"
    if any(pair.visibility is not PairVisibility.VISIBLE for pair in outcome.pairs):
        return "not_visible"
    return "broken_off"


def operations(outcome: Outcome) -> Mapping[tuple[str, str], int]:
    """Return the number of operations by ``(operation, outcome)``."""
    return Counter(
        (pair.change.action, pair.status_text.lower().replace(" ", "_")) for pair in outcome.pairs
    )


def corrections(outcome: Outcome) -> int:
    """Return the number of corrected drifted pairs."""
    return sum(
        pair.change.cause is Cause.DRIFT and pair.status_text == "APPLIED" for pair in outcome.pairs
    )


def withheld_counts(changes: tuple[WithheldChange, ...]) -> Mapping[str, int]:
    """Return the number of operations that each guard withheld; one withheld by two guards counts for both."""
    return Counter(
        guard
        for withheld_change in changes
        for guard in sorted({violation.guard.value for violation in withheld_change.violations})
    )


def _snake_case(class_name: str) -> str:
    """``RequestTimeout`` -> ``request_timeout``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()
