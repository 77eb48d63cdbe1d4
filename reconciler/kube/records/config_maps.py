"""Encodes and reads the records of one cluster id, 16 gzip ConfigMaps: records, intents, overrides, uids, removals.

The ConfigMaps have no owner reference: they outlive QuotaCluster and documents. Entities are distributed by a salted
hash, so that a change of one document rewrites one part and no tenant can choose the part.

All parts are created empty, with `known` false, before anything is recorded. The first write sets it in every part. So
a set that is not complete was never written if no part of it is known, and is damaged otherwise.
They are read strictly: damage is an error, never empty.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.codecs.loop_memory import (
    corrections_text,
    read_corrections,
    read_removals,
    removals_text,
)
from reconciler.errors import ConfigError, InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.api.custom_resources import FIELD_MANAGER, Obj
from reconciler.kube.records.document_presence import CONTRADICTORY_UID
from reconciler.kube.records.stored_records import (
    CLUSTER_ID,
    CLUSTER_LABEL,
    FIRST,
    PART,
    PARTS,
    RECORDS_LABEL,
    LoopMemory,
    StoredRecords,
    changed_parts,
    hash_of,
    part_names,
    split,
)
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords

CONTENT, DOCUMENTS = "content", "documents"
SALT, QUOTA_CLUSTER = "salt", "quotaCluster"
REMOVALS, CORRECTIONS, WITHHELD = "removals", "corrections", "withheld"

MOST_BYTES: Final = 1024 * 1024
"""Maximum bytes of all values of a ConfigMap; the API server refuses more. They count as stored, not in base64."""

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an unpacked part: a small compressed part could unpack to any size."""


class DecodedPart(Struct, frozen=True, kw_only=True):
    """The content of one ConfigMap."""

    version: tuple[str, str]  # uid and resourceVersion of the object
    salt: str  # what the hash of an entity is salted with
    records: OwnershipRecords
    uids: Mapping[str, str]  # the uids of the documents that own them
    memory: LoopMemory


# ---- reading ---------------------------------------------------------------------------------


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
    names = part_names(cluster_id)
    objects = {str(obj["metadata"]["name"]): obj for obj in config_maps_found}
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
    is_known = len(parts) == PARTS and all(written)
    stored = StoredRecords(owned=OwnershipRecords(cluster_id=cluster_id, is_known=is_known))
    return _joined(stored, parts) if parts else stored


def _joined(stored: StoredRecords, parts: list[tuple[Obj, DecodedPart]]) -> StoredRecords:
    """Return the records of all parts; the first one has the salt of all, and the memory of the loop."""
    first = parts[0][1]
    fields: dict[str, dict[Any, Any]] = {
        name: {} for name in ("records", "intents", "drift_since", "overrides")
    }
    uids: dict[str, str | None] = {}
    for config_map, part in parts:
        if part.salt != first.salt:
            raise _damaged(config_map, f"it has another {SALT} than the others")
        for name, rows in fields.items():
            additional: Mapping[Any, Any] = getattr(part.records, name)
            if not rows.keys().isdisjoint(additional):
                raise _damaged(config_map, "it duplicates another ConfigMap")
            rows.update(additional)
        for document in part.uids.keys() | {owner.document for _, owner in part.records.owners()}:
            uid = part.uids.get(document)
            if uids.setdefault(document, uid) != uid:
                uids[document] = CONTRADICTORY_UID
    records = [part.records for _, part in parts]
    owned = replace(
        stored.owned,
        **fields,
        orphaned=frozenset().union(*(each.orphaned for each in records)),
        latest_end=max(each.latest_end for each in records),
    )
    known_uids = {document: uid for document, uid in uids.items() if uid is not None}
    return StoredRecords(owned=owned, uids=known_uids, memory=first.memory, salt=first.salt)


def _part(
    config_map: Obj, cluster_id: str, decoded: MutableMapping[str, DecodedPart]
) -> DecodedPart:
    metadata, data = config_map["metadata"], config_map.get("data")
    version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    earlier_part = decoded.get(metadata["name"])
    if earlier_part is not None and all(version) and earlier_part.version == version:
        return earlier_part
    texts: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    salt = texts.get(SALT)
    if not isinstance(salt, str) or not salt:
        raise _damaged(config_map, f"it has no {SALT}")
    clusters = records_format.decode(
        unpacked(config_map), location=f"ConfigMap {metadata.get('name')}"
    )
    if clusters.keys() != {cluster_id}:
        raise _damaged(config_map, "it belongs to another cluster id")
    try:
        part = DecodedPart(
            version=version,
            salt=salt,
            records=clusters[cluster_id],
            uids=_read_uids(config_map),
            memory=_read_memory(texts),
        )
    except (ConfigError, ValueError) as error:
        raise _damaged(config_map, error) from error
    decoded[metadata["name"]] = part
    return part


def _read_uids(config_map: Obj) -> Mapping[str, str]:
    rows = msgspec.json.decode(unpacked(config_map, DOCUMENTS), type=dict[str, str])
    return {intern(document): intern(uid) for document, uid in rows.items()}


def _read_memory(texts: Mapping[str, Any]) -> LoopMemory:
    return LoopMemory(
        manager=str(texts.get(QUOTA_CLUSTER, "")),
        removals=read_removals(str(texts.get(REMOVALS, "[]")), location=REMOVALS),
        corrections=read_corrections(str(texts.get(CORRECTIONS, "[]")), location=CORRECTIONS),
        withheld=msgspec.json.decode(str(texts.get(WITHHELD, "{}")), type=dict[str, float]),
    )


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


def _damaged(config_map: Obj, reason: object) -> InventoryError:
    return InventoryError(
        f"ConfigMap {config_map['metadata'].get('name')} is damaged: {reason}",
        hint="restore it from a backup; damaged records are not treated as empty",
    )


# ---- writing ---------------------------------------------------------------------------------


def empty_parts(cluster_id: str, salt: str, *, namespace: str) -> dict[str, Obj]:
    """Return the ConfigMaps of all parts as they are created, by name."""
    stored = StoredRecords(owned=records_format.no_records(cluster_id), salt=salt)
    return config_maps(stored, namespace=namespace)


def config_maps(
    stored: StoredRecords,
    *,
    namespace: str,
    before: StoredRecords | None = None,
    among: Collection[Entity] | None = None,
) -> dict[str, Obj]:
    """Return the ConfigMaps of the parts that changed, by name.

    Equal content gives equal bytes, so that unchanged parts are not written. On an event loop call it with
    ``asyncio.to_thread``: records are encoded and compressed.

    Args:
        stored: The records to store.
        namespace: The operator's own.
        before: The records in the present ConfigMaps; ``None`` = all parts are returned.
        among: The entities whose records may differ from ``before``; ``None`` = any.

    Raises:
        InventoryError: A part is larger than a ConfigMap may be.
    """
    cluster_id = stored.owned.cluster_id
    names = part_names(cluster_id)
    numbers = range(PARTS) if before is None else changed_parts(before, stored, among=among)
    return {
        names[number]: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": names[number],
                "namespace": namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": FIELD_MANAGER,
                    CLUSTER_LABEL: hash_of(cluster_id),
                    RECORDS_LABEL: PART if number else FIRST,
                },
                "annotations": {CLUSTER_ID: cluster_id},
            },
            "data": {SALT: stored.salt} | ({} if number else _memory_texts(stored.memory)),
            "binaryData": _packed(names[number], share, stored.uids),
        }
        for number, share in split(stored.owned, stored.salt, numbers).items()
    }


def updates(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> list[Obj]:
    """Return the ConfigMaps that differ from the present ones, with the resource version that they replace."""
    return [
        {
            **config_map,
            "metadata": {
                **config_map["metadata"],
                "resourceVersion": before[name]["metadata"].get("resourceVersion", ""),
            },
        }
        for name, config_map in after.items()
        if any(
            (config_map.get(values) or {}) != (before[name].get(values) or {})
            for values in ("data", "binaryData")
        )
    ]


def gzip_of(content: bytes) -> bytes:
    """Compress without time and name in the header: equal content gives equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


def _memory_texts(memory: LoopMemory) -> dict[str, str]:
    texts = {
        QUOTA_CLUSTER: memory.manager,
        REMOVALS: removals_text(memory.removals) if memory.removals else "",
        CORRECTIONS: corrections_text(memory.corrections) if memory.corrections else "",
        WITHHELD: json.dumps(memory.withheld) if memory.withheld else "",
    }
    return {name: text for name, text in texts.items() if text}


def _packed(name: str, share: OwnershipRecords, uids: Mapping[str, str]) -> dict[str, Any]:
    """Return the packed entries of a part: its records, and the uids of the documents that own something in it."""
    documents = {owner.document for _, owner in share.owners()}
    documents |= {intent.owner.document for intent in share.intents.values()}
    rows = {document: uids[document] for document in sorted(documents & uids.keys())}
    content = records_format.encode({share.cluster_id: share})
    texts = {CONTENT: content, DOCUMENTS: json.dumps(rows, separators=(",", ":")).encode()}
    packed = {name: gzip_of(text) for name, text in texts.items()}
    if sum(map(len, packed.values())) > MOST_BYTES or len(content) > UNPACKED_BYTES:
        raise InventoryError(
            f"the records of cluster {share.cluster_id} do not fit into ConfigMap {name}",
            hint="declare or remove the limits of deleted documents: kquota drift lists them",
        )
    return {name: base64.b64encode(content).decode("ascii") for name, content in packed.items()}
