"""The share of a part of the records that one namespace may fill, and what its pairs count for.

A full part refuses new pairs of a namespace that fills its share; others go on. A pair counts for more than it can take
up, whatever its names are, so that a part with four full shares is below the 1 MiB that the API server accepts.
"""

import json
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import OwnershipRecord

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
