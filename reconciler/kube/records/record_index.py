"""Where the records of a cluster are: the entities of each part and document, and what each namespace owns and fills.

A partial reconciliation looks up its entities here instead of reading all records. The index is brought up to date by
comparing identities: records that did not change are one object.

A full part refuses new pairs of a namespace that fills its share; others go on. A pair counts for more than it can take
up, whatever its names are, so that a part with four full shares is below the 1 MiB that the API server accepts.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from reconciler.kube.records.stored_records import differing, part_of
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import OwnershipRecord, OwnershipRecords, RecordCounts
from reconciler.quota.planner.desired_state import Claim
from reconciler.quota.planner.removal_guard import owned_by_tenant

ROOM: Final = 960 * 1024
"""What the pairs of a part may count for; the remaining 64 KiB are for counts of removals and corrections of drift."""

# Why 16 parts, and a quarter for each namespace: docs/adr/operator-records.md.
SHARE: Final = ROOM // 4
"""What the pairs of one namespace in one part may count for."""

RECORDS_FULL: Final = (
    "its namespace fills its share of the ownership records, so what this document declares anew is not applied; delete ClientQuotas"
    " of the namespace together with their limits"
)
"""The message of a document that is refused; without a count, so that one more document changes no other status."""

_OF_DOCUMENT, _OF_KEY = 64, 48


def size_of(subject: Entity, document: str, keys: int) -> int:
    """Return what the pairs of one entity and document count for: an upper bound of the bytes that they take up in gzip.

    gzip is never longer than its input, apart from a few bytes for each 16 KiB. Names count as in JSON: those of the
    entity three times (record, write in progress, drift or orphan; the rows of one entity stand together, so that a
    repeated name is a reference), that of the document twice (owner and uid). The rest of a row is numbers, of which a
    digit takes less than half a byte, and words that repeat. The override of a document counts as its claim.
    """
    names = sum(len(json.dumps(slot)) for slot in subject if slot)
    return 3 * names + 2 * len(document) + _OF_DOCUMENT + _OF_KEY * keys if keys else 0


def sizes_of(subject: Entity, record: OwnershipRecord) -> dict[str, int]:
    """Return what the pairs of a record count for, by namespace."""
    sizes: dict[str, int] = {}
    for document, keys in keys_by_document(record).items():
        namespace = document.partition("/")[0]
        sizes[namespace] = sizes.get(namespace, 0) + size_of(subject, document, keys)
    return sizes


def keys_by_document(record: OwnershipRecord) -> dict[str, int]:
    """Return the number of keys that each document owns of an entity."""
    if record.sole is not None:
        return {record.sole.document: len(COLUMNS) - record.owners.count(None)}
    counts: dict[str, int] = {}
    for _, owner in record.pairs():
        counts[owner.document] = counts.get(owner.document, 0) + 1
    return counts


class RecordIndex:
    """An index of the records of one cluster."""

    def __init__(self) -> None:
        self._clear("")

    def _clear(self, salt: str) -> None:
        self._salt = salt
        self._records: Mapping[Entity, OwnershipRecord] = {}
        self._by_document: dict[str, list[Entity]] = {}
        self._pairs: Counter[str] = Counter()
        # What the pairs of each part count for, and of each namespace in it.
        self._sizes: Counter[int | tuple[int, str]] = Counter()

    def update(
        self, owned: OwnershipRecords, salt: str, *, among: Collection[Entity] | None = None
    ) -> None:
        """Index the records.

        Args:
            salt: That of their parts; if it changed, all records are indexed again.
            among: The entities whose records may differ from the indexed ones; ``None`` = any.
        """
        if salt != self._salt:
            self._clear(salt)
            among = None
        if self._records is owned.records:
            return
        entities = set(differing(self._records, owned.records)) if among is None else among
        for subject in entities:
            if (record := self._records.get(subject)) is not None:
                self._discard(subject, record)
        self._pairs.subtract(owned_by_tenant(_some(self._records, entities)))
        for subject in entities:
            if (record := owned.records.get(subject)) is not None:
                number = part_of(subject, salt)
                self._count(number, sizes_of(subject, record))
                for document in keys_by_document(record):
                    self._by_document.setdefault(document, []).append(subject)
        self._pairs.update(owned_by_tenant(_some(owned.records, entities)))
        self._records = owned.records

    def _discard(self, subject: Entity, record: OwnershipRecord) -> None:
        number = part_of(subject, self._salt)
        sizes = sizes_of(subject, record)
        self._count(number, {namespace: -size for namespace, size in sizes.items()})
        for document in keys_by_document(record):
            entities = self._by_document[document]
            entities.remove(subject)
            if not entities:
                del self._by_document[document]

    def _count(self, number: int, sizes: Mapping[str, int]) -> None:
        for namespace, size in sizes.items():
            self._sizes[number] += size
            self._sizes[number, namespace] += size

    def without_room(self, claims: Iterable[Claim]) -> frozenset[str]:
        """Return the documents whose new pairs do not fit into the shares of their namespaces, or the part; the oldest fit first."""
        growth = [(claim.created, claim, size) for claim in claims if (size := self._growth(claim))]
        refused: set[str] = set()
        added: Counter[int | tuple[int, str]] = Counter()
        for _, claim, size in sorted(growth, key=lambda row: (row[0], row[1].declaration.document)):
            number = part_of(claim.declaration.entity, self._salt)
            share = number, claim.namespace
            if (
                self._sizes[share] + added[share] + size > SHARE
                or self._sizes[number] + added[number] + size > ROOM
            ):
                refused.add(claim.declaration.document)
            else:
                added[share] += size
                added[number] += size
        return frozenset(refused)

    def _growth(self, claim: Claim) -> int:
        """Return what the pairs of a claim count for beyond those that are recorded for its document."""
        declared = claim.declaration
        record, document = self._records.get(declared.entity), declared.document
        owned = 0 if record is None else keys_by_document(record).get(document, 0)
        keys = len(COLUMNS) - declared.limits.count(None)
        if keys <= owned:
            return 0
        return size_of(declared.entity, document, keys) - size_of(declared.entity, document, owned)

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


def _some(
    records: Mapping[Entity, OwnershipRecord], entities: Collection[Entity]
) -> OwnershipRecords:
    return OwnershipRecords(
        cluster_id="",
        records={subject: records[subject] for subject in entities if subject in records},
    )
