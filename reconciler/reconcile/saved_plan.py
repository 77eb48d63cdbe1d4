"""Checks of a saved and reviewed plan: whether its preconditions still apply and the documents still declare its changes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from reconciler.errors import PlanRefused, StalePlan
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.keys import same_value
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.guards import check
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.three_way_table import has_written, is_left_behind
from reconciler.quota.policy import Cause, Policy, Rules
from reconciler.quota.results.report import Preview
from reconciler.quota.state import NO_LIMITS
from reconciler.reconcile.differences import (
    override_differences,
    precondition_differences,
)
from reconciler.reconcile.observation import Observation, rules_for
from reconciler.reconcile.options import ReconcileOptions
from reconciler.reconcile.workflow import PreparedPlan
from reconciler.render.units import age, count, limit

SavedPlan = Preview
"""The type that ``reconciler.codecs.plan.read_plan`` returns."""

MAX_AGE_SECONDS: Final = 86_400.0
"""Maximum age of a reviewed plan: one day."""

AHEAD_SECONDS: Final = 600.0
"""How far the clock of the machine that created a plan may be ahead of the local clock; the same as for evidence."""

SHOWN_DIFFERENCES: Final = 50

_OF_OVERRIDES: Final = frozenset({Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})


def check_fresh(
    saved: SavedPlan, observation: Observation, *, now: float, max_age: float = MAX_AGE_SECONDS
) -> None:
    """Check that the cluster, records, overrides and live values still match the preconditions of the plan.

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
        mismatches.extend(override_differences(saved, observation, now=now))
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
    expected = saved.plan.digest if digest is None else digest
    if recomputed.plan.digest == expected == saved.plan.digest:
        return
    mismatches = _operations(saved.plan.changes, recomputed.plan.changes)
    if saved.plan.digest != expected:
        mismatches.append(f"the saved plan has digest {saved.plan.digest}, approved was {expected}")
    raise _stale("the documents no longer result in the reviewed plan", mismatches)


def check_digest(plan: PreparedPlan | SavedPlan, expected: str) -> None:
    """Check that a plan has the approved digest: one without a saved plan, or a saved plan that is not recomputed.

    Raises:
        StalePlan: The digest differs.
    """
    if plan.plan.digest != expected:
        raise _stale(
            "the plan is not the approved one",
            [f"its digest is {plan.plan.digest}, approved was {expected}"],
        )


def trust_plan(
    saved: SavedPlan, observation: Observation, options: ReconcileOptions
) -> PreparedPlan:
    """Return the saved plan, ready to be applied without recomputing it (``--trust-plan``).

    Call ``check_fresh`` first. Policy, scope and guards come from the local configuration, the number of owned pairs and
    the overrides, which guards do not judge, from the records. The documents and record changes come from the plan.

    Raises:
        PlanRefused: The policy in force, or the scope, does not permit a change.
    """
    _check_permitted(saved, observation, options)
    plan = replace(
        saved.plan,
        changes=tuple(_with_owner(change, observation) for change in saved.plan.changes),
    )
    judged = replace(
        plan,
        owned_pairs=observation.owned.pair_count,
        changes=tuple(
            change if _is_of_override(change, observation) else _as_declared(change)
            for change in plan.changes
        ),
    )
    violations = check(judged, options.guards, observation.live, observation.owned.overrides)
    return PreparedPlan(
        preview=replace(saved, plan=plan, created_at=observation.at, violations=violations),
        observation=observation,
    )


def _is_of_override(change: QuotaChange, observation: Observation) -> bool:
    """Whether the records have an override that permits a change: it writes its value, or ends it.

    The end writes the replaced value, but not that of a rollback, or one that a document declares and guards judge.
    """
    override = observation.owned.overrides.get(change.pair)
    if override is None:
        return False
    has_its_value = same_value(change.key, change.after, override.value)
    if observation.at < override.until and (has_its_value or not override.ends_with_document):
        return has_its_value
    values = change.before, observation.settlement.owned.applied_value(change.pair)
    is_declared = change.cause is Cause.OVERRIDE_EXPIRED and change.claim is not None
    is_replaced = same_value(change.key, change.after, override.before)
    return (is_declared and has_written(override, *values)) or (
        is_replaced and is_left_behind(override, *values)
    )


def _with_owner(change: QuotaChange, observation: Observation) -> QuotaChange:
    """Return a change with whether it restores the limit of a document, which only the records say."""
    override = observation.owned.overrides.get(change.pair)
    is_end = change.cause is Cause.OVERRIDE_EXPIRED and change.claim is None
    keeps = is_end and override is not None and override.before_owner is not None
    return replace(change, keeps_owner=True) if keeps else change


def _as_declared(change: QuotaChange) -> QuotaChange:
    """Return the change as guards judge it, whatever cause and document the plan names."""
    cause = Cause.SPEC if change.cause in _OF_OVERRIDES else change.cause
    if change.claim is not None or change.removes:
        return replace(change, cause=cause)
    claim = Declaration(document="(none)", entity=change.entity, limits=NO_LIMITS)
    return replace(change, cause=cause, claim=claim)


def _check_permitted(saved: SavedPlan, observation: Observation, options: ReconcileOptions) -> None:
    """Raise PlanRefused if the rules do not permit the changes; a saved plan may name any policy and any cause."""
    rules = rules_for(options, observation)
    refusals = [
        f"{entity_text(change.entity)} {change.key}: {refusal}"
        for change in saved.plan.changes
        if (refusal := _refusal(change, rules, observation))
    ]
    if refusals:
        raise PlanRefused(
            f"the rules in force do not permit {count(len(refusals), 'change')} of the saved plan",
            violations=refusals,
            hint="plan again under the rules in force",
        )


def _refusal(change: QuotaChange, rules: Rules, observation: Observation) -> str:
    """Return why the rules do not permit a change; "" if they do."""
    is_exclusive = rules.in_force is Policy.SYNC and rules.exclusive and bool(rules.scope)
    is_owned_removal = change.removes and change.applied is not None
    cases = (
        (rules.in_force is Policy.OBSERVE, "policy Observe writes nothing"),
        (_is_of_override(change, observation), ""),
        (not rules.in_scope(change.entity) and not is_owned_removal, "it is outside of the scope"),
        (
            rules.ignored(change.entity, change.key, observation.at) is not None,
            "its differences are ignored",
        ),
        (
            rules.in_force is Policy.CREATE_ONLY and change.before is not None,
            "policy CreateOnly changes no limit that is live",
        ),
        (
            change.removes and not is_owned_removal and not is_exclusive,
            "it is removed although it is not owned",
        ),
    )
    return next((words for holds, words in cases if holds), "")


def _operations(saved: Iterable[QuotaChange], now: Iterable[QuotaChange]) -> list[str]:
    saved_by_pair = {change.pair: change for change in saved}
    current_by_pair = {change.pair: change for change in now}
    mismatches: list[str] = []
    for pair in [*saved_by_pair, *(pair for pair in current_by_pair if pair not in saved_by_pair)]:
        then, today = saved_by_pair.get(pair), current_by_pair.get(pair)
        if then is None or today is None or then.after != today.after:
            mismatches.append(
                f"{entity_text(pair[0])} {pair[1]}: reviewed {_effect(then)}, now {_effect(today)}"
            )
    return mismatches


def _effect(change: QuotaChange | None) -> str:
    if change is None:
        return "nothing"
    return "remove" if change.after is None else f"set {limit(change.key, change.after)}"


def _stale(message: str, mismatches: list[str]) -> StalePlan:
    extra_count = len(mismatches) - SHOWN_DIFFERENCES
    displayed = mismatches[:SHOWN_DIFFERENCES] + (
        [f"and {extra_count} more"] if extra_count > 0 else []
    )
    return StalePlan(message, differences=displayed, hint="plan again and have it reviewed again")
