"""What a pass means in numbers. Values in, numbers out; knows no Prometheus."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.quota.entity_forms import sanitized
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    Outcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)
from reconciler.quota.state import QuotaState, set_values

OPERATIONS: Final = ("create", "update", "remove")
"""Every ``Change.action``."""

OUTCOMES: Final = ("applied", "rejected", "held", "unknown", "not_sent")
"""Every ``PairOutcome.word``, as a label value."""


def states(reconciliation: Reconciliation, plan: Plan, *, foreign: int) -> Mapping[str, int]:
    """How many pairs stand in each state of ``families.STATES``.

    Drifted are those that were seen often enough to be spoken of (``Sighting.confirmed``), so that alerts, messages
    and this number agree.

    Args:
        reconciliation: The pass.
        plan: Its plan.
        foreign: Pairs of entity types or keys that we do not know.
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
        "overridden": len(plan.findings_for(Cause.OVERRIDE)),
        "foreign": foreign,
    }


def foreign_pairs(live: QuotaState) -> int:
    """How many pairs have an entity type or a key that we do not know."""
    unknown_keys = sum(len(values) for values in live.foreign_values.values())
    return unknown_keys + sum(len(values) for _, values in live.foreign_entities)


def named_limits(live: QuotaState) -> Iterator[tuple[str, str, str, float]]:
    """``(user, client-id, key, limit)`` of every live pair that names what it limits; "" for an absent slot.

    Brokers tag their metrics of a client with exactly the slots of the entity that limits it, and leave out an absent
    one, which to Prometheus is the same as "". What an entity with a default slot limits cannot be joined by name;
    limits of addresses have no such metric.
    """
    for (user, client_id, ip), limits in live.limits.items():
        if user is None or client_id is None or ip is not False:
            continue
        for key, value in set_values(limits):
            yield sanitized(user or ""), client_id or "", key.value, value


def verdict(reconciliation: Reconciliation) -> tuple[str, str]:
    """``(result, reason)`` of a pass: words of a small set, never a message."""
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
    """The first of these that is true of an outcome; the worst one stands first."""
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
    """How many operations of each kind ended how: ``(operation, outcome)`` -> count."""
    return Counter(
        (pair.change.action, pair.status_text.lower().replace(" ", "_")) for pair in outcome.pairs
    )


def corrections(outcome: Outcome) -> int:
    """How many drifted pairs were set again."""
    return sum(
        pair.change.cause is Cause.DRIFT and pair.status_text == "APPLIED" for pair in outcome.pairs
    )


def withheld(changes: tuple[WithheldChange, ...]) -> Mapping[str, int]:
    """How many operations each guard kept back; one that two guards speak against counts for both."""
    return Counter(
        guard
        for withheld_change in changes
        for guard in sorted({violation.guard.value for violation in withheld_change.violations})
    )


def _snake_case(class_name: str) -> str:
    """``RequestTimeout`` -> ``request_timeout``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()
