"""What a plan stands on: live value and record of each of its pairs, and of the pairs that its removals rely on.

A plan that was saved and approved may be applied later only if all of that is still so. A removal relies on the
limits that its clients fall back to: had one of them gone meanwhile, the removal would set clients free.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.quota.change import Change
from reconciler.quota.entity import ABSENT, Entity, Slot, sort_key
from reconciler.quota.keys import COLUMN_OF, Key, same_value
from reconciler.quota.owned import NO_RECORD, Owned, Pair
from reconciler.quota.state import NO_LIMITS, Limits, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One pair as it was seen.

    Attributes:
        entity: Whose quota.
        key: Which key.
        live: What the cluster had.
        applied: What the inventory said we had applied last.
        document: Whose the record said it is, "" without a record.
    """

    entity: Entity
    key: Key
    live: float | None
    applied: float | None
    document: str

    def agrees_with(self, other: "Ground") -> bool:
        """Whether both mean the same; a value that Kafka enforces alike counts as the same."""
        return (
            same_value(self.key, self.live, other.live)
            and same_value(self.key, self.applied, other.applied)
            and self.document == other.document
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A pair that is not as it was; a side is ``None`` where the pair was not looked at or not set."""

    entity: Entity
    key: Key
    then: Ground | None
    now: Ground | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Everything that a plan stands on.

    Attributes:
        pairs: One per change, in plan order.
        relied_on: Live limits that clients of removed pairs fall back to, sorted.
    """

    pairs: tuple[Ground, ...] = field(default_factory=tuple[Ground, ...])
    relied_on: tuple[Ground, ...] = field(default_factory=tuple[Ground, ...])


def basis_of(changes: Iterable[Change], *, owned: Owned, live: State) -> Basis:
    """What these changes stand on, in this state and with these records."""
    pairs = [(change.entity, change.key) for change in changes]
    relied = _relied_on((change for change in changes if change.removes), live)
    own = set(pairs)
    return Basis(
        pairs=tuple(_ground(pair, owned, live) for pair in pairs),
        relied_on=tuple(
            _ground(pair, owned, live)
            for pair in sorted(relied - own, key=lambda one: (sort_key(one[0]), COLUMN_OF[one[1]]))
        ),
    )


def differences(then: Basis, now: Basis) -> tuple[Difference, ...]:
    """Where two bases of the same changes disagree, sorted; empty = the plan still fits."""
    if then == now:
        return ()
    before, after = _by_pair(then), _by_pair(now)
    found: list[Difference] = []
    for pair in before.keys() | after.keys():
        one, other = before.get(pair), after.get(pair)
        if one is None or other is None or not one.agrees_with(other):
            found.append(Difference(entity=pair[0], key=pair[1], then=one, now=other))
    return tuple(sorted(found, key=lambda one: (sort_key(one.entity), COLUMN_OF[one.key])))


def _by_pair(basis: Basis) -> Mapping[Pair, Ground]:
    return {(one.entity, one.key): one for one in (*basis.relied_on, *basis.pairs)}


def _ground(pair: Pair, owned: Owned, live: State) -> Ground:
    subject, key = pair
    column = COLUMN_OF[key]
    record = owned.records.get(subject, NO_RECORD)
    owner = record.owners[column]
    return Ground(
        entity=subject,
        key=key,
        live=live.limits.get(subject, NO_LIMITS)[column],
        applied=record.applied[column],
        document="" if owner is None else owner.document,
    )


def _relied_on(removals: Iterable[Change], live: State) -> set[Pair]:
    """Live pairs at wider levels that can match a client of a removed pair."""
    found: set[Pair] = set()
    by_client: dict[Key, list[Entity]] = {}
    asked: set[tuple[object, ...]] = set()
    for change in removals:
        subject, key = change.entity, change.key
        column = COLUMN_OF[key]
        for candidate in fallbacks(subject):
            limits: Limits = live.limits.get(candidate, NO_LIMITS)
            if limits[column] is not None:
                found.add((candidate, key))
        if not meets_every_client_id(subject):
            continue
        kind = (key, subject[0] is ABSENT, subject[0] is None, subject[1] is None)
        if kind in asked:
            continue
        asked.add(kind)
        if key not in by_client:
            by_client[key] = [
                e
                for e, limits in live.limits.items()
                if names_only_client(e) and limits[column] is not None
            ]
        found.update((e, key) for e in by_client[key] if is_wider(subject, e))
    return found


def fallbacks(subject: Entity) -> Iterator[Entity]:
    """Wider entities that are known by name: at most seven."""
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
    for one in users:
        for other in clients:
            candidate = Entity((one, other, ABSENT))
            if after and candidate != (ABSENT, ABSENT, ABSENT):
                yield candidate
            after = after or candidate == subject


def meets_every_client_id(subject: Entity) -> bool:
    """Whether clients of the entity may have any client-id: then each named one at a wider level counts."""
    return subject[2] is ABSENT and not isinstance(subject[1], str)


def names_only_client(subject: Entity) -> bool:
    """Whether the entity names a client-id and no user: it may meet any user."""
    return isinstance(subject[1], str) and not isinstance(subject[0], str)


def is_wider(subject: Entity, other: Entity) -> bool:
    """Whether an entity that names only a client-id stands at a wider level than ``subject``."""
    if other[0] is None:
        return isinstance(subject[0], str)
    return subject[0] is not ABSENT
