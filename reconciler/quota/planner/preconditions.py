"""The preconditions of a plan: live value and record of each changed pair, and of the pairs that removals rely on.

A saved and approved plan may be applied later only if all of them are unchanged. A removal relies on the limits
that its clients fall back to: without them, the removal would leave clients unlimited. All values are those below
overrides, so that one that begins or ends contradicts no plan.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.quota.entity import ABSENT, Entity, Slot, sort_key
from reconciler.quota.keys import COLUMN_OF, Key, same_value
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords, Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.state import NO_LIMITS, Limits, QuotaState


class Precondition(NamedTuple):
    """One pair when the plan was computed. A tuple, because tuples are built and compared faster."""

    entity: Entity
    key: Key
    live: float | None  # the live value
    applied: float | None  # the value applied last, from the inventory
    document: str  # the document of the record, "" without a record

    def agrees_with(self, second: "Precondition") -> bool:
        """Whether both are equal; values that Kafka enforces as the same limit are equal."""
        return (
            same_value(self.key, self.live, second.live)
            and same_value(self.key, self.applied, second.applied)
            and self.document == second.document
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreconditionChange:
    """A pair that changed since the plan was saved; a side is ``None`` if it does not include the pair."""

    entity: Entity
    key: Key
    then: Precondition | None
    now: Precondition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """All preconditions of a plan."""

    # One per change, in plan order.
    pairs: tuple[Precondition, ...] = field(default_factory=tuple[Precondition, ...])
    # Live limits that clients of removed pairs fall back to, sorted.
    relied_on: tuple[Precondition, ...] = field(default_factory=tuple[Precondition, ...])


def preconditions_of(
    changes: Iterable[QuotaChange], *, owned: OwnershipRecords, live: QuotaState
) -> Preconditions:
    """Return the preconditions of these changes in this state, below overrides, and with these records."""
    pairs = [change.pair for change in changes]
    relied = _pairs_relied_on((change for change in changes if change.removes), live)
    own_pairs = set(pairs)
    return Preconditions(
        pairs=tuple(_precondition_of(pair, owned, live) for pair in pairs),
        relied_on=tuple(
            _precondition_of(pair, owned, live)
            for pair in sorted(
                relied - own_pairs, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]])
            )
        ),
    )


def differences(then: Preconditions, now: Preconditions) -> tuple[PreconditionChange, ...]:
    """Return the differences between two sets of preconditions of the same changes, sorted; empty = the plan is still valid."""
    if then == now:
        return ()
    before, after = _by_pair(then), _by_pair(now)
    changes: list[PreconditionChange] = []
    for pair in before.keys() | after.keys():
        previous, current = before.get(pair), after.get(pair)
        if previous is None or current is None or not previous.agrees_with(current):
            changes.append(
                PreconditionChange(entity=pair[0], key=pair[1], then=previous, now=current)
            )
    return tuple(
        sorted(changes, key=lambda change: (sort_key(change.entity), COLUMN_OF[change.key]))
    )


def _by_pair(preconditions: Preconditions) -> Mapping[Pair, Precondition]:
    return {
        (precondition.entity, precondition.key): precondition
        for precondition in (*preconditions.relied_on, *preconditions.pairs)
    }


def _precondition_of(pair: Pair, owned: OwnershipRecords, live: QuotaState) -> Precondition:
    subject, key = pair
    column = COLUMN_OF[key]
    record = owned.records.get(subject, NO_RECORD)
    owner = record.owners[column]
    return Precondition(
        entity=subject,
        key=key,
        live=live.limits.get(subject, NO_LIMITS)[column],
        applied=record.applied[column],
        document="" if owner is None else owner.document,
    )


def _pairs_relied_on(removals: Iterable[QuotaChange], live: QuotaState) -> set[Pair]:
    """Return live pairs at wider levels that can match a client of a removed pair."""
    fallback_pairs: set[Pair] = set()
    by_client: dict[Key, list[Entity]] = {}
    asked_clients: set[tuple[object, ...]] = set()
    for change in removals:
        subject, key = change.pair
        column = COLUMN_OF[key]
        for candidate in fallbacks(subject):
            limits: Limits = live.limits.get(candidate, NO_LIMITS)
            if limits[column] is not None:
                fallback_pairs.add((candidate, key))
        if not meets_every_client_id(subject):
            continue
        kind = (key, subject[0] is ABSENT, subject[0] is None, subject[1] is None)
        if kind in asked_clients:
            continue
        asked_clients.add(kind)
        if key not in by_client:
            by_client[key] = [
                e
                for e, limits in live.limits.items()
                if names_only_client(e) and limits[column] is not None
            ]
        fallback_pairs.update((e, key) for e in by_client[key] if is_wider(subject, e))
    return fallback_pairs


def fallbacks(subject: Entity) -> Iterator[Entity]:
    """Iterate over the wider entities that can be built from the slots of the subject: at most seven."""
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


def meets_every_client_id(subject: Entity) -> bool:
    """Whether clients of the entity may have any client-id: then every named client-id at a wider level counts."""
    return subject[2] is ABSENT and not isinstance(subject[1], str)


def names_only_client(subject: Entity) -> bool:
    """Whether the entity names a client-id and no user, so that it may match any user."""
    return isinstance(subject[1], str) and not isinstance(subject[0], str)


def is_wider(subject: Entity, wider: Entity) -> bool:
    """Whether an entity that names only a client-id is at a wider level than ``subject``."""
    if wider[0] is None:
        return isinstance(subject[0], str)
    return subject[0] is not ABSENT
