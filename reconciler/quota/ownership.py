"""Ownership records: the value last applied, a write in progress and the owner of each pair; and overrides above them.

Kafka stores no owner, so the records are the third input of the comparison. There is one :class:`OwnershipRecord`
per entity, so that an entity in sync costs one lookup and one tuple comparison; intents, drift times and orphans
are rare and have separate sparse maps.

A pair has two layers. An override (``overrides.py``) writes only the upper one; the record keeps what was applied before
it, and for whom.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Final, TypeAlias, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, KeyColumns, key_columns
from reconciler.quota.overrides import LAST_MOMENT, Override
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import NO_LIMITS, Limits, with_value

Pair: TypeAlias = tuple[Entity, Key]

_K = TypeVar("_K")
_V = TypeVar("_V")


Moment: TypeAlias = Annotated[float, Meta(ge=0, le=LAST_MOMENT)]
"""Seconds since the epoch, until the end of the year 9999."""


class Owner(
    Struct, frozen=True, kw_only=True, gc=False, rename="camel", forbid_unknown_fields=True
):
    """The owner of a pair."""

    document: str  # `namespace/name` of the document that declared it last; "" only in NOBODY
    # The policy of that document when it was last read; None = unset.
    deletion_policy: DeletionPolicy | None = None
    since: Moment = 0.0  # when kquota first applied or adopted it


NOBODY: Final = Owner(document="")
"""The owner of a write that no document asked for: an override begins or ends, or an unmanaged limit is removed."""

Owners: TypeAlias = KeyColumns[Owner | None]
NO_OWNERS: Final[Owners] = key_columns([None] * len(COLUMNS))

SETTLING_SECONDS: Final = 65.0
"""How long a write without a response may still take effect: the broker retries it for 60 s (BrokerServer, 3.4 to 4.4)."""

SENDING_SECONDS: Final = 600.0
"""How long after its start a run sends at most: records may be written slowly, and requests follow one another."""


class OwnershipRecord(Struct, frozen=True, gc=False):
    """The pairs of one entity that kquota owns.

    The value is recorded, not only the ownership: a removal is safe only if `live == applied`. Without the
    value, a run could remove a value that another writer has set since.
    """

    applied: Limits  # value last applied per key, in columns
    owners: Owners  # the owner of each value, in the same columns; set exactly where `applied` is
    # The only owner of all values, None if they differ. Derived; stored because the planner reads it for every
    # entity.
    sole: Owner | None = None

    def __post_init__(self) -> None:
        sole: Owner | None = None
        for owner in self.owners:
            if owner is None or owner is sole:
                continue
            if sole is not None and owner != sole:
                sole = None
                break
            sole = owner
        force_setattr(self, "sole", sole)

    def pairs(self) -> Iterator[tuple[Key, Owner]]:
        """Iterate over ``(key, owner)`` of each owned pair, in column order."""
        return (
            (key, owner)
            for key, owner in zip(COLUMNS, self.owners, strict=True)
            if owner is not None
        )

    def with_pair(self, key: Key, value: float | None, owner: Owner | None) -> "OwnershipRecord":
        """Return the record with one pair set, or removed if ``value`` and ``owner`` are ``None``."""
        columns = list(self.owners)
        columns[COLUMN_OF[key]] = owner
        return OwnershipRecord(with_value(self.applied, key, value), key_columns(columns))


NO_RECORD: Final = OwnershipRecord(NO_LIMITS, NO_OWNERS)


class Intent(Struct, frozen=True, kw_only=True, gc=False):
    """A write that may be in progress: recorded before it is sent, removed once its outcome is recorded."""

    value: float | None  # the value to set; None = remove
    owner: Owner  # the owner that requests it; NOBODY for an override
    # When it is sent at the latest, in seconds since the epoch; a later run has the time of its first describe instead.
    # It may take effect up to 65 s later.
    at: float = 0.0

    def may_still_land(self, now: float) -> bool:
        """Whether the broker may still retry the write."""
        return now < self.at + SETTLING_SECONDS


class OfPair(Struct, frozen=True, kw_only=True, gc=False):
    """A record change of one pair."""

    entity: Entity
    key: Key


class IntentStarted(OfPair, frozen=True, kw_only=True, gc=False):
    """A write is about to be sent."""

    intent: Intent


class Recorded(OfPair, frozen=True, kw_only=True, gc=False):
    """A pair was applied, adopted or found converged; clears its intent, drift time and orphan mark."""

    value: float
    owner: Owner


class RecordDropped(OfPair, frozen=True, kw_only=True, gc=False):
    """A pair is no longer owned: kquota removed it, or it was already absent."""


class IntentEnded(OfPair, frozen=True, kw_only=True, gc=False):
    """A write did not happen: rejected or never sent. The value applied before stays recorded."""


class DriftObserved(OfPair, frozen=True, kw_only=True, gc=False):
    """Drift was first seen at ``at`` (seconds since the epoch); ``None`` = it ended."""

    at: float | None


class Orphaned(OfPair, frozen=True, kw_only=True, gc=False):
    """The document of a pair was deleted and its value was retained."""


class OverrideSet(Struct, frozen=True, kw_only=True, gc=False):
    """An override was created or changed."""

    override: Override


class OverrideWritten(OfPair, frozen=True, kw_only=True, gc=False):
    """A value was written above the record of a pair; clears its intent and drift time."""

    value: float | None  # the live value; None = not set


class OverrideEnded(OfPair, frozen=True, kw_only=True, gc=False):
    """An override ended and its value was replaced. To end one early, first set its ``until`` to now."""


class EndReached(OfPair, frozen=True, kw_only=True, gc=False):
    """The end of a document was carried out: no clock that is behind begins it again."""

    at: float  # seconds since the epoch


class ProjectNamed(Struct, frozen=True, kw_only=True, gc=False):
    """The records are those of this project now."""

    project: str


RecordChange: TypeAlias = (
    IntentStarted
    | Recorded
    | RecordDropped
    | IntentEnded
    | DriftObserved
    | Orphaned
    | OverrideSet
    | OverrideWritten
    | OverrideEnded
    | EndReached
    | ProjectNamed
)


def pair_of(change: OfPair | OverrideSet) -> Pair:
    """Return the pair of a record change."""
    return change.override.pair if isinstance(change, OverrideSet) else (change.entity, change.key)


class RecordCounts(Struct, frozen=True, kw_only=True, gc=False):
    """Number of pairs that records of some entities leave out."""

    # Owned pairs by the namespace of their document.
    owned: Mapping[str, int] = field(default_factory=dict[str, int])
    orphaned: int = 0  # orphaned pairs


class OwnershipRecords(Struct, frozen=True, kw_only=True, gc=False):
    """The records of one cluster: all, or those of some entities.

    `is_known` is False only if nothing was ever recorded for a document, not if there are no records now. Intents
    and overrides alone do not make records known. Without this distinction, "removals cannot be determined" would
    become "there is nothing to remove", and lost records would become the end of all drift.
    """

    cluster_id: str  # the cluster; records are never used for another one
    # The owned pairs per entity; no record is empty.
    records: Mapping[Entity, OwnershipRecord] = field(default_factory=dict[Entity, OwnershipRecord])
    # Writes that may be in progress.
    intents: Mapping[Pair, Intent] = field(default_factory=dict[Pair, Intent])
    # When the drift of a pair was first seen.
    drift_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float])
    # Pairs whose document was deleted and whose value was retained.
    orphaned: frozenset[Pair] = frozenset()
    # By pair; expired ones stay until their value was replaced.
    overrides: Mapping[Pair, Override] = field(default_factory=dict[Pair, Override])
    # Whether records of documents exist or existed; without any, removals cannot be determined.
    is_known: bool = True
    # The project whose documents they record; "" = none wrote yet, or they are those of the operator.
    project: str = ""
    # The latest end of a document that was carried out, in seconds since the epoch.
    latest_end: float = 0.0
    # Number of pairs in the records of all other entities.
    elsewhere: RecordCounts = field(default_factory=RecordCounts)

    @property
    def pair_count(self) -> int:
        """The number of owned pairs of the cluster."""
        unset = sum(record.applied.count(None) for record in self.records.values())
        return len(COLUMNS) * len(self.records) - unset + sum(self.elsewhere.owned.values())

    @property
    def orphan_count(self) -> int:
        """The number of orphaned pairs of the cluster."""
        return len(self.orphaned) + self.elsewhere.orphaned

    def applied_value(self, pair: Pair) -> float | None:
        """Return the value that was applied last; ``None`` if there is no record."""
        entity, key = pair
        return self.records.get(entity, NO_RECORD).applied[COLUMN_OF[key]]

    def owner_of(self, pair: Pair) -> Owner | None:
        """Return the owner of a pair; ``None`` if there is no record."""
        entity, key = pair
        return self.records.get(entity, NO_RECORD).owners[COLUMN_OF[key]]

    def owners(self) -> Iterator[tuple[Entity, Owner]]:
        """Yield the owners of recorded values with their entities."""
        for subject, record in self.records.items():
            for _, owner in record.pairs():
                yield subject, owner

    def part(self, entities: Collection[Entity]) -> "OwnershipRecords":
        """Return the records of some entities; pairs of other entities are not counted in ``elsewhere``."""
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

    def with_part(
        self, entities: Collection[Entity], part: "OwnershipRecords"
    ) -> "OwnershipRecords":
        """Return the records with those of some entities replaced, without a visit of each record."""
        before = self.part(entities)
        return replace(
            self,
            records=_replace_items(self.records, before.records, part.records),
            intents=_replace_items(self.intents, before.intents, part.intents),
            drift_since=_replace_items(self.drift_since, before.drift_since, part.drift_since),
            orphaned=self.orphaned - before.orphaned | part.orphaned,
            overrides=_replace_items(self.overrides, before.overrides, part.overrides),
            is_known=part.is_known,
            latest_end=part.latest_end,
        )

    def with_changes(self, changes: Iterable[RecordChange]) -> "OwnershipRecords":
        """Return the records after these changes, in order."""
        draft = _RecordsDraft(self)
        for change in changes:
            draft.take(change)
        return draft.owned()


def _replace_items(
    mapping: Mapping[_K, _V], before: Mapping[_K, _V], after: Mapping[_K, _V]
) -> Mapping[_K, _V]:
    """Return a mapping with some of its items replaced by others; the mapping itself if they are the same objects."""
    if before.keys() == after.keys() and all(after[key] is value for key, value in before.items()):
        return mapping
    replaced_mapping = dict(mapping)
    for key in before.keys() - after.keys():
        del replaced_mapping[key]
    replaced_mapping.update(after)
    return replaced_mapping


class _RecordsDraft:
    """Mutable copies of the maps, for one :meth:`OwnershipRecords.with_changes`."""

    def __init__(self, owned: OwnershipRecords) -> None:
        self._origin, self._project = owned, owned.project
        self._is_known, self._latest_end = owned.is_known, owned.latest_end
        self._records = dict(owned.records)
        self._intents = dict(owned.intents)
        self._drift = dict(owned.drift_since)
        self._orphaned = set(owned.orphaned)
        self._overrides = dict(owned.overrides)

    def take(self, change: RecordChange) -> None:
        match change:
            case IntentStarted(entity=entity, key=key, intent=intent):
                self._intents[entity, key] = intent
            case Recorded(entity=entity, key=key, value=value, owner=owner):
                self._forget((entity, key))
                self._put(entity, key, value, owner)
                self._is_known = True
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
            case _:
                self._take_rare(change)

    def _take_rare(
        self, change: OverrideSet | OverrideWritten | OverrideEnded | EndReached | ProjectNamed
    ) -> None:
        match change:
            case ProjectNamed(project=project):
                self._project = project
            case EndReached(at=at):
                self._latest_end = max(self._latest_end, at)
            case OverrideSet(override=override):
                self._overrides[override.pair] = override
            case OverrideWritten(entity=entity, key=key, value=value):
                pair = entity, key
                _ = self._intents.pop(pair, None)
                _ = self._drift.pop(pair, None)
                if pair in self._overrides:
                    self._overrides[pair] = replace(self._overrides[pair], applied=value)
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
            project=self._project,
            latest_end=self._latest_end,
            elsewhere=self._origin.elsewhere,
        )
