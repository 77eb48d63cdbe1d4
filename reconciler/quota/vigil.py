"""Drift over time, as a loop sees it: how often in a row, for how long, how often corrected, and whether somebody fights us."""

from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One drifted pair, as the last look showed it and the looks before it remember it.

    Attributes:
        entity: Whose quota.
        key: Which key.
        expected: What we applied last.
        live: What was found; ``None`` = it was removed.
        since: When it was first seen, in seconds since the epoch.
        looks: How many looks in a row saw it.
        confirmed: Whether that is enough to speak of it.
        corrections: How often the pair was corrected within the window.
        fought: Whether somebody undid our corrections so often that we stopped correcting.
        document: Whose the pair is; "" for an override.
    """

    entity: Entity
    key: Key
    expected: float | None
    live: float | None
    since: float
    looks: int = 1
    confirmed: bool = True
    corrections: int = 0
    fought: bool = False
    document: str = ""
