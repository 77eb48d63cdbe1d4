"""Differences between then and now in words, for a plan that no longer fits."""

from reconciler.quota.basis import Difference, Ground
from reconciler.render.names import entity_text, escaped
from reconciler.render.units import limit


def difference_text(one: Difference) -> str:
    """One line: the pair, what the plan was made from, what is there now."""
    pair = f"{entity_text(one.entity)} {one.key}"
    if one.then is None:
        return f"{pair}: newly set to {_live(one.now)}; clients of a removal would fall back to it"
    if one.now is None:
        return f"{pair}: was {_live(one.then)} and is gone; clients of a removal would have fallen back to it"
    parts: list[str] = []
    if one.then.live != one.now.live:
        parts.append(f"live was {_live(one.then)}, is {_live(one.now)}")
    if one.then.applied != one.now.applied:
        parts.append(
            f"last applied was {limit(one.key, one.then.applied)}, is {limit(one.key, one.now.applied)}"
        )
    if one.then.document != one.now.document:
        parts.append(f"was owned by {_owner(one.then)}, is owned by {_owner(one.now)}")
    return f"{pair}: " + "; ".join(parts)


def _live(ground: Ground | None) -> str:
    return "not set" if ground is None or ground.live is None else limit(ground.key, ground.live)


def _owner(ground: Ground) -> str:
    return escaped(ground.document) or "nobody"
