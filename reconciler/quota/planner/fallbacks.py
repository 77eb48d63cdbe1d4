"""Limits that clients of an entity fall back to: the live ones at wider levels that can match a client of it.

A removal relies on them: a removal that was reviewed while a default protected its clients must not run without it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.quota.entity import ABSENT, Entity, Slot, sort_key
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.state import QuotaState


class Fallback(NamedTuple):
    """One limit that clients of a removed pair fall back to."""

    entity: Entity
    key: Key
    value: float  # the live value, below overrides


class WiderLimits:
    """Finds the limits of one state that clients of an entity fall back to.

    Args:
        state: The limits.

    Attributes:
        by_client_id: Key and type of a user slot -> limits that name a client-id and may match any such user.
    """

    def __init__(self, state: QuotaState) -> None:
        self._state = state
        self.by_client_id: dict[tuple[Key, type], Sequence[Entity]] = {}

    def of_slots(self, subject: Entity, key: Key) -> list[Entity]:
        """Return wider entities that consist of slots of the subject and defaults: at most seven."""
        return [wider for wider in _wider(subject) if self._state.value(wider, key) is not None]

    def of_any_client_id(self, subject: Entity, key: Key) -> Sequence[Entity]:
        """Return the others: those with a client-id, if clients of the subject may have any.

        Which of them are wider depends only on the key and the type of the user slot.
        """
        user, client_id, ip = subject
        if ip is not ABSENT or isinstance(client_id, str):
            return ()
        kind = (key, type(user))
        if kind not in self.by_client_id:
            self.by_client_id[kind] = [
                wider
                for wider in self._state.entities()
                if isinstance(wider[1], str)
                and not isinstance(wider[0], str)
                and (isinstance(user, str) if wider[0] is None else user is not ABSENT)
                and self._state.value(wider, key) is not None
            ]
        return self.by_client_id[kind]


def fallbacks(changes: Iterable[QuotaChange], live: QuotaState) -> tuple[Fallback, ...]:
    """Return the live limits, below overrides, that clients of removals fall back to, sorted; without changed ones."""
    limits, own, relied = WiderLimits(live), set[tuple[Entity, Key]](), set[tuple[Entity, Key]]()
    for change in changes:
        subject, key = change.pair
        own.add(change.pair)
        if change.removes:
            relied.update((wider, key) for wider in limits.of_slots(subject, key))
            _ = limits.of_any_client_id(subject, key)
    for (key, _), entities in limits.by_client_id.items():
        relied.update((wider, key) for wider in entities)
    return tuple(
        Fallback(entity, key, value)
        for entity, key in sorted(
            relied - own, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]])
        )
        if (value := live.value(entity, key)) is not None
    )


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
