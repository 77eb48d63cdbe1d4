"""Records split in two: what live documents hold, which the ledger lists and statuses show, and the rest."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from reconciler.kube.api.custom_resources import Obj, document_of
from reconciler.kube.records.status_records import entity_of
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS
from reconciler.quota.ownership import (
    NO_RECORD,
    OwnershipRecord,
    OwnershipRecords,
    Pair,
)


def live_documents(objects: Iterable[Obj]) -> Mapping[str, Entity]:
    """Documents whose status can hold records, with the entity that they hold them of."""
    subjects = ((document_of(obj), entity_of(obj)) for obj in objects)
    return {document: subject for document, subject in subjects if subject is not None}


def records_outside_statuses(
    owned: OwnershipRecords, live: Mapping[str, Entity]
) -> OwnershipRecords:
    """The part of the records that no live document's status holds: this is what the ConfigMaps keep.

    All intents, overrides and marks of orphanhood are in it: statuses have no place for them.

    Args:
        owned: All records.
        live: From :func:`live_documents`, without documents that are about to be released.
    """
    records: dict[Entity, OwnershipRecord] = {}
    held_pairs: set[Pair] = set()
    for subject, record in owned.records.items():
        residual = record
        for key, owner in zip(COLUMNS, record.owners, strict=True):
            if owner is not None and live.get(owner.document) == subject:
                held_pairs.add((subject, key))
                residual = residual.with_pair(key, None, None)
        if residual != NO_RECORD:
            records[subject] = residual
    return replace(
        owned,
        records=records,
        drift_since={pair: at for pair, at in owned.drift_since.items() if pair not in held_pairs},
    )


def records_in_statuses(
    owned: OwnershipRecords,
    live: Mapping[str, Entity],
    *,
    before: OwnershipRecords | None,
    absent: Callable[[str], bool],
) -> OwnershipRecords:
    """What live documents hold, for the ledger: what counts of their statuses from now on.

    Args:
        owned: All records.
        live: From :func:`live_documents`, without documents that are about to be released.
        before: What the ledger had.
        absent: Whether nothing is known of a document at present, so that what the ledger had of it stays.
    """
    records: dict[Entity, OwnershipRecord] = {}
    for subject, record in () if before is None else before.records.items():
        for key, owner in record.pairs():
            if absent(owner.document):
                live_record = records.get(subject, NO_RECORD)
                records[subject] = live_record.with_pair(key, record.applied[COLUMN_OF[key]], owner)
    for subject, record in owned.records.items():
        held_pairs = [
            (key, owner) for key, owner in record.pairs() if live.get(owner.document) == subject
        ]
        if subject not in records and len(held_pairs) == len(COLUMNS) - record.applied.count(None):
            if held_pairs:
                records[subject] = record
            continue
        for key, owner in held_pairs:
            live_record = records.get(subject, NO_RECORD)
            records[subject] = live_record.with_pair(key, record.applied[COLUMN_OF[key]], owner)
    return OwnershipRecords(cluster_id=owned.cluster_id, records=records)
