"""Checks of a saved and reviewed plan: whether its preconditions still apply and the documents still declare its changes."""

from collections.abc import Iterable
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.errors import StalePlan
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.planner.effect_digest import document_of, operation_of
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.results.report import Preview
from reconciler.reconcile.differences import precondition_differences
from reconciler.reconcile.observation import Observation
from reconciler.reconcile.workflow import PreparedPlan
from reconciler.render.units import age, limit

SavedPlan = Preview
"""The type that ``reconciler.codecs.plan.read_plan`` returns."""

MAX_AGE_SECONDS: Final = 86_400.0
"""Maximum age of a reviewed plan: one day."""

AHEAD_SECONDS: Final = 600.0
"""How far the clock of the machine that created a plan may be ahead of the local clock; the same as for evidence."""

SHOWN_DIFFERENCES: Final = 50


def check_fresh(
    saved: SavedPlan, observation: Observation, *, now: float, max_age: float = MAX_AGE_SECONDS
) -> None:
    """Check that the cluster, records and live values still match the preconditions of the plan.

    Raises:
        StalePlan: They do not match, or the plan is too old or from the future; the error lists all differences.
    """
    mismatches: list[str] = []
    if saved.plan.cluster_id != observation.cluster_id:
        mismatches.append(
            f"the plan is for cluster {saved.plan.cluster_id}, the current cluster is {observation.cluster_id}"
        )
    if now - saved.created_at > max_age:
        mismatches.append(
            f"the plan is {age(now - saved.created_at)} old; {age(max_age)} is allowed (--max-age)"
        )
    if saved.created_at > now + AHEAD_SECONDS:
        mismatches.append(
            f"the creation time of the plan is {age(saved.created_at - now)} in the future: check the clocks of both machines"
        )
    if saved.plan.cluster_id == observation.cluster_id:
        mismatches.extend(precondition_differences(saved, observation))
    if mismatches:
        raise _stale("the saved plan no longer fits", mismatches)


def check_same_effect(
    saved: SavedPlan, recomputed: PreparedPlan, *, digest: str | None = None
) -> None:
    """Check that the current documents produce exactly the reviewed changes.

    Args:
        recomputed: The plan from the current documents.
        digest: The approved digest (``--expect-digest``); ``None`` = that of ``saved``.

    Raises:
        StalePlan: The changes differ; the error lists the operations.
    """
    reviewed = saved.digest
    expected = reviewed if digest is None else digest
    if recomputed.preview.digest == expected == reviewed:
        return
    mismatches = _operations(saved.plan.reviewed, recomputed.plan.reviewed)
    if reviewed != expected:
        mismatches.append(f"the saved plan has digest {reviewed}, approved was {expected}")
    raise _stale("the documents no longer result in the reviewed plan", mismatches)


def check_digest(plan: PreparedPlan, expected: str) -> None:
    """Check that a plan that was not saved has the approved digest.

    Raises:
        StalePlan: The digest differs.
    """
    if plan.preview.digest != expected:
        raise _stale(
            "the plan is not the approved one",
            [f"its digest is {plan.preview.digest}, approved was {expected}"],
        )


def _operations(saved: Iterable[QuotaChange], now: Iterable[QuotaChange]) -> list[str]:
    saved_by_pair = {change.pair: change for change in saved}
    current_by_pair = {change.pair: change for change in now}
    mismatches: list[str] = []
    for pair in [*saved_by_pair, *(pair for pair in current_by_pair if pair not in saved_by_pair)]:
        then, today = saved_by_pair.get(pair), current_by_pair.get(pair)
        if then is None or today is None or operation_of(then) != operation_of(today):
            effects = _effect(then), _effect(today)
            if effects[0] == effects[1]:
                effects = f"{effects[0]} {_origin(then)}", f"{effects[1]} {_origin(today)}"
            mismatches.append(
                f"{entity_text(pair[0])} {pair[1]}: reviewed {effects[0]}, now {effects[1]}"
            )
    return mismatches


def _effect(change: QuotaChange | None) -> str:
    if change is None:
        return "nothing"
    return "remove" if change.after is None else f"set {limit(change.key, change.after)}"


def _origin(change: QuotaChange | None) -> str:
    if change is None:
        return ""
    document = escaped(document_of(change)) or "no document"
    return f"from {limit(change.key, change.before)} for {document} ({change.cause})"


def _stale(message: str, mismatches: list[str]) -> StalePlan:
    extra_count = len(mismatches) - SHOWN_DIFFERENCES
    displayed = mismatches[:SHOWN_DIFFERENCES] + (
        [f"and {extra_count} more"] if extra_count > 0 else []
    )
    return StalePlan(message, differences=displayed, hint="plan again and have it reviewed again")
