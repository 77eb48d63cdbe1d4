"""Encodes the records of one cluster id as 16 gzip ConfigMaps: records, intents, overrides, uids, counts of removals.

The ConfigMaps have no owner reference: they outlive QuotaCluster and documents. Entities are distributed by a salted
hash, so that a change of one document rewrites one part and no tenant can choose the part.

All parts are created empty, with `known` false, before anything is recorded. The first write sets it in every part. So
a set that is not complete was never written if no part of it is known, and is damaged otherwise.
"""

import base64
import json
import zlib
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec.structs import replace

from reconciler.codecs.loop_memory import corrections_text, removals_text
from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.api.custom_resources import FIELD_MANAGER, Obj
from reconciler.kube.records.config_map_reader import UNPACKED_BYTES
from reconciler.kube.records.record_index import RecordIndex
from reconciler.kube.records.record_parts import PARTS, hash_of, part_names, split
from reconciler.kube.records.stored_records import (
    CLUSTER_ID,
    CLUSTER_LABEL,
    CONTENT,
    CORRECTIONS,
    DOCUMENTS,
    FIRST,
    QUOTA_CLUSTER,
    RECORDS_LABEL,
    REMOVALS,
    SALT,
    StoredRecords,
    changed_parts,
)
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords

MOST_BYTES: Final = 1024 * 1024
"""Maximum bytes of all values of a ConfigMap; the API server refuses more. They count as stored, not in base64."""


def empty_parts(cluster_id: str, salt: str, *, namespace: str) -> dict[str, Obj]:
    """Return the ConfigMaps of all parts as they are created, by name."""
    stored = StoredRecords(owned=records_format.no_records(cluster_id), salt=salt)
    return _of_parts(stored, range(PARTS), namespace=namespace)


def config_maps(
    stored: StoredRecords,
    *,
    namespace: str,
    before: StoredRecords | None = None,
    among: Collection[Entity] | None = None,
    index: RecordIndex | None = None,
) -> dict[str, Obj]:
    """Return the ConfigMaps of the parts that changed, by name.

    Equal content gives equal bytes, so that unchanged parts are not written. On an event loop call it with
    ``asyncio.to_thread``: records are encoded and compressed.

    Args:
        stored: The records to store.
        namespace: The operator's own.
        before: The records in the present ConfigMaps; ``None`` = all parts are returned.
        among: The entities whose records may differ from ``before``; ``None`` = any.
        index: Of the records in ``before``; ``None`` = all records are read.

    Raises:
        InventoryError: A part is larger than a ConfigMap may be.
    """
    numbers = range(PARTS) if before is None else changed_parts(before, stored, among=among)
    if index is not None:
        owned = stored.owned
        entities = index.in_parts(numbers).union(among or ()) & owned.records.keys()
        records = {subject: owned.records[subject] for subject in entities}
        stored = replace(stored, owned=replace(owned, records=records))
    return _of_parts(stored, numbers, namespace=namespace)


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


def _of_parts(stored: StoredRecords, numbers: Collection[int], *, namespace: str) -> dict[str, Obj]:
    cluster_id = stored.owned.cluster_id
    names = part_names(cluster_id)
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
                    RECORDS_LABEL: "part" if number else FIRST,
                },
                "annotations": {CLUSTER_ID: cluster_id},
            },
            "data": _texts(stored, number),
            "binaryData": _packed(names[number], share, stored.uids),
        }
        for number, share in split(stored.owned, stored.salt, numbers).items()
    }


def _texts(stored: StoredRecords, number: int) -> dict[str, str]:
    """Return the plain-text entries of a part: the first one has those of the loop."""
    texts = {SALT: stored.salt}
    if number == 0 and stored.manager:
        texts[QUOTA_CLUSTER] = stored.manager
    if number == 0 and stored.removals:
        texts[REMOVALS] = removals_text(stored.removals)
    if number == 0 and stored.corrections:
        texts[CORRECTIONS] = corrections_text(stored.corrections)
    return texts


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
