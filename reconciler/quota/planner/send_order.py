"""The order in which changes are sent, and which of them must wait: two phases, level by level.

Brokers replay the metadata log in order, so a client sees each prefix of the writes. The invariant: in every prefix,
and with any operation rejected, unknown or not sent, each (client, key) limit is its value before the plan or its
value after it. The invariant follows from the order

    1. every set, closest level first (1 .. 8, ip, default ip)
    2. every removal, widest level first (8 .. 1, default ip, ip)

and from two rules for operations that did not succeed:

- a set waits while an earlier set (hence at a closer level) that can match one of its clients for that key is not
  acknowledged: otherwise the client would get this value instead of the closer one;
- a removal waits while any set, or an earlier removal (hence at a wider level), that can match one of its clients for
  that key is not acknowledged *and visible on every live broker*: otherwise the client would fall back to a limit
  that is neither its value before nor its value after.

The write that ends an override undoes what kquota did, so no declaration may delay it. It waits only for other such
writes, for writes of unknown outcome and for what is not visible yet; an operation that a broker refuses, that a guard
withholds or that is held does not hold it. Until that operation succeeds, the client has the limit that the end of the
override alone gives it, which is the limit from before the override, or the one that was declared since for the same
entity. Ends are in batches of their own, because an entity that is held is held with all operations of its batch.

Two entities of one level never match the same client, so the order inside a batch does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import ABSENT, Entity, level, sort_key
from reconciler.quota.outcome import MAX_OPERATIONS, Alteration, Applied, Result, Unknown
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause

NAMED_OBSTACLES: Final = 8
"""Maximum number of entities that are listed for a held operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch:
    """The changes of one phase at one level, entity by entity; those that end overrides are a batch of their own."""

    removes: bool  # whether the batch is part of the second phase
    level: int  # 1 to 10, see `level`
    ends_overrides: bool = False  # whether its changes end overrides
    alterations: tuple[Alteration, ...]  # one per entity, sorted; an entity is never split

    @property
    def name(self) -> str:
        """Name for progress and logs."""
        return f"{'remove' if self.removes else 'set'} at level {self.level}"


def batches(changes: Iterable[QuotaChange]) -> tuple[SendBatch, ...]:
    """Return the batches of both phases, in the order in which they must be sent."""
    grouped: dict[tuple[bool, int, bool], dict[Entity, list[tuple[str, float | None]]]] = {}
    for change in changes:
        ends_override = change.cause is Cause.OVERRIDE_EXPIRED
        batch = grouped.setdefault((change.removes, level(change.entity), ends_override), {})
        batch.setdefault(change.entity, []).append((str(change.key), change.after))
    return tuple(
        SendBatch(
            removes=removes,
            level=number,
            ends_overrides=ends_overrides,
            alterations=tuple(
                Alteration(subject, tuple(operations))
                for subject, operations in sorted(
                    by_entity.items(), key=lambda item: sort_key(item[0])
                )
            ),
        )
        for (removes, number, ends_overrides), by_entity in sorted(
            grouped.items(), key=_sending_position
        )
    )


def _sending_position(item: tuple[tuple[bool, int, bool], object]) -> tuple[bool, int, bool]:
    removes, number, ends_overrides = item[0]
    return removes, -number if removes else number, ends_overrides


def chunks(alterations: Sequence[Alteration]) -> Iterator[tuple[Alteration, ...]]:
    """Yield requests of at most ``MAX_OPERATIONS`` (``quota/outcome.py``), in whole entities.

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


class SendSchedule:
    """Which operations must wait while a plan is sent. No I/O: the sender reports each result.

    Use: for each batch of :attr:`batches`, in order: if :meth:`not_yet_visible` is not empty, wait until it is visible and call
    :meth:`mark_visible`; send everything except :meth:`find_held_entities`; :meth:`settle` each entity with its result.
    Operations of an earlier batch without a result count as failed, so an incomplete sender cannot break the invariant.
    """

    def __init__(self, changes: Iterable[QuotaChange]) -> None:
        self.batches = batches(changes)
        self._ends = frozenset(
            alteration
            for batch in self.batches
            if batch.ends_overrides
            for alteration in batch.alterations
        )
        # What holds the ends of overrides is also part of what holds all other changes.
        self._failed, self._failed_for_ends = _FailedOperations(), _FailedOperations()
        self._acknowledged = _Obstacles()
        self._awaiting: list[Alteration] = []
        self._entities_unknown: set[Entity] = set()
        self._settled: set[Alteration] = set()
        self._batches_begun = 0

    def find_held_entities(self, batch: SendBatch) -> Mapping[Entity, tuple[Entity, ...]]:
        """Return the entities of a batch that must not be sent now, each with the entities that it waits for.

        At most :data:`NAMED_OBSTACLES` are listed, sorted. An entity that waits for itself had a write of unknown
        outcome, after which no other write to it is sent.
        """
        self._fail_unsettled_before(batch)
        failed = self._failed_for_ends if batch.ends_overrides else self._failed
        obstacles: dict[Entity, tuple[Entity, ...]] = {}
        for alteration in batch.alterations:
            waits = failed.blocking_entities(alteration, batch)
            if batch.removes:
                waits |= self._acknowledged.blocking_entities(alteration)
            if alteration.entity in self._entities_unknown:
                waits.add(alteration.entity)
            if waits:
                obstacles[alteration.entity] = tuple(sorted(waits, key=sort_key)[:NAMED_OBSTACLES])
        return obstacles

    def _fail_unsettled_before(self, batch: SendBatch) -> None:
        """Mark the unsettled operations of earlier batches as failed: they were not sent."""
        position = self.batches.index(batch)
        for earlier_batch in self.batches[self._batches_begun : position]:
            for alteration in earlier_batch.alterations:
                if alteration not in self._settled:
                    self._fail(alteration)
        self._batches_begun = max(self._batches_begun, position)

    def not_yet_visible(self, batch: SendBatch) -> tuple[Alteration, ...]:
        """Return acknowledged operations not yet seen on every broker, if a removal of this batch relies on one."""
        if not batch.removes or not any(
            self._acknowledged.blocking_entities(alteration) for alteration in batch.alterations
        ):
            return ()
        return tuple(self._awaiting)

    def mark_visible(self) -> None:
        """Mark every acknowledged operation as visible on every live broker."""
        self._acknowledged = _Obstacles()
        self._awaiting = []

    def withhold(self, alteration: Alteration) -> None:
        """Hold the changes that rely on one that a guard withholds. In its place the plan may end an override."""
        self._failed.add(alteration)

    def settle(self, alteration: Alteration, result: Result) -> None:
        """Record the result for an entity of a batch, or for a write of an earlier run.

        Every result except ``Applied`` holds later operations. A removal that certainly did not happen holds only removals
        at closer levels: all other operations come before it.
        """
        self._settled.add(alteration)
        if isinstance(result, Applied):
            self._acknowledged.add(alteration)
            self._awaiting.append(alteration)
        elif isinstance(result, Unknown):
            self._entities_unknown.add(alteration.entity)
            self._failed.add_unsure(alteration)
            self._failed_for_ends.add_unsure(alteration)
        else:
            self._fail(alteration)

    def _fail(self, alteration: Alteration) -> None:
        """Hold what relies on an operation that certainly did not happen."""
        self._failed.add(alteration)
        if alteration in self._ends:
            self._failed_for_ends.add(alteration)


class _FailedOperations:
    """Operations that did not succeed, by what they hold."""

    def __init__(self) -> None:
        self._obstacles = _Obstacles()
        self._unsent_removals: dict[int, _Obstacles] = {}

    def add(self, alteration: Alteration) -> None:
        """Add an operation that certainly did not happen."""
        if any(value is not None for _, value in alteration.operations):
            self._obstacles.add(alteration)
        else:
            removals = self._unsent_removals.setdefault(level(alteration.entity), _Obstacles())
            removals.add(alteration)

    def add_unsure(self, alteration: Alteration) -> None:
        """Add an operation that may have happened."""
        self._obstacles.add(alteration)

    def blocking_entities(self, alteration: Alteration, batch: SendBatch) -> set[Entity]:
        """Return some of the entities whose operations hold one of a batch; empty = none."""
        waits = self._obstacles.blocking_entities(alteration)
        if batch.removes:
            for number, removals in self._unsent_removals.items():
                if number > batch.level:
                    waits |= removals.blocking_entities(alteration)
        return waits


class _Obstacles:
    """Entities with keys; finds those that match a client of another entity in constant time.

    Two entities miss each other only if both name the same slot differently, so each obstacle is indexed by
    its names per combination of slots, with ``None`` for a slot without a name. The index is built at the first query.
    """

    def __init__(self) -> None:
        self._not_indexed: list[Alteration] = []
        self._index: dict[tuple[str, str, object, object], list[Entity]] = {}

    def add(self, alteration: Alteration) -> None:
        self._not_indexed.append(alteration)

    def blocking_entities(self, alteration: Alteration) -> set[Entity]:
        """Return some of the obstacles that can match a client of this entity for one of its keys; empty = none."""
        self._update_index()
        obstacles: set[Entity] = set()
        if self._index:
            for key, _ in alteration.operations:
                for address in _addresses(alteration.entity):
                    obstacles.update(self._index.get((key, *address), ())[:NAMED_OBSTACLES])
        return obstacles

    def _update_index(self) -> None:
        for alteration in self._not_indexed:
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
                    self._index.setdefault((key, side + slots, first, second), []).append(subject)
        self._not_indexed = []


def _names(subject: Entity) -> tuple[str | None, str | None]:
    """Return the two slots in which entities of a kind can miss each other; ``None`` for a slot without a name."""
    user, client_id, ip = subject
    if ip is not ABSENT:
        return (ip if isinstance(ip, str) else None), None
    return (user if isinstance(user, str) else None), (
        client_id if isinstance(client_id, str) else None
    )


def _side(subject: Entity) -> str:
    return "client " if subject[2] is ABSENT else "ip "


def _addresses(subject: Entity) -> Iterator[tuple[str, object, object]]:
    """Yield the index keys of all obstacles that can match a client of this entity."""
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
