"""Records in ConfigMaps while others write, or before a status has taken over: what must not get lost in between."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.errors import InventoryError
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.records.status_records import entries_of
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import (
    NO_RECORD,
    Intent,
    IntentBacking,
    OwnershipRecords,
    Pair,
)


def merge_previous_records(before: OwnershipRecords, after: OwnershipRecords) -> OwnershipRecords:
    """The part that ConfigMaps keep, with what they kept until now and no status has taken over yet."""
    records = dict(before.records)
    for subject, record in after.records.items():
        combined = records.get(subject, NO_RECORD)
        for key, owner in record.pairs():
            combined = combined.with_pair(key, record.applied[COLUMN_OF[key]], owner)
        records[subject] = combined
    renewed = {
        (subject, key) for subject, record in after.records.items() for key, _ in record.pairs()
    }
    return replace(
        after,
        records=records,
        intents={**before.intents, **after.intents},
        drift_since={**before.drift_since, **after.drift_since},
        orphaned=after.orphaned | (before.orphaned - renewed),
    )


def merge_concurrent_changes(
    own_records: OwnershipRecords, before: OwnershipRecords, now: OwnershipRecords
) -> OwnershipRecords:
    """Our records with what another writer put into the ConfigMaps meanwhile; what both of us changed is ours.

    Args:
        own_records: All records, as we know them.
        before: What the ConfigMaps held when we read them, or what we wrote last.
        now: What they hold now.
    """
    records, orphaned = dict(own_records.records), set(own_records.orphaned)
    for subject, record in now.records.items():
        was, own_record = before.records.get(subject, NO_RECORD), records.get(subject, NO_RECORD)
        combined = own_record
        for key, owner in record.pairs():
            column = COLUMN_OF[key]
            news = record.applied[column], owner
            previous_pair = was.applied[column], was.owners[column]
            if (
                news != previous_pair
                and (own_record.applied[column], own_record.owners[column]) == previous_pair
            ):
                combined = combined.with_pair(key, *news)
            if (
                combined.owners[column] == owner
                and (subject, key) in now.orphaned - before.orphaned
            ):
                orphaned.add((subject, key))
        if combined != NO_RECORD:
            records[subject] = combined
    return replace(own_records, records=records, orphaned=frozenset(orphaned))


def pending_intents(
    before: OwnershipRecords,
    after: OwnershipRecords,
    objects: Mapping[str, Obj],
    live: Mapping[str, Entity],
    *,
    is_listed: bool,
) -> dict[Pair, Intent]:
    """Records of live documents that their statuses do not show yet, as intents that carry them.

    A record counts where the ledger lists it and the status of its document shows it. The ledger is written first, so
    an intent carries the record until the status was written too.

    Args:
        before: The records as statuses and ConfigMaps had them when the pass began.
        after: The records now.
        objects: The ClientQuotas as they are by now, by name.
        live: Documents whose status goes on holding their records, with their entities.
        is_listed: Whether the ledger lists what live documents hold. Else a status has to show the value, too.
    """
    intents: dict[Pair, Intent] = {}
    for subject, record in after.records.items():
        if before.records.get(subject) is record:
            continue
        for key, owner in record.pairs():
            applied = record.applied[COLUMN_OF[key]]
            if applied is None or live.get(owner.document) != subject:
                continue
            entry_values: list[float | None] = []
            with contextlib.suppress(InventoryError):
                entry_values = [
                    entry.applied
                    for entry in entries_of(after.cluster_id, objects[owner.document])
                    if entry.key is key and entry.applied is not None
                ]
            if applied in entry_values or (is_listed and entry_values):
                continue
            intent = after.intents.get((subject, key)) or Intent(value=applied, owner=owner)
            intents[subject, key] = replace(
                intent, backing=IntentBacking(applied=applied, owner=owner)
            )
    return intents


def restored(owned: OwnershipRecords, documents: Collection[str]) -> OwnershipRecords:
    """The records with those that intents carry, where no status shows one.

    Args:
        owned: The records, as statuses and ConfigMaps have them.
        documents: The live documents.
    """
    records = dict(owned.records)
    for (subject, key), intent in owned.intents.items():
        backing, record = intent.backing, records.get(subject, NO_RECORD)
        owner = record.owners[COLUMN_OF[key]]
        if backing is not None and (owner is None or owner.document not in documents):
            records[subject] = record.with_pair(key, backing.applied, backing.owner)
    return replace(owned, records=records)
