"""The content of the ConfigMaps of one cluster id as a value, their names and labels, and the part of each entity."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from reconciler.kube.api.custom_resources import GROUP
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity import Entity, record_key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.removal_guard import RemovalCount

_K = TypeVar("_K")
_V = TypeVar("_V")

PARTS: Final = 16
"""The number of parts. It must never change, because the part of an entity depends on it."""

CLUSTER_LABEL: Final = f"{GROUP}/cluster"
RECORDS_LABEL: Final = f"{GROUP}/records"
FIRST, PART = "first", "part"
"""Values of the label: of the first part, and of the others."""

CLUSTER_ID: Final = f"{GROUP}/cluster-id"


def hash_of(cluster_id: str) -> str:
    """Return the form of a cluster id in names and labels, which do not allow all its characters."""
    return hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def selector(cluster_id: str) -> str:
    """Return the label selector of all ConfigMaps of a cluster id; other values of the label are not those of parts."""
    return f"{CLUSTER_LABEL}={hash_of(cluster_id)},{RECORDS_LABEL} in ({FIRST},{PART})"


def part_names(cluster_id: str) -> tuple[str, ...]:
    """Return the names of the parts of a cluster id, in the order of their numbers."""
    prefix = hash_of(cluster_id)
    return tuple(f"kquota-{prefix}-{number}" for number in range(PARTS))


@lru_cache(maxsize=131_072)
def part_of(subject: Entity, salt: str) -> int:
    """Return the number of the part of an entity; must never change. Without the salt it cannot be chosen."""
    digest = hashlib.sha256(salt.encode() + record_key(subject)).digest()
    return int.from_bytes(digest[:8], "big") % PARTS


class LoopMemory(Struct, frozen=True, kw_only=True):
    """What the loop of a cluster remembers beyond the process; it is in the first part."""

    manager: str = ""  # the QuotaCluster that wrote last; "" = none did
    removals: Sequence[RemovalCount] = ()  # the removals of the last hour
    corrections: Sequence[CorrectionHistory] = ()  # those of drift within the tracker's window
    # When the removal guard last withheld removals of a namespace, to a minute, in seconds since the epoch.
    withheld: Mapping[str, float] = field(default_factory=dict[str, float])


class StoredRecords(Struct, frozen=True, kw_only=True):
    """The content of the ConfigMaps of one cluster id."""

    owned: OwnershipRecords  # all records, intents, overrides, orphans and drift times
    # The uids of the documents that own something and whose deletion was not observed.
    uids: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: LoopMemory = LoopMemory()
    # What the hash of an entity is salted with, the same in all parts; "" = there are no parts yet.
    salt: str = ""


class StoredRows(Generic[_V]):
    """Rows of a loop, stored with the records of its cluster. Implements ``loop.RowStore``."""

    def __init__(self) -> None:
        self.rows: tuple[_V, ...] = ()

    async def load(self) -> Sequence[_V]:
        """Return all rows."""
        return self.rows

    async def save(self, rows: Sequence[_V]) -> None:
        """Replace all rows; the next write of records includes them."""
        self.rows = tuple(rows)


def split(
    owned: OwnershipRecords, salt: str, numbers: Collection[int]
) -> Mapping[int, OwnershipRecords]:
    """Return the records of some parts, by number; one pass over the records."""
    entities: dict[int, set[Entity]] = {number: set() for number in numbers}
    pairs = (*owned.intents, *owned.drift_since, *owned.overrides, *owned.orphaned)
    for subject in (*owned.records, *(pair[0] for pair in pairs)):
        if (number := part_of(subject, salt)) in entities:
            entities[number].add(subject)
    return {number: owned.part(subjects) for number, subjects in entities.items()}


def changed_parts(
    before: StoredRecords, after: StoredRecords, *, among: Collection[Entity] | None = None
) -> Collection[int]:
    """Return the numbers of the parts whose content changed; ``among`` as for :func:`changed_entities`."""
    if before.salt != after.salt or before.owned.is_known != after.owned.is_known:
        return range(PARTS)
    entities = changed_entities(before, after, among=among)
    numbers = {part_of(subject, after.salt) for subject in entities}
    return sorted(numbers if before.memory == after.memory else {0, *numbers})


def changed_entities(
    before: StoredRecords, after: StoredRecords, *, among: Collection[Entity] | None = None
) -> set[Entity]:
    """Return the entities whose records changed.

    Args:
        before: The records before.
        after: The records after.
        among: The entities whose records may differ; ``None`` = any.
    """
    first, second = before.owned, after.owned
    if among is not None:
        first, second = first.part(among), second.part(among)
    entities = set(differing(first.records, second.records))
    pairs = [
        *differing(first.intents, second.intents),
        *differing(first.drift_since, second.drift_since),
        *differing(first.overrides, second.overrides),
        *first.orphaned ^ second.orphaned,
    ]
    entities.update(pair[0] for pair in pairs)
    if before.uids != after.uids:
        documents = {document for document, _ in before.uids.items() ^ after.uids.items()}
        owners = second.owners()
        entities.update(subject for subject, owner in owners if owner.document in documents)
    return entities


def differing(before: Mapping[_K, object], after: Mapping[_K, object]) -> Iterable[_K]:
    """Return the keys whose value is another object, or that one of the mappings has alone: a record written again differs."""
    if before is after:
        return ()
    earlier = before.get
    changed = [key for key, value in after.items() if earlier(key) is not value]
    return [*changed, *(before.keys() - after.keys())]
