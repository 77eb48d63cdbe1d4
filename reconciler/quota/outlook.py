"""What one change means for the clients that it is written for: the representative client of an entity, before and after."""

from dataclasses import dataclass

from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.plan import Change
from reconciler.quota.state import NO_LIMITS, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The limit of a representative client of an entity, before and after a plan.

    Attributes:
        before: Its limit from any level, ``None`` = unlimited.
        after: The same after the whole plan.
    """

    before: float | None
    after: float | None


def reach_of(change: Change, live: State, after: State) -> Reach:
    """What happens to a client that the changed entity is the closest match of.

    Args:
        change: One change of a plan.
        live: The state before.
        after: The state after the whole plan.
    """
    return Reach(
        before=limit_at(live, change.entity, change.key),
        after=limit_at(after, change.entity, change.key),
    )


def limit_at(state: State, subject: Entity, key: Key) -> float | None:
    """The limit that clients get which fall under ``subject`` and under nothing closer."""
    column = COLUMN_OF[key]
    for candidate in wider(subject):
        value = state.limits.get(candidate, NO_LIMITS)[column]
        if value is not None:
            return value
    return None


def wider(subject: Entity) -> tuple[Entity, ...]:
    """The entity itself and every wider one that matches all of its clients, closest first.

    A default slot of the entity stands for clients that nobody named.
    """
    user, client_id, ip = subject
    if ip is not ABSENT:
        named = (Entity((ABSENT, ABSENT, ip)),) if ip is not None else ()
        return (*named, Entity((ABSENT, ABSENT, None)))
    users = () if user is ABSENT else ((user, None) if isinstance(user, str) else (None,))
    clients = (
        ()
        if client_id is ABSENT
        else ((client_id, None) if isinstance(client_id, str) else (None,))
    )
    found: list[Entity] = []
    for name in users:
        found.extend(Entity((name, client, ABSENT)) for client in clients)
        found.append(Entity((name, ABSENT, ABSENT)))
    found.extend(Entity((ABSENT, client, ABSENT)) for client in clients)
    return tuple(found)
