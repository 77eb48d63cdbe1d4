"""Checks of a saved and reviewed plan: whether its preconditions still apply and the documents still declare its changes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from reconciler.errors import PlanRefused, StalePlan
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.ended_overrides import below_overrides
from reconciler.quota.planner.guards import check
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Preview
from reconciler.quota.state import NO_LIMITS
from reconciler.reconcile.differences import current_ip_aliases, precondition_differences
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
    expected = saved.plan.digest if digest is None else digest
    if recomputed.plan.digest == expected == saved.plan.digest:
        return
    mismatches = _operations(saved.plan.reviewed, recomputed.plan.reviewed)
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
        ip_aliases=current_ip_aliases(saved.plan, observation.live),
        changes=tuple(change for change in saved.plan.changes if not change.is_temporary),
    )
    judged = replace(
        plan,
        owned_pairs=observation.owned.pair_count,
        changes=tuple(_as_declared(change) for change in plan.changes),
    )
    below = below_overrides(observation.live, observation.settlement.owned)
    return PreparedPlan(
        preview=replace(
            saved,
            plan=plan,
            created_at=observation.at,
            violations=check(judged, options.guards, below),
        ),
        observation=observation,
    )


def _as_declared(change: QuotaChange) -> QuotaChange:
    """Return the change as guards judge it, whatever cause and document the plan names."""
    if change.claim is not None or change.removes:
        return change
    claim = Declaration(document="(none)", entity=change.entity, limits=NO_LIMITS)
    return replace(change, claim=claim)


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
        (change.is_temporary, ""),
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
