"""What changed since a plan was computed, as text: its preconditions, live values under overrides, and their ends."""

from reconciler.base.escaping import escaped
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.keys import same_value
from reconciler.quota.overrides import Override
from reconciler.quota.planner.preconditions import (
    Precondition,
    PreconditionChange,
    differences,
    preconditions_of,
)
from reconciler.quota.planner.temporary_limits import below_overrides
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview
from reconciler.reconcile.observation import Observation
from reconciler.render.units import limit


def precondition_differences(preview: Preview, observation: Observation) -> list[str]:
    """Return one line for each precondition of a plan that the observation does not meet."""
    owned = observation.settlement.owned
    current = preconditions_of(
        preview.plan.reviewed, owned=owned, live=below_overrides(observation.live, owned)
    )
    return [difference_text(change) for change in differences(preview.preconditions, current)]


def observation_differences(preview: Preview, before: Observation, after: Observation) -> list[str]:
    """Return the differences of a second observation: preconditions and records.

    A git ref has no lock: record changes of the plan would replace those of the other run.
    """
    lines = precondition_differences(preview, after)
    lines.extend(
        f"{entity_text(change.entity)} {change.key}: live was {limit(change.key, change.before)}, is {limit(change.key, live)}"
        for change in preview.plan.changes
        if not change.is_reviewed
        and not same_value(change.key, live := after.live.value(*change.pair), change.before)
    )
    if before.owned != after.owned:
        lines.append("another run wrote ownership records")
    return lines


def ended_overrides(preview: Preview, observation: Observation, *, now: float) -> list[str]:
    """Return one line for each override whose value a plan writes and whose time is over since."""
    overrides = observation.owned.overrides
    return [
        _override_text(override)
        for change in preview.plan.changes
        if change.is_temporary
        and change.cause is not Cause.ENDED
        and (override := overrides.get(change.pair)) is not None
        and preview.created_at < override.until <= now
    ]


def difference_text(difference: PreconditionChange) -> str:
    """Return one line: the pair, its values when the plan was computed and its values now."""
    pair = f"{entity_text(difference.entity)} {difference.key}"
    if difference.then is None:
        return f"{pair}: newly set to {_live(difference.now)}; clients of a removal would fall back to it"
    if difference.now is None:
        return f"{pair}: was {_live(difference.then)} and is gone; clients of a removal would have fallen back to it"
    parts: list[str] = []
    if difference.then.live != difference.now.live:
        parts.append(f"live was {_live(difference.then)}, is {_live(difference.now)}")
    if difference.then.applied != difference.now.applied:
        parts.append(
            f"last applied was {limit(difference.key, difference.then.applied)}, is {limit(difference.key, difference.now.applied)}"
        )
    if difference.then.document != difference.now.document:
        parts.append(
            f"was owned by {_owner(difference.then)}, is owned by {_owner(difference.now)}"
        )
    return f"{pair}: " + "; ".join(parts)


def _override_text(override: Override) -> str:
    value = limit(override.key, override.value)
    return f"{entity_text(override.entity)} {override.key}: {value} is the value of an override that has ended"


def _live(precondition: Precondition | None) -> str:
    return (
        "not set"
        if precondition is None or precondition.live is None
        else limit(precondition.key, precondition.live)
    )


def _owner(precondition: Precondition) -> str:
    return escaped(precondition.document) or "no document"
