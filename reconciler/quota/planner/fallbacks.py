"""Limits that clients of an entity fall back to: the live ones at wider levels that can match a client of it.

A removal relies on them: a removal that was reviewed while a default protected its clients must not run without it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconciler.quota.entity import ABSENT, Entity, Slot, sort_key
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.state import QuotaState


class Fallback(NamedTuple):
    """One limit that clients of a removed pair fall back to."""

    entity: Entity
    key: Key
    value: float  # the live value, below overrides


def fallbacks(changes: Iterable[QuotaChange], live: QuotaState) -> tuple[Fallback, ...]:
    """Return the live limits, below overrides, that clients of removals fall back to, sorted; without changed ones."""
    own, relied = set[Pair](), set[Pair]()
    kinds: set[tuple[Key, type]] = set()  # of removals whose clients may have any client-id
    for change in changes:
        subject, key = change.pair
        own.add(change.pair)
        if change.removes:
            relied.update((wider, key) for wider in _wider(subject))
            if subject[2] is ABSENT and not isinstance(subject[1], str):
                kinds.add((key, type(subject[0])))
    for key, user in kinds:
        relied.update((wider, key) for wider in live.limits if _names_a_client_id(wider, user))
    return tuple(
        Fallback(entity, key, value)
        for entity, key in sorted(
            relied - own, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]])
        )
        if (value := live.value(entity, key)) is not None
    )


def _names_a_client_id(wider: Entity, user: type) -> bool:
    """Whether a limit names a client-id and may be that of any client of an entity without one.

    Args:
        user: The type of the user slot of that entity.
    """
    if not isinstance(wider[1], str) or isinstance(wider[0], str):
        return False
    return user is str if wider[0] is None else user is not bool


def _wider(subject: Entity) -> Iterator[Entity]:
    user, client_id, ip = subject
    if ip is not ABSENT:
        if ip is not None:
            yield Entity((ABSENT, ABSENT, None))
        return
    users: tuple[Slot, ...] = (ABSENT,)
    if user is not ABSENT:
        users = (user, None, ABSENT) if isinstance(user, str) else (None, ABSENT)
    clients: tuple[Slot, ...] = (
        (client_id, None, ABSENT) if isinstance(client_id, str) else (None, ABSENT)
    )
    after = False
    for user_slot in users:
        for client_slot in clients:
            candidate = Entity((user_slot, client_slot, ABSENT))
            if after and candidate != (ABSENT, ABSENT, ABSENT):
                yield candidate
            after = after or candidate == subject
