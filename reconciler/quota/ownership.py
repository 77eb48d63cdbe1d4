"""Records of what we own: the value last applied, the value under way, whose it is. Plus overrides.

Kafka stores no owner, so these are the third side of the comparison. There is one :class:`OwnershipRecord` per entity, so that
an entity in sync costs one look-up and one tuple comparison; what is rare (intents, drift times, orphans) stands in
sparse maps beside.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import NO_LIMITS, Limits, replaced

Pair: TypeAlias = tuple[Entity, Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a pair is.

    Attributes:
        document: ``namespace/name`` of the document that asked for it last; "" for an override alone.
        deletion_policy: What that document said when it was last seen; ``None`` = unset.
        since: When we first applied or adopted it, in seconds since the epoch.
    """

    document: str
    deletion_policy: DeletionPolicy | None = None
    since: float = 0.0


Owners: TypeAlias = tuple[Owner | None, Owner | None, Owner | None, Owner | None, Owner | None]
NO_OWNERS: Final[Owners] = (None, None, None, None, None)

SETTLING_SECONDS: Final = 65.0
"""How long a write without an answer may still land: the broker itself retries it for 60 s (BrokerServer, 3.4 to 4.4)."""


@dataclass(frozen=True, slots=True)
class OwnershipRecord:
    """What we own of one entity.

    A record is compared by value, not by presence: only `live == applied` makes a removal safe. Without the
    value, a run could remove what another writer has set since.

    Attributes:
        applied: Value last applied per key, in columns.
        owners: Whose each of them is, in the same columns; set exactly where ``applied`` is.
        sole: The one owner of all of them, ``None`` where they differ. Derived; kept because the planner
            asks it of every entity.
    """

    applied: Limits
    owners: Owners
    sole: Owner | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        sole: Owner | None = None
        for owner in self.owners:
            if owner is None or owner is sole:
                continue
            if sole is not None and owner != sole:
                sole = None
                break
            sole = owner
        object.__setattr__(self, "sole", sole)

    def pairs(self) -> Iterator[tuple[Key, Owner]]:
        """``(key, owner)`` of each pair that is ours, in column order."""
        return (
            (key, owner)
            for key, owner in zip(COLUMNS, self.owners, strict=True)
            if owner is not None
        )

    def with_pair(self, key: Key, value: float | None, owner: Owner | None) -> "OwnershipRecord":
        """The record with one pair written or forgotten (both ``None``)."""
        columns = list(self.owners)
        columns[COLUMN_OF[key]] = owner
        producer, consumer, request, mutation, connection_rate = columns
        return OwnershipRecord(
            replaced(self.applied, key, value),
            (producer, consumer, request, mutation, connection_rate),
        )


NO_RECORD: Final = OwnershipRecord(NO_LIMITS, NO_OWNERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentBacking:
    """The record that a pair had when an intent for it was written down.

    Attributes:
        applied: Value last applied.
        owner: Whose it was.
    """

    applied: float
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A write that may be under way: written down before it is sent, gone once its outcome is recorded.

    Attributes:
        value: What was to be set; ``None`` = removed.
        owner: Who asks for it.
        at: When it was written down, in seconds since the epoch. Sent at most 65 s ago, it may still land.
        backing: The record at that time, if there is one and no other place has it yet.
    """

    value: float | None
    owner: Owner
    at: float = 0.0
    backing: IntentBacking | None = None

    def may_still_land(self, now: float) -> bool:
        """Whether the broker may still be trying."""
        return now < self.at + SETTLING_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A value of the night shift, in force instead of the declared one until a time.

    Attributes:
        entity: Whose quota.
        key: Which key.
        value: What holds meanwhile; ``None`` = not set.
        until: Seconds since the epoch.
        author: Who asked.
        reason: Why.
        before: What was live when it began: restored at the end where no document declares the pair.
        declared: What was declared when it began.
        ends_with_document: For a rollback: whether a change of what is declared ends it early. Where nothing is
            declared any more, the rolled-back value then stays.
    """

    entity: Entity
    key: Key
    value: float | None
    until: float
    author: str
    reason: str
    before: float | None = None
    declared: float | None = None
    ends_with_document: bool = False

    def in_force(self, now: float, declared: float | None) -> bool:
        """Whether it still replaces the declared value."""
        return now < self.until and (not self.ends_with_document or declared == self.declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentStarted:
    """About to be sent."""

    entity: Entity
    key: Key
    intent: Intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Applied (or adopted, or found converged); ends intent, drift and orphanhood of the pair."""

    entity: Entity
    key: Key
    value: float
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDropped:
    """No longer ours: removed, or gone by itself."""

    entity: Entity
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentEnded:
    """The write did not happen: rejected or never sent. What was applied before still counts."""

    entity: Entity
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftObserved:
    """Drift was first seen at ``at`` (seconds since the epoch); ``None`` = it is over."""

    entity: Entity
    key: Key
    at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphaned:
    """Its document is gone and the value was kept."""

    entity: Entity
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideSet:
    """A new or changed override."""

    override: Override


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideEnded:
    """An override is over and its value was replaced. To end one early, set its ``until`` to now: then its value goes first."""

    entity: Entity
    key: Key


RecordChange: TypeAlias = (
    IntentStarted
    | Recorded
    | RecordDropped
    | IntentEnded
    | DriftObserved
    | Orphaned
    | OverrideSet
    | OverrideEnded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipRecords:
    """All records of one cluster.

    `is_known` is not "has records": it is False only if there never were any. If it is lost, "removals cannot
    be known" silently becomes "nothing is to be removed".

    Attributes:
        cluster_id: Whose; never carried to another.
        records: What we own, per entity; none is empty.
        intents: Writes that may be under way.
        drift_since: When drift of a pair was first seen.
        orphaned: Pairs whose document went and whose value stayed.
        overrides: By pair; expired ones stay until their value was replaced.
        is_known: Whether there were records at all; without any, "removals cannot be known".
    """

    cluster_id: str
    records: Mapping[Entity, OwnershipRecord] = field(default_factory=dict[Entity, OwnershipRecord])
    intents: Mapping[Pair, Intent] = field(default_factory=dict[Pair, Intent])
    drift_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float])
    orphaned: frozenset[Pair] = frozenset()
    overrides: Mapping[Pair, Override] = field(default_factory=dict[Pair, Override])
    is_known: bool = True

    @property
    def pair_count(self) -> int:
        """How many pairs we own."""
        return sum(5 - record.applied.count(None) for record in self.records.values())

    def part(self, entities: Collection[Entity]) -> "OwnershipRecords":
        """What is recorded of some entities."""
        return replace(
            self,
            records={entity: self.records[entity] for entity in entities if entity in self.records},
            intents={pair: value for pair, value in self.intents.items() if pair[0] in entities},
            drift_since={
                pair: value for pair, value in self.drift_since.items() if pair[0] in entities
            },
            orphaned=frozenset(pair for pair in self.orphaned if pair[0] in entities),
            overrides={
                pair: value for pair, value in self.overrides.items() if pair[0] in entities
            },
        )

    def with_changes(self, changes: Iterable[RecordChange]) -> "OwnershipRecords":
        """The records after these changes, in order."""
        draft = _RecordsDraft(self)
        for change in changes:
            draft.take(change)
        return draft.owned()


class _RecordsDraft:
    """Mutable copies of the maps, for one :meth:`OwnershipRecords.with_changes`."""

    def __init__(self, owned: OwnershipRecords) -> None:
        self._origin = owned
        self._is_known = owned.is_known
        self._records = dict(owned.records)
        self._intents = dict(owned.intents)
        self._drift = dict(owned.drift_since)
        self._orphaned = set(owned.orphaned)
        self._overrides = dict(owned.overrides)

    def take(self, change: RecordChange) -> None:
        self._is_known = True
        match change:
            case IntentStarted(entity=entity, key=key, intent=intent):
                self._intents[entity, key] = intent
            case Recorded(entity=entity, key=key, value=value, owner=owner):
                self._forget((entity, key))
                self._put(entity, key, value, owner)
            case RecordDropped(entity=entity, key=key):
                self._forget((entity, key))
                self._put(entity, key, None, None)
            case IntentEnded(entity=entity, key=key):
                _ = self._intents.pop((entity, key), None)
            case DriftObserved(entity=entity, key=key, at=at):
                if at is None:
                    _ = self._drift.pop((entity, key), None)
                else:
                    _ = self._drift.setdefault((entity, key), at)
            case Orphaned(entity=entity, key=key):
                self._orphaned.add((entity, key))
            case OverrideSet(override=override):
                self._overrides[override.entity, override.key] = override
            case _:
                _ = self._overrides.pop((change.entity, change.key), None)

    def _forget(self, pair: Pair) -> None:
        _ = self._intents.pop(pair, None)
        _ = self._drift.pop(pair, None)
        self._orphaned.discard(pair)

    def _put(self, entity: Entity, key: Key, value: float | None, owner: Owner | None) -> None:
        record = self._records.get(entity, NO_RECORD).with_pair(key, value, owner)
        if record.applied == NO_LIMITS:
            _ = self._records.pop(entity, None)
        else:
            self._records[entity] = record

    def owned(self) -> OwnershipRecords:
        return OwnershipRecords(
            cluster_id=self._origin.cluster_id,
            records=self._records,
            intents=self._intents,
            drift_since=self._drift,
            orphaned=frozenset(self._orphaned),
            overrides=self._overrides,
            is_known=self._is_known,
        )
