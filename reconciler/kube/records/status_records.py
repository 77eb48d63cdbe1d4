"""Records in statuses and back: what a live document owns stands in its own ``status.keys``, first-seen drift in ``status.drift``.

Reading is strict. Damage is an error that names the object, never an empty record: to forget what we own would turn
removals into orphans without a word. Records of another cluster id are not ours to carry over; they are left alone.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final

from reconciler.errors import InventoryError, QuotaValueError
from reconciler.kube.api.custom_resources import (
    Obj,
    document_of,
    is_terminating,
    read_time,
    status_of,
    time_text,
)
from reconciler.kube.records.confirmation import (
    EVERYTHING,
    StatusConfirmation,
    declared_entity,
)
from reconciler.kube.records.final_status import was_given_up
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import (
    NO_RECORD,
    Intent,
    Owner,
    OwnershipRecord,
    OwnershipRecords,
    Pair,
)
from reconciler.quota.policy import DeletionPolicy
from reconciler.render.names import read_entity
from reconciler.render.units import json_number

DEPARTED: Final = " (deleted)"
"""Ends the name of a document that is gone while another of its name exists: no name of a resource ends so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry:
    """What one item of ``status.keys`` records.

    Attributes:
        key: Which key.
        applied: Value last applied; ``None`` where only a write is under way.
        owner: Whose the pair is.
        applied_at: When it was applied, in seconds since the epoch; of two documents that both record a pair, the
            later one has it.
        intent: A write whose outcome was not known when the status was written.
    """

    key: Key
    applied: float | None
    owner: Owner
    applied_at: float = 0.0
    intent: Intent | None = None


def entity_of(obj: Obj) -> Entity | None:
    """The entity of a ClientQuota, by its spec or else by its status; ``None`` if neither can be read.

    The spec of a document that breaks a rule elsewhere still says whose its records are.
    """
    declared = declared_entity(obj)
    if declared is not None:
        return declared
    try:
        return read_entity(str(status_of(obj).get("entity", "")))
    except QuotaValueError:
        return None


# ---- reading ---------------------------------------------------------------------------------


def entries_of(cluster_id: str, obj: Obj) -> tuple[StatusEntry, ...]:
    """What the status of a ClientQuota records for this cluster.

    Raises:
        InventoryError: It cannot be read; names the object.
    """
    status = status_of(obj)
    try:
        entries = tuple(_entries(document_of(obj), _items(status, "keys")))
        if not entries:
            return ()
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(obj, error) from error
    if not isinstance(status.get("clusterId"), str):
        raise damaged(obj, "it has records and no clusterId")
    return entries if status["clusterId"] == cluster_id else ()


def drift_of(cluster_id: str, obj: Obj) -> Mapping[Key, float]:
    """When drift of its keys was first seen, in seconds since the epoch.

    Raises:
        InventoryError: It cannot be read; names the object.
    """
    status = status_of(obj)
    if status.get("clusterId") != cluster_id:
        return {}
    try:
        return {Key(item["key"]): _time(item["firstSeen"]) for item in _items(status, "drift")}
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(obj, error) from error


def damaged(obj: Obj, reason: object) -> InventoryError:
    """The error about a status that cannot be read."""
    return InventoryError(
        f"the status of ClientQuota {document_of(obj)} is damaged: {reason}",
        hint="restore it from a backup, or delete and create the resource with deletionPolicy Retain;"
        " it is never taken for empty",
    )


def _items(status: Obj, name: str) -> list[Mapping[str, Any]]:
    items = status.get(name)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise ValueError(f"{name} should be a list of objects")
    if len({item.get("key") for item in items}) != len(items):
        raise ValueError(f"{name} has a key twice")
    return items


def _entries(document: str, items: Iterable[Mapping[str, Any]]) -> Iterator[StatusEntry]:
    for item in items:
        key = Key(item["key"])
        applied = _number(item["applied"]) if "applied" in item else None
        intends = "intended" in item or item.get("intendedRemoval", False)
        if applied is None and not intends:
            continue
        policy = item.get("deletionPolicy")
        owner = Owner(
            document=document,
            deletion_policy=None if policy is None else DeletionPolicy(policy),
            since=_time(item["since"]) if "since" in item else 0.0,
        )
        yield StatusEntry(
            key=key,
            applied=applied,
            owner=owner,
            applied_at=_time(item["appliedAt"]) if "appliedAt" in item else 0.0,
            intent=_intent(item, owner) if intends else None,
        )


def _intent(item: Mapping[str, Any], owner: Owner) -> Intent:
    """When it was sent is not in a status, so it counts as settled: live as intended means applied."""
    removal = item.get("intendedRemoval", False)
    if not isinstance(removal, bool) or (removal and "intended" in item):
        raise ValueError("intended and intendedRemoval do not fit")
    return Intent(value=None if removal else _number(item["intended"]), owner=owner)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} should be a number")
    return float(value)


def _time(value: object) -> float:
    seconds = read_time(value) if isinstance(value, str) else None
    if seconds is None:
        raise ValueError(f"{value!r} should be a time")
    return seconds


# ---- all documents ---------------------------------------------------------------------------


def owned_from(
    cluster_id: str,
    objects: Iterable[Obj],
    remainder: OwnershipRecords,
    *,
    unreadable: MutableMapping[str, InventoryError] | None = None,
    is_gone: bool = False,
    confirmation: StatusConfirmation = EVERYTHING,
) -> OwnershipRecords:
    """The records of a cluster: those of live documents, and the rest that no live document holds.

    A live document's own record beats one in the rest. What a document left that is gone stays its own, even where
    another document of the same name exists by now: that document does not allow its removal.

    Args:
        cluster_id: Whose records.
        objects: The live ClientQuotas, those on their way out included; each once.
        remainder: Released and orphaned records, intents, overrides.
        unreadable: Takes note of documents whose status cannot be read, and why; they are passed over then, and
            the caller has to leave alone what they may own. ``None`` = the first one is an error.
        is_gone: Whether the objects are documents that are gone already, as they were last seen.
        confirmation: Which of the statuses' records count.

    Raises:
        InventoryError: A status cannot be read.
    """
    entries_by_pair: dict[Pair, StatusEntry] = {}
    intents: dict[Pair, Intent] = {}
    drift = dict(remainder.drift_since)
    names: set[str] = set()
    everything = tuple(objects)
    for obj in everything:
        try:
            status_records = _status_records(cluster_id, obj)
        except InventoryError as error:
            if unreadable is None:
                raise
            unreadable[document_of(obj)] = error
            continue
        names.add(document_of(obj))
        if status_records is None:
            continue
        subject, entries, since = status_records
        leaving = is_gone or is_terminating(obj)
        counting = tuple(_confirmed(entries, obj, subject, confirmation, leaving=leaving))
        for entry in counting:
            previous_entry = entries_by_pair.get((subject, entry.key))
            if previous_entry is None or _rank(entry) > _rank(previous_entry):
                entries_by_pair[subject, entry.key] = entry
            if entry.intent is not None:
                intents[subject, entry.key] = entry.intent
        counted_keys = {counting_entry.key for counting_entry in counting}
        drift.update({(subject, key): at for key, at in since.items() if key in counted_keys})
    records = {
        subject: _departed(record, subject, names, entries_by_pair)
        for subject, record in remainder.records.items()
    }
    for (subject, key), entry in entries_by_pair.items():
        if entry.applied is not None:
            record = records.get(subject, NO_RECORD)
            records[subject] = record.with_pair(key, entry.applied, entry.owner)
    return replace(
        remainder,
        cluster_id=cluster_id,
        records=records,
        intents=intents | _intents(remainder, everything),
        drift_since=drift,
        orphaned=frozenset(
            pair
            for pair in remainder.orphaned
            if _is_still_orphaned(pair, entries_by_pair, remainder)
        ),
        is_known=remainder.is_known or bool(entries_by_pair),
    )


def _status_records(
    cluster_id: str, obj: Obj
) -> tuple[Entity, tuple[StatusEntry, ...], Mapping[Key, float]] | None:
    """All that a status records for this cluster, and of which entity; ``None`` = nothing."""
    entries = entries_of(cluster_id, obj)
    if not entries:
        return None
    subject = entity_of(obj)
    if subject is None:
        raise damaged(obj, "it has records and no entity that can be read")
    return subject, entries, drift_of(cluster_id, obj)


def _confirmed(
    entries: Iterable[StatusEntry],
    obj: Obj,
    subject: Entity,
    confirmation: StatusConfirmation,
    *,
    leaving: bool,
) -> Iterator[StatusEntry]:
    """The entries that count, with what the ledger knows of them; intents are in the ledger, too."""
    granted = confirmation.holdings is None and confirmation.has_grant(obj)
    for entry in entries:
        known_record = confirmation.record(obj, subject, entry.key)
        if known_record is not None:
            confirmed = replace(entry, applied=known_record[0], owner=known_record[1], intent=None)
        elif granted:
            confirmed = entry
        elif confirmation.holdings is None and leaving and entry.applied is not None:
            confirmed = replace(
                entry, intent=None
            )  # Kept as orphaned: without a right it removes nothing.
        else:
            continue
        yield (
            replace(confirmed, owner=confirmation.leaving(confirmed.owner, obj))
            if leaving
            else confirmed
        )


def _rank(entry: StatusEntry) -> tuple[bool, float, float, str]:
    return entry.applied is not None, entry.applied_at, entry.owner.since, entry.owner.document


def _departed(
    record: OwnershipRecord,
    subject: Entity,
    names: set[str],
    entries_by_pair: Mapping[Pair, StatusEntry],
) -> OwnershipRecord:
    """The record with owners that are gone distinguished from documents that have their name now."""
    updated = record
    for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True):
        if owner is not None and owner.document in names and (subject, key) not in entries_by_pair:
            departed_owner = replace(owner, document=owner.document + DEPARTED)
            updated = updated.with_pair(key, value, departed_owner)
    return updated


def _intents(remainder: OwnershipRecords, objects: Iterable[Obj]) -> dict[Pair, Intent]:
    """The intents, with owners that are gone distinguished from documents of their name that have another entity."""
    intents = dict(remainder.intents)
    writing = {known_intent.owner.document for known_intent in intents.values()}
    live_objects = ((document_of(obj), obj) for obj in objects) if writing else ()
    subjects = {document: entity_of(obj) for document, obj in live_objects if document in writing}
    for pair, intent in remainder.intents.items():
        document = intent.owner.document
        if subjects.get(document, pair[0]) not in {pair[0], None}:
            intents[pair] = replace(
                intent, owner=replace(intent.owner, document=document + DEPARTED)
            )
    return intents


def _is_still_orphaned(
    pair: Pair, entries_by_pair: Mapping[Pair, StatusEntry], remainder: OwnershipRecords
) -> bool:
    """A live document ends orphanhood, unless it is the one that was released and is still on its way out."""
    entry = entries_by_pair.get(pair)
    if entry is None or entry.applied is None:
        return True
    owner = remainder.records.get(pair[0], NO_RECORD).owners[COLUMN_OF[pair[1]]]
    return owner is None or owner.document == entry.owner.document


def release(
    remainder: OwnershipRecords,
    objects: Iterable[Obj],
    *,
    unreadable: MutableMapping[str, InventoryError] | None = None,
    confirmation: StatusConfirmation = EVERYTHING,
) -> OwnershipRecords:
    """The rest with the records of documents that are gone, so that the planner can judge them.

    Args:
        remainder: What the ConfigMaps hold.
        objects: The documents as they were last seen.
        unreadable: As in :func:`owned_from`.
        confirmation: Likewise.

    Raises:
        InventoryError: A status cannot be read.
    """
    departed = tuple(objects)
    nobody = OwnershipRecords(cluster_id=remainder.cluster_id, is_known=False)
    released = owned_from(
        remainder.cluster_id,
        departed,
        nobody,
        unreadable=unreadable,
        is_gone=True,
        confirmation=confirmation,
    )
    records = dict(remainder.records)
    for subject, record in released.records.items():
        updated = records.get(subject, NO_RECORD)
        for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True):
            if value is not None and not was_given_up(remainder, (subject, key), owner):
                updated = updated.with_pair(key, value, owner)
        records[subject] = updated
    return replace(
        remainder,
        records=records,
        intents=dict(released.intents) | dict(remainder.intents),
        drift_since=dict(released.drift_since) | dict(remainder.drift_since),
        is_known=remainder.is_known or released.is_known,
    )


# ---- writing ---------------------------------------------------------------------------------


def key_record_fields(
    owned: OwnershipRecords, document: str, subject: Entity, key: Key
) -> dict[str, Any]:
    """The fields of ``status.keys`` that record one pair; empty where nothing of it is this document's.

    ``appliedAt`` is not among them: records do not know it.
    """
    fields: dict[str, Any] = {}
    record = owned.records.get(subject, NO_RECORD)
    column = COLUMN_OF[key]
    owner, applied = record.owners[column], record.applied[column]
    if owner is not None and applied is not None and owner.document == document:
        fields |= {"applied": json_number(applied)} | _owner_fields(owner)
    intent = owned.intents.get((subject, key))
    if intent is not None and intent.owner.document == document:
        fields = fields or _owner_fields(intent.owner)
        fields |= (
            {"intendedRemoval": True}
            if intent.value is None
            else {"intended": json_number(intent.value)}
        )
    return fields


def _owner_fields(owner: Owner) -> dict[str, Any]:
    fields: dict[str, Any] = {"since": time_text(owner.since)}
    if owner.deletion_policy is not None:
        fields["deletionPolicy"] = owner.deletion_policy.value
    return fields
