"""Encodes all ownership records of one cluster id as gzip ConfigMaps: records, intents, overrides, counts of removals.

The ConfigMaps have no owner reference: they outlive QuotaCluster and documents. Entities are distributed by hash over
parts of a few hundred entities, so that a change of one document rewrites one small part. Another number of parts is
a new *layout* with the next serial number: its parts are created before the old ones are deleted, and the newest
complete layout is valid.
"""

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.codecs.loop_memory import corrections_text, removals_text
from reconciler.errors import InventoryError
from reconciler.kube.api.custom_resources import FIELD_MANAGER, Obj, metadata_of
from reconciler.kube.records.config_map_reader import unpacked
from reconciler.kube.records.record_index import RecordIndex
from reconciler.kube.records.series_layout import name_of_part
from reconciler.kube.records.series_parts import (
    PART_LIMITS,
    PartLimits,
    SeriesPart,
    encoded_parts,
    gzip_of,
    lay_out,
)
from reconciler.kube.records.stored_records import (
    CLUSTER_ID,
    CLUSTER_LABEL,
    CONTENT,
    CORRECTIONS,
    DOCUMENTS,
    LEDGER,
    REMOVALS,
    SERIES_LABEL,
    StoredRecords,
    changed_parts,
    hash_of,
)
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords


class ConfigMapChanges(Struct, frozen=True, kw_only=True):
    """The ConfigMaps to write, in this order, so that a crash in between loses nothing."""

    create: tuple[Obj, ...] = ()  # new ConfigMaps
    update: tuple[Obj, ...] = ()  # changed ones, with the resource version that they replace
    delete: tuple[str, ...] = ()  # names of those that are no longer needed

    @property
    def writes(self) -> int:
        """The number of requests."""
        return len(self.create) + len(self.update) + len(self.delete)


# ---- writing ---------------------------------------------------------------------------------


def config_maps(
    stored: StoredRecords,
    *,
    namespace: str,
    before: StoredRecords | None = None,
    objects: Mapping[str, Obj] | None = None,
    among: Collection[Entity] | None = None,
    index: RecordIndex | None = None,
    limits: PartLimits = PART_LIMITS,
) -> tuple[StoredRecords, dict[str, Obj]]:
    """Return the records with their layout, and the ConfigMaps by name.

    Equal content gives equal bytes, so that unchanged parts are not written. On an event loop call it with
    ``asyncio.to_thread``: records are encoded and compressed.

    Args:
        stored: The records to store.
        namespace: The operator's own.
        before: The records in ``objects``; only changed parts are encoded again. ``None`` = encode all.
        objects: The present ConfigMaps, by name.
        among: The entities whose records may differ from ``before``; ``None`` = any.
        index: Of the records in ``before``; ``None`` = all records are read.
        limits: Size limits of a part.

    Raises:
        InventoryError: The records exceed the largest layout.
    """
    count = stored.layout.parts
    if before is not None and objects:
        changed = changed_parts(before, stored, among=among)
        owned = stored.owned
        if index is not None:
            entities = index.in_parts(changed).union(among or ()) & owned.records.keys()
            records = {subject: owned.records[subject] for subject in entities}
            owned = replace(owned, records=records)
        parts: Sequence[SeriesPart] = tuple(encoded_parts(owned, count, changed))
        present = _of_layout(stored, objects)
        if len(present) == count and all(limits.allows(part, count) for part in parts):
            return stored, {**present, **_of_parts(stored, parts, namespace=namespace)}
    layout, parts = lay_out(stored.owned, stored.layout, limits=limits)
    stored = replace(stored, layout=layout)
    return stored, _of_parts(stored, parts, namespace=namespace)


def _of_layout(stored: StoredRecords, objects: Mapping[str, Obj]) -> dict[str, Obj]:
    """Return the ConfigMaps of the present layout; others are left over from a crash."""
    prefix = f"kquota-{hash_of(stored.owned.cluster_id)}-{LEDGER}"
    names = (name_of_part(prefix, stored.layout, number) for number in range(stored.layout.parts))
    return {name: objects[name] for name in names if name in objects}


def _of_parts(
    stored: StoredRecords, parts: Iterable[SeriesPart], *, namespace: str
) -> dict[str, Obj]:
    """Return the ConfigMaps of these parts, by name."""
    cluster_id = stored.owned.cluster_id
    maps: dict[str, Obj] = {}
    for part in parts:
        name = name_of_part(f"kquota-{hash_of(cluster_id)}-{LEDGER}", stored.layout, part.number)
        config_map = _config_map(
            cluster_id, part, _uids(stored.uids, part.share), name=name, namespace=namespace
        )
        if part.number == 0:
            config_map |= _extra_data(stored)
        maps[name] = config_map
    return maps


def _uids(uids: Mapping[str, str], share: OwnershipRecords) -> bytes:
    """Return the uids of the documents that own something in one part."""
    documents = {owner.document for _, owner in share.owners()}
    documents |= {intent.owner.document for intent in share.intents.values()}
    rows = {document: uids[document] for document in sorted(documents & uids.keys())}
    return gzip_of(json.dumps(rows, separators=(",", ":")).encode())


def _extra_data(stored: StoredRecords) -> dict[str, Any]:
    """Return the plain-text entries of the first part."""
    texts: dict[str, str] = {}
    if stored.removals:
        texts[REMOVALS] = removals_text(stored.removals)
    if stored.corrections:
        texts[CORRECTIONS] = corrections_text(stored.corrections)
    return {"data": texts} if texts else {}


def _config_map(
    cluster_id: str, part: SeriesPart, uids: bytes, *, name: str, namespace: str
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
                CLUSTER_LABEL: hash_of(cluster_id),
                SERIES_LABEL: LEDGER,
            },
            "annotations": {CLUSTER_ID: cluster_id},
        },
        "binaryData": {
            CONTENT: base64.b64encode(part.packed).decode("ascii"),
            DOCUMENTS: base64.b64encode(uids).decode("ascii"),
        },
    }


# ---- comparing -------------------------------------------------------------------------------


def diff(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> ConfigMapChanges:
    """Return the changes from the present ConfigMaps to the intended ones.

    Args:
        before: By name, from the API server; damaged ones may be replaced too.
        after: From :func:`config_maps`.
    """
    update = [
        {
            **config_map,
            "metadata": {
                **config_map["metadata"],
                "resourceVersion": metadata_of(before[name]).get("resourceVersion"),
            },
        }
        for name, config_map in after.items()
        if name in before and config_map is not before[name] and not _same(before[name], config_map)
    ]
    return ConfigMapChanges(
        create=tuple(config_map for name, config_map in after.items() if name not in before),
        update=tuple(update),
        delete=tuple(name for name in before if name not in after),
    )


def _same(first: Obj, second: Obj) -> bool:
    """Whether both have the same content; compression may differ between zlib versions."""
    if (first.get("data") or {}) != (second.get("data") or {}):
        return False
    if first.get("binaryData") == second.get("binaryData"):
        return True
    try:
        return all(unpacked(first, name) == unpacked(second, name) for name in (CONTENT, DOCUMENTS))
    except InventoryError:
        return False
