"""In which order changes are sent, and which of them must wait: two passes, level by level.

Brokers replay the metadata log in order, so a client sees each prefix of what was written. The law: in every prefix,
and with any operation rejected, unknown or not sent, each (client, key) limit is its value from before or its value
from after. It follows from the order

    1. every set, closest level first (1 .. 8, ip, default ip)
    2. every removal, widest level first (8 .. 1, default ip, ip)

and from two rules about what went wrong on the way:

- a set waits while an earlier set (hence at a closer level) that can match one of its clients for that key is not
  acknowledged: otherwise the client would see this value although the closer one is meant for it;
- a removal waits while any set, or an earlier removal (hence at a wider level), that can match one of its clients for
  that key is not acknowledged *and visible on every live broker*: otherwise the client would fall through to something
  that is neither before nor after.

Two entities of one level never match the same client, so the order inside a batch does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import ABSENT, Entity, level, sort_key
from reconciler.quota.outcome import (
    MAX_ENTITIES,
    MAX_OPERATIONS,
    Alteration,
    Applied,
    Result,
    Unknown,
)
from reconciler.quota.planner.plan import QuotaChange

NAMED_OBSTACLES: Final = 8
"""How many of the entities that a held operation waits for are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch:
    """The changes of one pass at one level, entity by entity.

    Attributes:
        removes: Whether this is part of the second pass.
        level: 1 to 10, see :func:`~reconciler.quota.entity.level`.
        alterations: One per entity, sorted; an entity is never split.
    """

    removes: bool
    level: int
    alterations: tuple[Alteration, ...]

    @property
    def name(self) -> str:
        """For progress and logs."""
        return f"{'remove' if self.removes else 'set'} at level {self.level}"


def batches(changes: Iterable[QuotaChange]) -> tuple[SendBatch, ...]:
    """The two passes over these changes, in the order in which they are to be sent."""
    grouped: dict[tuple[bool, int], dict[Entity, list[tuple[str, float | None]]]] = {}
    for change in changes:
        batch = grouped.setdefault((change.removes, level(change.entity)), {})
        batch.setdefault(change.entity, []).append((str(change.key), change.after))
    return tuple(
        SendBatch(
            removes=removes,
            level=number,
            alterations=tuple(
                Alteration(subject, tuple(operations))
                for subject, operations in sorted(
                    by_entity.items(), key=lambda item: sort_key(item[0])
                )
            ),
        )
        for (removes, number), by_entity in sorted(grouped.items(), key=_turn)
    )


def _turn(item: tuple[tuple[bool, int], object]) -> tuple[bool, int]:
    removes, number = item[0]
    return removes, -number if removes else number


def chunks(alterations: Sequence[Alteration]) -> Iterator[tuple[Alteration, ...]]:
    """Requests of at most :data:`~reconciler.quota.outcome.MAX_OPERATIONS` and `MAX_ENTITIES`; no entity is split, none is empty.

    Never mix levels in a request: within a level the order is free, between levels it keeps every client on
    its value from before or after.
    """
    chunk: list[Alteration] = []
    operations = 0
    for alteration in alterations:
        if chunk and (
            len(chunk) == MAX_ENTITIES or operations + len(alteration.operations) > MAX_OPERATIONS
        ):
            yield tuple(chunk)
            chunk, operations = [], 0
        chunk.append(alteration)
        operations += len(alteration.operations)
    if chunk:
        yield tuple(chunk)


class SendSchedule:
    """What is still in the way while a plan is being sent. No I/O: the sender reports what happened, and asks.

    Use: for each batch of :attr:`batches`, in order, first make :meth:`unseen` visible where it answers anything and
    say :meth:`mark_visible`; then send everything but :meth:`find_held_entities`; then :meth:`settle` each entity with its result. What an
    earlier batch never settled counts as failed, so a sender that forgets something cannot break the law.
    """

    def __init__(self, changes: Iterable[QuotaChange]) -> None:
        self.batches = batches(changes)
        self._failed = _Obstacles()
        self._unsent_removals: dict[int, _Obstacles] = {}
        self._acknowledged = _Obstacles()
        self._awaiting: list[Alteration] = []
        self._unsure: set[Entity] = set()
        self._settled: set[tuple[bool, Entity]] = set()
        self._passed = 0

    def find_held_entities(self, batch: SendBatch) -> Mapping[Entity, tuple[Entity, ...]]:
        """Entities of a batch that must not be sent now, and for which others each one waits.

        At most :data:`NAMED_OBSTACLES` are named, sorted. An entity that waits for itself had a write of unknown
        fate, and nothing else is written to it.
        """
        self._pass_to(batch)
        obstacles: dict[Entity, tuple[Entity, ...]] = {}
        for alteration in batch.alterations:
            waits = self._failed.blocking_entities(alteration)
            if batch.removes:
                waits |= self._acknowledged.blocking_entities(alteration)
                for number, removals in self._unsent_removals.items():
                    if number > batch.level:
                        waits |= removals.blocking_entities(alteration)
            if alteration.entity in self._unsure:
                waits.add(alteration.entity)
            if waits:
                obstacles[alteration.entity] = tuple(sorted(waits, key=sort_key)[:NAMED_OBSTACLES])
        return obstacles

    def _pass_to(self, batch: SendBatch) -> None:
        """Whatever earlier batches left unsettled was not sent."""
        turn = self.batches.index(batch)
        for earlier_batch in self.batches[self._passed : turn]:
            for alteration in earlier_batch.alterations:
                if (earlier_batch.removes, alteration.entity) not in self._settled:
                    self._failed.add(alteration)
        self._passed = max(self._passed, turn)

    def unseen(self, batch: SendBatch) -> tuple[Alteration, ...]:
        """Acknowledged operations that removals of this batch rely on and that were not seen on every broker yet."""
        if not batch.removes or not any(
            self._acknowledged.blocking_entities(alteration) for alteration in batch.alterations
        ):
            return ()
        return tuple(self._awaiting)

    def mark_visible(self) -> None:
        """Everything acknowledged so far is visible on every live broker."""
        self._acknowledged = _Obstacles()
        self._awaiting = []

    def settle(self, alteration: Alteration, result: Result) -> None:
        """Takes note of what became of an entity of a batch, or of a write of an earlier run.

        Anything but ``Applied`` stays in the way; a removal that was surely not carried out, such as one that a guard
        withholds, only in the way of removals at closer levels: everything else comes before it.
        """
        removes = any(value is None for _, value in alteration.operations)
        self._settled.add((removes, alteration.entity))
        if isinstance(result, Applied):
            self._acknowledged.add(alteration)
            self._awaiting.append(alteration)
            return
        if isinstance(result, Unknown):
            self._unsure.add(alteration.entity)
        elif all(value is None for _, value in alteration.operations):
            removals = self._unsent_removals.setdefault(level(alteration.entity), _Obstacles())
            removals.add(alteration)
            return
        self._failed.add(alteration)


class _Obstacles:
    """Entities with keys, asked "does any of you match a client of this one?" in constant time.

    Two entities miss each other only where both name the same slot differently, so each obstacle is filed under
    its names per combination of slots, with ``None`` where it names none. Filing waits until the first query.
    """

    def __init__(self) -> None:
        self._unfiled: list[Alteration] = []
        self._filed: dict[tuple[str, str, object, object], list[Entity]] = {}

    def add(self, alteration: Alteration) -> None:
        self._unfiled.append(alteration)

    def blocking_entities(self, alteration: Alteration) -> set[Entity]:
        """Some of the obstacles that can match a client of this entity for one of its keys; empty = none does."""
        self._file()
        obstacles: set[Entity] = set()
        if self._filed:
            for key, _ in alteration.operations:
                for address in _addresses(alteration.entity):
                    obstacles.update(self._filed.get((key, *address), ())[:NAMED_OBSTACLES])
        return obstacles

    def _file(self) -> None:
        for alteration in self._unfiled:
            subject = alteration.entity
            first_name, second_name = _names(subject)
            side = _side(subject)
            for key, _ in alteration.operations:
                for slots, first, second in (
                    ("both", first_name, second_name),
                    ("first", first_name, None),
                    ("second", None, second_name),
                    ("any", None, None),
                ):
                    self._filed.setdefault((key, side + slots, first, second), []).append(subject)
        self._unfiled = []


def _names(subject: Entity) -> tuple[str | None, str | None]:
    """The two slots in which entities of a kind can miss each other; ``None`` where no name is given."""
    user, client_id, ip = subject
    if ip is not ABSENT:
        return (ip if isinstance(ip, str) else None), None
    return (user if isinstance(user, str) else None), (
        client_id if isinstance(client_id, str) else None
    )


def _side(subject: Entity) -> str:
    return "client " if subject[2] is ABSENT else "ip "


def _addresses(subject: Entity) -> Iterator[tuple[str, object, object]]:
    """Under which addresses an obstacle that matches a client of this entity is filed."""
    first_name, second_name = _names(subject)
    side = _side(subject)
    if first_name is None and second_name is None:
        yield side + "any", None, None
    elif second_name is None:
        yield side + "first", first_name, None
        yield side + "first", None, None
    elif first_name is None:
        yield side + "second", None, second_name
        yield side + "second", None, None
    else:
        for first in (first_name, None):
            for second in (second_name, None):
                yield side + "both", first, second
