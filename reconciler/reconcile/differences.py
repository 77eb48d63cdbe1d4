"""What changed since a plan was computed, as text: its preconditions, and overrides that began or ended."""

from collections.abc import Iterable

from reconciler.base.escaping import escaped
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.ownership import Override, OverrideSet, RecordChange
from reconciler.quota.planner.preconditions import (
    Precondition,
    PreconditionChange,
    contradicting_overrides,
    differences,
    preconditions_of,
)
from reconciler.quota.results.report import Preview
from reconciler.reconcile.observation import Observation
from reconciler.render.units import limit


def precondition_differences(preview: Preview, observation: Observation) -> list[str]:
    """Return one line for each precondition of a plan that the observation does not meet."""
    current = preconditions_of(
        preview.plan.changes, owned=observation.settlement.owned, live=observation.live
    )
    return [difference_text(change) for change in differences(preview.preconditions, current)]


def observation_differences(preview: Preview, before: Observation, after: Observation) -> list[str]:
    """Return the differences of a second observation: preconditions and records.

    A git ref has no lock: record changes of the plan would replace those of the other run.
    """
    lines = precondition_differences(preview, after)
    if before.owned != after.owned:
        lines.append("another run wrote ownership records")
    return lines


def override_differences(
    preview: Preview,
    observation: Observation,
    record_changes: Iterable[RecordChange] = (),
    *,
    now: float,
) -> list[str]:
    """Return one line for each recorded override that began or ended since the plan was computed and needs another value.

    An override that begins or ends with the plan is what its user ordered: its pair is not judged, even if its time is
    over by then.

    Args:
        observation: Has the records.
        record_changes: Overrides that begin or end with the plan.
        now: In seconds since the epoch.
    """
    ordered = {change.override.pair for change in record_changes if isinstance(change, OverrideSet)}
    overrides = {
        pair: override
        for pair, override in observation.owned.overrides.items()
        if pair not in ordered
    }
    contradicting = contradicting_overrides(
        preview.plan.changes, overrides, planned_at=preview.created_at, now=now
    )
    return [_override_text(override, now) for override in contradicting]


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


def _override_text(override: Override, now: float) -> str:
    pair = f"{entity_text(override.entity)} {override.key}"
    value = limit(override.key, override.value)
    if override.until <= now:
        return f"{pair}: {value} is the value of an override that has ended"
    return f"{pair}: an override to {value} is in force: {escaped(override.reason)}"


def _live(precondition: Precondition | None) -> str:
    return (
        "not set"
        if precondition is None or precondition.live is None
        else limit(precondition.key, precondition.live)
    )


def _owner(precondition: Precondition) -> str:
    return escaped(precondition.document) or "no document"
