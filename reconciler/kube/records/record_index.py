"""Where the records of a cluster are: the entities of each part and of each document, and the owned pairs of each namespace.

A partial reconciliation looks up its entities here instead of reading all records. The index is brought up to date by
comparing identities: records that did not change are one object.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from reconciler.kube.records.series_layout import part_of
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecord, OwnershipRecords, RecordCounts
from reconciler.quota.planner.removal_guard import owned_by_tenant


class RecordIndex:
    """An index of the records of one cluster."""

    def __init__(self) -> None:
        self._clear(1)

    def _clear(self, parts: int) -> None:
        self._parts = parts
        self._records: Mapping[Entity, OwnershipRecord] = {}
        self._by_part: dict[int, set[Entity]] = {}
        self._by_document: dict[str, list[Entity]] = {}
        self._pairs: Counter[str] = Counter()

    def update(
        self, owned: OwnershipRecords, parts: int, *, among: Collection[Entity] | None = None
    ) -> None:
        """Index the records of a layout with this number of parts.

        Args:
            parts: Number of parts; if it changed, all records are indexed again.
            among: The entities whose records may differ from the indexed ones; ``None`` = any.
        """
        if parts != self._parts:
            self._clear(parts)
            among = None
        if self._records is owned.records:
            return
        entities = _differing(self._records, owned.records) if among is None else among
        for subject in entities:
            if (record := self._records.get(subject)) is not None:
                self._discard(subject, record)
        self._pairs.subtract(owned_by_tenant(_some(self._records, entities)))
        for subject in entities:
            if (record := owned.records.get(subject)) is not None:
                self._by_part.setdefault(part_of(subject, self._parts), set()).add(subject)
                for document in documents_of(record):
                    self._by_document.setdefault(document, []).append(subject)
        self._pairs.update(owned_by_tenant(_some(owned.records, entities)))
        self._records = owned.records

    def _discard(self, subject: Entity, record: OwnershipRecord) -> None:
        self._by_part[part_of(subject, self._parts)].discard(subject)
        for document in documents_of(record):
            entities = self._by_document[document]
            entities.remove(subject)
            if not entities:
                del self._by_document[document]

    def in_parts(self, numbers: Collection[int]) -> frozenset[Entity]:
        """Return the entities with a record in these parts."""
        return frozenset().union(*(self._by_part.get(number, ()) for number in numbers))

    def of_documents(self, documents: Collection[str]) -> frozenset[Entity]:
        """Return the entities of which one of these documents owns something."""
        return frozenset().union(*(self._by_document.get(document, ()) for document in documents))

    def without(self, part: OwnershipRecords, *, orphaned: int) -> RecordCounts:
        """Return the counts of all records besides those of a part.

        Args:
            part: The indexed records of some entities.
            orphaned: Number of all orphaned pairs.
        """
        remaining = self._pairs.copy()
        remaining.subtract(owned_by_tenant(part))
        return RecordCounts(owned=+remaining, orphaned=orphaned - len(part.orphaned))


def documents_of(record: OwnershipRecord) -> Collection[str]:
    """Return the documents that own something of an entity."""
    if record.sole is not None:
        return (record.sole.document,)
    return {owner.document for owner in record.owners if owner is not None}


def _differing(
    before: Mapping[Entity, OwnershipRecord], after: Mapping[Entity, OwnershipRecord]
) -> Collection[Entity]:
    return [
        *(subject for subject in before if subject not in after),
        *(subject for subject, record in after.items() if before.get(subject) is not record),
    ]


def _some(
    records: Mapping[Entity, OwnershipRecord], entities: Collection[Entity]
) -> OwnershipRecords:
    return OwnershipRecords(
        cluster_id="",
        records={subject: records[subject] for subject in entities if subject in records},
    )
