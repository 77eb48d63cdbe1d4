"""ConfigMaps of one cluster id, read strictly, in the present form and in two older ones: damage is never taken for empty."""

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.inventory.format import ClusterRecords
from reconciler.kube.api.custom_resources import Obj, metadata_of
from reconciler.kube.records.document_presence import UNKNOWN_UID
from reconciler.kube.records.series_layout import current
from reconciler.kube.records.stored_records import (
    BUDGETS,
    CONTENT,
    DOCUMENTS,
    HOLDINGS,
    LEDGER,
    OLD_RECORDS,
    REMOVALS,
    SERIES_LABEL,
    StoredRecords,
    hash_of,
)
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import NO_RECORD, OwnershipRecord, OwnershipRecords
from reconciler.quota.planner.removal_budgets import RemovalCount, count_of

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that a part may unpack to when it is read: a small one could announce any number."""


def read(cluster_id: str, config_maps_found: Iterable[Obj]) -> StoredRecords:
    """What the ConfigMaps of a cluster id hold; nothing known where there is none.

    Args:
        cluster_id: Whose.
        config_maps_found: All ConfigMaps that :func:`selector` selects, in any order.

    Raises:
        InventoryError: One cannot be read, or a part of a series is missing.
    """
    series: dict[str, dict[str, Obj]] = {OLD_RECORDS: {}, LEDGER: {}}
    for config_map in config_maps_found:
        label = metadata_of(config_map).get("labels", {}).get(SERIES_LABEL)
        if label not in series:
            raise _damaged(config_map, f"{SERIES_LABEL} is {label!r}")
        series[label][str(metadata_of(config_map).get("name", ""))] = config_map
    prefix = f"kquota-{hash_of(cluster_id)}"
    layout, names = current(f"{prefix}-{LEDGER}", series[LEDGER])
    objects = [series[LEDGER][name] for name in names]
    stored = StoredRecords(
        owned=OwnershipRecords(cluster_id=cluster_id, is_known=any(series.values())),
        layout=layout,
        takes_statuses=not any(HOLDINGS in _texts(config_map) for config_map in objects),
        is_old_form=any(DOCUMENTS not in config_map["binaryData"] for config_map in objects)
        or bool(series[OLD_RECORDS] and not objects),
    )
    for config_map in objects:
        stored = _with_part(stored, config_map)
    if not stored.is_old_form:
        return stored
    holdings = stored.owned.records
    _, names = current(f"{prefix}-{OLD_RECORDS}", series[OLD_RECORDS])
    stored = replace(stored, owned=replace(stored.owned, records={}))
    for name in names:
        stored = _with_part(stored, series[OLD_RECORDS][name])
    return _with_holdings(stored, holdings)


def _with_holdings(
    stored: StoredRecords, holdings: Mapping[Entity, OwnershipRecord]
) -> StoredRecords:
    """Records of an older version with what live documents owned, which counts more than what was left behind."""
    records = dict(stored.owned.records)
    uids: dict[str, str] = {}
    for subject, record in holdings.items():
        combined = records.get(subject, NO_RECORD)
        for key, owner in record.pairs():
            combined = combined.with_pair(key, record.applied[COLUMN_OF[key]], owner)
            uids[owner.document] = UNKNOWN_UID
        records[subject] = combined
    for (subject, key), intent in stored.owned.intents.items():
        record = records.get(subject, NO_RECORD)
        uids.setdefault(intent.owner.document, UNKNOWN_UID)
        if intent.backing is not None and record.owners[COLUMN_OF[key]] is None:
            backing = intent.backing
            records[subject] = record.with_pair(key, backing.applied, backing.owner)
            uids.setdefault(backing.owner.document, UNKNOWN_UID)
    return replace(stored, owned=replace(stored.owned, records=records), uids=uids)


def _texts(config_map: Obj) -> Mapping[str, Any]:
    data = config_map.get("data")
    return data if isinstance(data, Mapping) else {}


def _with_part(stored: StoredRecords, config_map: Obj) -> StoredRecords:
    owned = stored.owned
    part = _decoded(config_map, owned.cluster_id)
    return replace(
        stored,
        owned=replace(
            owned,
            records=_joined(config_map, owned.records, part.owned.records),
            intents=_joined(config_map, owned.intents, part.owned.intents),
            drift_since=_joined(config_map, owned.drift_since, part.owned.drift_since),
            overrides=_joined(config_map, owned.overrides, part.owned.overrides),
            orphaned=owned.orphaned | part.owned.orphaned,
        ),
        uids={**stored.uids, **_read_uids(config_map)},
        removals=(*stored.removals, *_removals(config_map)),
        writers={**stored.writers, **part.writers},
    )


def _decoded(config_map: Obj, cluster_id: str) -> ClusterRecords:
    location = f"ConfigMap {metadata_of(config_map).get('name')}"
    clusters = records_format.decode(unpacked(config_map), location=location)
    if clusters.keys() != {cluster_id}:
        raise _damaged(config_map, "it belongs to another cluster id")
    return clusters[cluster_id]


def _read_uids(config_map: Obj) -> Mapping[str, str]:
    if DOCUMENTS not in config_map["binaryData"]:
        return {}
    try:
        rows = bounded_json.parse(
            unpacked(config_map, DOCUMENTS).decode(), most_bytes=UNPACKED_BYTES
        )
    except ValueError as error:
        raise _damaged(config_map, error) from error
    if not isinstance(rows, dict) or not all(isinstance(uid, str) for uid in rows.values()):
        raise _damaged(config_map, f"{DOCUMENTS} should be a map of documents to uids")
    return rows


def _joined(
    config_map: Obj, some: Mapping[Any, Any], additional: Mapping[Any, Any]
) -> Mapping[Any, Any]:
    if not some.keys().isdisjoint(additional.keys()):
        raise _damaged(config_map, "it repeats what another one holds")
    return {**some, **additional}


def unpacked(config_map: Obj, name: str = CONTENT) -> bytes:
    """The content of a part.

    Raises:
        InventoryError: It is missing, cut off, or larger than any that we write.
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


def _removals(config_map: Obj) -> tuple[RemovalCount, ...]:
    texts = _texts(config_map)
    name = BUDGETS if BUDGETS in texts else REMOVALS
    try:
        rows = bounded_json.parse(texts.get(name, "[]"), most_bytes=bounded_json.DOCUMENT)
        return tuple(count_of(row) for row in rows)
    except (TypeError, ValueError) as error:
        raise _damaged(config_map, f"{name}: {error}") from error


def _damaged(config_map: Obj, reason: object) -> InventoryError:
    return InventoryError(
        f"ConfigMap {metadata_of(config_map).get('name')} is damaged: {reason}",
        hint="restore it from a backup; it is never taken for empty",
    )
