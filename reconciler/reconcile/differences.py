"""Text for preconditions of a plan that changed."""

from reconciler.base.escaping import escaped
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.planner.preconditions import Precondition, PreconditionChange
from reconciler.render.units import limit


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


def _live(precondition: Precondition | None) -> str:
    return (
        "not set"
        if precondition is None or precondition.live is None
        else limit(precondition.key, precondition.live)
    )


def _owner(precondition: Precondition) -> str:
    return escaped(precondition.document) or "no document"
