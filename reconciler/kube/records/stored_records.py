"""The content of the ConfigMaps of one cluster id as a value, their labels, and the parts that a change affects."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, field

from reconciler.kube.api.custom_resources import GROUP
from reconciler.kube.records.record_parts import PARTS, hash_of, part_of
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.removal_guard import RemovalCount

_V = TypeVar("_V")

CONTENT, DOCUMENTS = "content", "documents"
SALT, REMOVALS, CORRECTIONS = "salt", "removals", "corrections"
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
RECORDS_LABEL: Final = f"{GROUP}/records"
FIRST: Final = "first"
"""Value of the label of the first part; the others have ``part``."""

QUOTA_CLUSTER: Final = "quotaCluster"
CLUSTER_ID: Final = f"{GROUP}/cluster-id"


class StoredRecords(Struct, frozen=True, kw_only=True):
    """The content of the ConfigMaps of one cluster id."""

    owned: OwnershipRecords  # all records, intents, overrides, orphans and drift times
    # The uids of the documents that own something and whose deletion was not observed.
    uids: Mapping[str, str] = field(default_factory=dict[str, str])
    removals: Sequence[RemovalCount] = ()  # the removals of the last hour
    # Corrections of drift within the tracker's window.
    corrections: Sequence[CorrectionHistory] = ()
    manager: str = ""  # the QuotaCluster that wrote last; "" = none did
    # What the hash of an entity is salted with, the same in all parts; "" = there are no parts yet.
    salt: str = ""


class StoredRows(Generic[_V]):
    """Rows of a loop, stored with the records of its cluster. Implements ``loop.RemovalStore`` and ``CorrectionStore``."""

    def __init__(self) -> None:
        self.rows: tuple[_V, ...] = ()

    async def load(self) -> Sequence[_V]:
        """Return all rows."""
        return self.rows

    async def save(self, rows: Sequence[_V]) -> None:
        """Replace all rows; the next write of records includes them."""
        self.rows = tuple(rows)


def selector(cluster_id: str) -> str:
    """Return the label selector of all ConfigMaps of a cluster id."""
    return f"{CLUSTER_LABEL}={hash_of(cluster_id)},{RECORDS_LABEL}"


def changed_parts(
    before: StoredRecords, after: StoredRecords, *, among: Collection[Entity] | None = None
) -> Collection[int]:
    """Return the numbers of the parts whose content changed; ``among`` as for :func:`changed_entities`."""
    if before.salt != after.salt or before.owned.is_known != after.owned.is_known:
        return range(PARTS)
    entities = changed_entities(before, after, among=among)
    numbers = {part_of(subject, after.salt) for subject in entities}
    if _in_first_part(before) != _in_first_part(after):
        numbers.add(0)
    return sorted(numbers)


def _in_first_part(stored: StoredRecords) -> tuple[object, ...]:
    return stored.removals, stored.corrections, stored.manager


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
    entities: set[Entity] = set()
    if first.records is not second.records:
        entities |= first.records.keys() ^ second.records.keys()
        record_before = first.records.get
        entities.update(
            subject
            for subject, record in second.records.items()
            if record_before(subject) is not record
        )
    maps: tuple[tuple[Mapping[Any, Any], Mapping[Any, Any]], ...] = (
        (first.intents, second.intents),
        (first.drift_since, second.drift_since),
        (first.overrides, second.overrides),
    )
    for some, additional in maps:
        if some != additional:
            pairs = some.keys() | additional.keys()
            entities.update(pair[0] for pair in pairs if some.get(pair) != additional.get(pair))
    entities.update(subject for subject, _ in first.orphaned ^ second.orphaned)
    if before.uids != after.uids:
        documents = {
            document
            for document in before.uids.keys() | after.uids.keys()
            if before.uids.get(document) != after.uids.get(document)
        }
        entities.update(
            subject for subject, owner in second.owners() if owner.document in documents
        )
    return entities
