"""Reads the ConfigMaps of one cluster id strictly; damage is an error, never empty."""

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, MutableMapping
from sys import intern
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base import bounded_json
from reconciler.codecs.loop_memory import read_corrections, read_removals
from reconciler.errors import ConfigError, InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.records.document_presence import CONTRADICTORY_UID
from reconciler.kube.records.record_parts import PARTS, part_names
from reconciler.kube.records.stored_records import (
    CONTENT,
    CORRECTIONS,
    DOCUMENTS,
    QUOTA_CLUSTER,
    REMOVALS,
    SALT,
    StoredRecords,
)
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.removal_guard import RemovalCount

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an unpacked part: a small compressed part could unpack to any size."""


class DecodedPart(Struct, frozen=True, kw_only=True):
    """The content of one ConfigMap."""

    version: tuple[str, str]  # uid and resourceVersion of the object
    salt: str  # what the hash of an entity is salted with
    records: OwnershipRecords
    uids: Mapping[str, str]  # the uids of the documents that own them
    removals: tuple[RemovalCount, ...]  # counts of removals
    corrections: tuple[CorrectionHistory, ...]  # corrections of drift


def read(
    cluster_id: str,
    config_maps_found: Iterable[Obj],
    decoded: MutableMapping[str, DecodedPart] | None = None,
) -> StoredRecords:
    """Return the content of the ConfigMaps of a cluster id; records that are not known if they were never written.

    Args:
        config_maps_found: All ConfigMaps that :func:`selector` selects, in any order.
        decoded: Decoded ConfigMaps by name, reused if the version is the same; brought up to date.

    Raises:
        InventoryError: One cannot be read, or one is missing and another one was written.
    """
    names, objects = (
        part_names(cluster_id),
        {str(obj["metadata"]["name"]): obj for obj in config_maps_found},
    )
    for name in sorted(objects.keys() - names):
        raise InventoryError(
            f"ConfigMap {name} has the labels of records, but another name",
            hint=f"delete it, or remove its labels; records are in {names[0]} to {names[-1]}",
        )
    decoded = {} if decoded is None else decoded
    for name in decoded.keys() - objects.keys():
        del decoded[name]
    parts = [
        (objects[name], _part(objects[name], cluster_id, decoded))
        for name in names
        if name in objects
    ]
    written = [part.records.is_known for _, part in parts]
    if any(written) and len(parts) < PARTS:
        raise InventoryError(
            f"ConfigMap {min(set(names).difference(objects), key=names.index)} is missing",
            hint="restore it from a backup; incomplete records are not used",
        )
    salt = parts[0][1].salt if parts else ""
    for config_map, part in parts:
        if part.salt != salt:
            raise _damaged(config_map, f"it has another {SALT} than the others")
    is_known = len(parts) == PARTS and all(written)
    owned = OwnershipRecords(cluster_id=cluster_id, is_known=is_known)
    manager = str(_texts(parts[0][0]).get(QUOTA_CLUSTER, "")) if parts else ""
    return _with_parts(StoredRecords(owned=owned, salt=salt, manager=manager), parts)


def _texts(config_map: Obj) -> Mapping[str, Any]:
    data = config_map.get("data")
    return data if isinstance(data, Mapping) else {}


def _with_parts(stored: StoredRecords, parts: Iterable[tuple[Obj, DecodedPart]]) -> StoredRecords:
    owned = stored.owned
    records, intents = dict(owned.records), dict(owned.intents)
    drift_since, overrides = dict(owned.drift_since), dict(owned.overrides)
    orphaned, uids = set(owned.orphaned), dict(stored.uids)
    removals, corrections = list(stored.removals), list(stored.corrections)
    found_uids: dict[str, str | None] = {}
    latest_end = owned.latest_end
    for config_map, part in parts:
        more = part.records
        _join(config_map, records, more.records)
        _join(config_map, intents, more.intents)
        _join(config_map, drift_since, more.drift_since)
        _join(config_map, overrides, more.overrides)
        orphaned |= more.orphaned
        latest_end = max(latest_end, more.latest_end)
        documents = part.uids.keys() | {owner.document for _, owner in more.owners()}
        for document in documents:
            uid = part.uids.get(document)
            if found_uids.setdefault(document, uid) != uid:
                found_uids[document] = CONTRADICTORY_UID
        removals += part.removals
        corrections += part.corrections
    uids |= {document: uid for document, uid in found_uids.items() if uid is not None}
    return replace(
        stored,
        owned=replace(
            owned,
            records=records,
            intents=intents,
            drift_since=drift_since,
            overrides=overrides,
            orphaned=frozenset(orphaned),
            latest_end=latest_end,
        ),
        uids=uids,
        removals=tuple(removals),
        corrections=tuple(corrections),
    )


def _part(
    config_map: Obj,
    cluster_id: str,
    decoded: MutableMapping[str, DecodedPart],
) -> DecodedPart:
    metadata = config_map["metadata"]
    name, version = (
        str(metadata["name"]),
        (metadata.get("uid", ""), metadata.get("resourceVersion", "")),
    )
    earlier_part = decoded.get(name) if all(version) else None
    if earlier_part is not None and earlier_part.version == version:
        return earlier_part
    part = DecodedPart(
        version=version,
        salt=_read_salt(config_map),
        records=_decoded(config_map, cluster_id),
        uids=_read_uids(config_map),
        removals=_rows(config_map, REMOVALS, read_removals),
        corrections=_rows(config_map, CORRECTIONS, read_corrections),
    )
    decoded[name] = part
    return part


def _decoded(config_map: Obj, cluster_id: str) -> OwnershipRecords:
    location = f"ConfigMap {config_map['metadata'].get('name')}"
    clusters = records_format.decode(unpacked(config_map), location=location)
    if clusters.keys() != {cluster_id}:
        raise _damaged(config_map, "it belongs to another cluster id")
    return clusters[cluster_id]


def _read_salt(config_map: Obj) -> str:
    salt = _texts(config_map).get(SALT)
    if not isinstance(salt, str) or not salt:
        raise _damaged(config_map, f"it has no {SALT}")
    return salt


def _read_uids(config_map: Obj) -> Mapping[str, str]:
    try:
        rows = bounded_json.parse(
            unpacked(config_map, DOCUMENTS).decode(), most_bytes=UNPACKED_BYTES
        )
    except ValueError as error:
        raise _damaged(config_map, error) from error
    if not isinstance(rows, dict) or not all(isinstance(uid, str) for uid in rows.values()):
        raise _damaged(config_map, f"{DOCUMENTS} should be a map of documents to uids")
    return {intern(document): intern(uid) for document, uid in rows.items()}


def _join(config_map: Obj, some: dict[Any, Any], additional: Mapping[Any, Any]) -> None:
    if not some.keys().isdisjoint(additional.keys()):
        raise _damaged(config_map, "it duplicates another ConfigMap")
    some |= additional


def unpacked(config_map: Obj, name: str = CONTENT) -> bytes:
    """Return the unpacked content of a part.

    Raises:
        InventoryError: It is missing, truncated, or larger than any that kquota writes.
    """
    try:
        packed = base64.b64decode(config_map["binaryData"][name], validate=True)
        reader = zlib.decompressobj(31)
        content = reader.decompress(packed, UNPACKED_BYTES)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise _damaged(config_map, error) from error
    if not reader.eof or reader.unused_data:
        raise _damaged(
            config_map, "its content is cut off, has something after its end, or is too large"
        )
    return content


class _MemoryReader(Protocol[T_co]):
    def __call__(self, text: str, *, location: str) -> T_co: ...


def _rows(config_map: Obj, name: str, read: _MemoryReader[T]) -> T:
    """Return what ``read`` returns for the plain-text rows of the part; no rows if the entry is missing."""
    try:
        return read(str(_texts(config_map).get(name, "[]")), location=name)
    except ConfigError as error:
        raise _damaged(config_map, error) from error


def _damaged(config_map: Obj, reason: object) -> InventoryError:
    return InventoryError(
        f"ConfigMap {config_map['metadata'].get('name')} is damaged: {reason}",
        hint="restore it from a backup; damaged records are not treated as empty",
    )
