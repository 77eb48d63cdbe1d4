"""The order in which changes are sent, and which of them must wait: two phases, level by level.

Brokers replay the metadata log in order, so a client sees each prefix of the writes. The invariant: in every prefix,
and with any operation rejected, unknown or not sent, each (client, key) limit is its value before the plan or its
value after it. The invariant follows from the order

    1. every set, closest level first (1 .. 8, ip, default ip)
    2. every removal, widest level first (8 .. 1, default ip, ip)

and from one rule: an operation waits while one at an earlier place that can match one of its clients for that key is
not acknowledged, and a removal until it is also *visible on every live broker*. Otherwise the client would get a limit that is
neither its value before nor its value after: this one instead of a closer one, or the one behind a removed one.

An operation never waits for another at a later place, nor where a limit hides the wider of the two from all
clients of both. So all that the invariant permits is sent: the law of progress.

The write that ends an override undoes what kquota did, so no declaration may delay it. It waits only for other such
writes, for writes of unknown outcome and for what is not visible yet; an operation that a broker refuses, that a guard
withholds or that is held does not hold it. Until that operation succeeds, the client has the limit that the end of the
override alone gives it, which is the limit from before the override, or the one that was declared since for the same
entity. Ends are in batches of their own.

Two entities of one level never match the same client, so the order inside a batch does not matter.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from reconciler.quota.entity import ABSENT, Entity, level, sort_key
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import common_entities
from reconciler.quota.state import MAX_OPERATIONS, Alteration, Applied, QuotaState, Result, Unknown

NAMED_OBSTACLES: Final = 8
"""Maximum number of entities that are listed for a held operation."""

NAME_OF: Final = {key: str(key) for key in Key}
"""Kafka's name of each key: one text for all operations, whose hash is computed once."""

Position: TypeAlias = tuple[bool, int, bool]
"""A place in the order: whether it removes, its level (negative for removals), whether it ends an override."""

BEFORE_ALL: Final[Position] = (False, 0, False)
"""The place of writes whose outcome is unknown: they may take effect at any time."""


def position_of(subject: Entity, value: float | None, *, ends_override: bool = False) -> Position:
    """Return the place of an operation in the order; ``None`` removes."""
    number = level(subject)
    return value is None, -number if value is None else number, ends_override


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch:
    """The changes at one place in the order, entity by entity; those that end overrides are a batch of their own."""

    position: Position
    alterations: tuple[Alteration, ...]  # one per entity, sorted; a request never splits an entity

    @property
    def removes(self) -> bool:
        """Whether the batch is part of the second phase."""
        return self.position[0]

    @property
    def level(self) -> int:
        """1 to 10, see ``level``."""
        return abs(self.position[1])

    @property
    def ends_overrides(self) -> bool:
        """Whether its changes end overrides."""
        return self.position[2]


def batches(changes: Iterable[QuotaChange]) -> tuple[SendBatch, ...]:
    """Return the batches of both phases, in the order in which they must be sent."""
    grouped: dict[tuple[Entity, bool, bool], list[tuple[str, float | None]]] = {}
    for change in changes:
        place = change.entity, change.after is None, change.cause is Cause.ENDED
        grouped.setdefault(place, []).append((NAME_OF[change.key], change.after))
    batch_by_position: dict[Position, list[Alteration]] = {}
    for (subject, _, ends_override), operations in grouped.items():
        position = position_of(subject, operations[0][1], ends_override=ends_override)
        batch = batch_by_position.setdefault(position, [])
        batch.append(Alteration(subject, tuple(operations)))
    return tuple(
        SendBatch(
            position=position,
            alterations=tuple(sorted(batch, key=lambda alteration: sort_key(alteration.entity))),
        )
        for position, batch in sorted(batch_by_position.items())
    )


def chunks(alterations: Sequence[Alteration]) -> Iterator[tuple[Alteration, ...]]:
    """Yield requests of at most ``MAX_OPERATIONS`` (``quota/state.py``), in whole entities.

    Never mix levels in a request: within a level the order is free; between levels it preserves the invariant.
    """
    chunk: list[Alteration] = []
    operations = 0
    for alteration in alterations:
        if chunk and operations + len(alteration.operations) > MAX_OPERATIONS:
            yield tuple(chunk)
            chunk, operations = [], 0
        chunk.append(alteration)
        operations += len(alteration.operations)
    if chunk:
        yield tuple(chunk)


# What waits, and why nothing else may: docs/adr/send-order.md.
class SendSchedule:
    """Which operations must wait while a plan is sent. No I/O: the sender reports each result.

    Use: for each batch of :attr:`batches`, in order: if :meth:`not_yet_visible` is not empty, wait until it is visible and call
    :meth:`mark_visible`; send everything except :meth:`find_held`; :meth:`settle` each operation with its result.
    Operations of an earlier batch without a result count as failed, so an incomplete sender cannot break the invariant.

    Args:
        live: The limits before the plan. A limit between two entities can make their operations independent.
    """

    def __init__(self, changes: Iterable[QuotaChange], *, live: QuotaState) -> None:
        changes = tuple(changes)
        self.batches = batches(changes)
        self._live = live
        # Operations by entity and name of the key.
        self._set: set[tuple[Entity, str]] = set()
        self._removed: set[tuple[Entity, str]] = set()
        ends = [change for change in changes if change.cause is Cause.ENDED]
        self._ends = frozenset(change.pair for change in ends)
        # These removals do not wait for what a guard or a broker refuses, so these limits hide nothing.
        self._passing = frozenset(change.pair for change in ends if change.removes)
        self._undone, self._acknowledged = _Obstacles(), _Obstacles()
        self._awaiting: list[Alteration] = []
        self._entities_unknown: set[Entity] = set()
        self._settled: set[tuple[Entity, str]] = set()
        self._batches_begun = 0

    def find_held(self, batch: SendBatch) -> Mapping[Pair, tuple[Entity, ...]]:
        """Return the operations of a batch that must not be sent now, each with the entities that it waits for.

        At most :data:`NAMED_OBSTACLES` are listed, sorted. An entity that waits for itself had a write of unknown
        outcome, after which no other write to it is sent.
        """
        self._fail_unsettled_before(batch)
        waits_by_pair: dict[Pair, tuple[Entity, ...]] = {}
        if not (self._undone or self._entities_unknown or (batch.removes and self._acknowledged)):
            return waits_by_pair
        for alteration in batch.alterations:
            subject = alteration.entity
            for key, _ in alteration.operations:
                undone = self._undone_before(subject, Key(key), batch)
                waits = set(itertools.islice(undone, NAMED_OBSTACLES))
                if batch.removes:
                    not_visible = self._not_visible_before(subject, Key(key), batch)
                    waits.update(itertools.islice(not_visible, NAMED_OBSTACLES))
                if subject in self._entities_unknown:
                    waits.add(subject)
                if waits:
                    waits_by_pair[subject, Key(key)] = tuple(
                        sorted(waits, key=sort_key)[:NAMED_OBSTACLES]
                    )
        return waits_by_pair

    def _fail_unsettled_before(self, batch: SendBatch) -> None:
        """Mark the unsettled operations of earlier batches as failed: they were not sent."""
        position = self.batches.index(batch)
        for earlier_batch in self.batches[self._batches_begun : position]:
            for alteration in earlier_batch.alterations:
                for operation in alteration.operations:
                    if (alteration.entity, operation[0]) not in self._settled:
                        self._fail(alteration.entity, *operation)
        self._batches_begun = max(self._batches_begun, position)

    def _undone_before(self, subject: Entity, key: Key, batch: SendBatch) -> Iterator[Entity]:
        """Yield the entities whose undone operations come earlier in the order and concern a client of this one."""
        for obstacle in self._undone.matching(subject, key):
            is_earlier = obstacle.position < batch.position
            is_waited_for = obstacle.holds_ends or not batch.ends_overrides
            if is_earlier and is_waited_for and not self._is_hidden(obstacle, subject, batch):
                yield obstacle.entity

    def _not_visible_before(self, subject: Entity, key: Key, batch: SendBatch) -> Iterator[Entity]:
        """Yield the entities whose acknowledged operations a removal relies on."""
        for obstacle in self._acknowledged.matching(subject, key):
            if not self._is_hidden(obstacle, subject, batch):
                yield obstacle.entity

    def _is_hidden(self, obstacle: "_Obstacle", subject: Entity, batch: SendBatch) -> bool:
        """Whether a limit wins over the wider of two entities for every client of both, also after the operation on ``subject``.

        If the removal of that limit is planned, it waits for the same obstacle, unless it ends an override.
        """
        wider = max(level(obstacle.entity), level(subject))
        return any(
            level(closer) < wider
            and self._is_set(closer, obstacle.key)
            and not (batch.removes and closer == subject)
            for closer in common_entities(obstacle.entity, subject)
        )

    def _is_set(self, subject: Entity, key: Key) -> bool:
        """Whether the entity certainly has a limit now."""
        pair = subject, key
        is_live = self._live.value(subject, key) is not None
        return pair in self._set or (
            is_live and pair not in self._removed and pair not in self._passing
        )

    def not_yet_visible(self, batch: SendBatch) -> tuple[Alteration, ...]:
        """Return acknowledged operations not yet seen on every broker, if a removal of this batch relies on one."""
        if not batch.removes or not any(
            True
            for alteration in batch.alterations
            for key, _ in alteration.operations
            for _ in self._not_visible_before(alteration.entity, Key(key), batch)
        ):
            return ()
        return tuple(self._awaiting)

    def mark_visible(self) -> None:
        """Mark every acknowledged operation as visible on every live broker."""
        self._acknowledged = _Obstacles()
        self._awaiting = []

    def withhold(self, change: QuotaChange) -> None:
        """Let later operations wait for one that a guard withholds. In its place the plan may end an override."""
        self._undone.add(Alteration(change.entity, ((str(change.key), change.after),)))

    def settle(self, alteration: Alteration, result: Result) -> None:
        """Record the result of operations of a batch, or of a write of an earlier run.

        Every result except ``Applied`` lets later operations wait. After a write of unknown outcome all that concern its clients wait.
        """
        subject = alteration.entity
        if isinstance(result, Applied):
            self._acknowledged.add(alteration)
            self._awaiting.append(alteration)
            for key, value in alteration.operations:
                self._settled.add((subject, key))
                (self._removed if value is None else self._set).add((subject, key))
            return
        for key, value in alteration.operations:
            self._settled.add((subject, key))
            if isinstance(result, Unknown):
                self._entities_unknown.add(subject)
                operation = Alteration(subject, ((key, value),))
                self._undone.add(operation, position=BEFORE_ALL, holds_ends=True)
                if value is None:
                    self._removed.add((subject, key))
            else:
                self._fail(subject, key, value)

    def _fail(self, subject: Entity, key: str, value: float | None) -> None:
        """Let later operations wait for one that certainly did not happen."""
        holds_ends = (subject, key) in self._ends
        self._undone.add(Alteration(subject, ((key, value),)), holds_ends=holds_ends)


class _Obstacle(NamedTuple):
    """An operation that later ones may have to wait for."""

    entity: Entity
    key: Key
    position: Position  # its place in the order
    holds_ends: bool = False  # whether the ends of overrides wait for it, too


class _Obstacles:
    """Obstacles; finds those that match a client of an entity in constant time.

    Two entities miss each other only if both name the same slot differently, so each obstacle is indexed by
    its names per combination of slots, with ``None`` for a slot without a name. The index is built at the first query.
    """

    def __init__(self) -> None:
        self._not_indexed: list[tuple[Alteration, Position | None, bool]] = []
        self._index: dict[tuple[str, bool, bool, object, object], list[_Obstacle]] = {}

    def __bool__(self) -> bool:
        return bool(self._not_indexed or self._index)

    def add(
        self, alteration: Alteration, *, position: Position | None = None, holds_ends: bool = False
    ) -> None:
        """Add operations at a place; ``None`` = that of each in the order."""
        self._not_indexed.append((alteration, position, holds_ends))

    def matching(self, subject: Entity, key: Key) -> Iterator[_Obstacle]:
        """Yield the obstacles of a key that can match a client of the entity."""
        self._update_index()
        if self._index:
            for address in _addresses(subject):
                yield from self._index.get((key, *address), ())

    def _update_index(self) -> None:
        for alteration, position, holds_ends in self._not_indexed:
            subject = alteration.entity
            first_name, second_name = _names(subject)
            for name, value in alteration.operations:
                place = position or position_of(subject, value)
                obstacle = _Obstacle(subject, Key(name), place, holds_ends)
                for has_first, has_second in _SLOTS:
                    first, second = (
                        first_name if has_first else None,
                        second_name if has_second else None,
                    )
                    address = name, has_first, has_second, first, second
                    self._index.setdefault(address, []).append(obstacle)
        self._not_indexed = []


def _names(subject: Entity) -> tuple[str | None, str | None]:
    """Return the two slots in which entities with a key in common can miss each other; ``None`` for a slot without a name."""
    user, client_id, ip = subject
    if ip is not ABSENT:
        return (ip if isinstance(ip, str) else None), None
    return (user if isinstance(user, str) else None), (
        client_id if isinstance(client_id, str) else None
    )


_SLOTS: Final = tuple(itertools.product((True, False), repeat=2))
"""Whether an address has the names of the two slots."""


def _addresses(subject: Entity) -> Iterator[tuple[bool, bool, object, object]]:
    """Yield the index keys of all obstacles that can match a client of this entity."""
    first_name, second_name = _names(subject)
    for first in dict.fromkeys((first_name, None)):
        for second in dict.fromkeys((second_name, None)):
            yield first_name is not None, second_name is not None, first, second
