"""Gzip ConfigMaps and back: what no live document's status holds, the intents of a batch, overrides, counts of removals.

There are two series per cluster id, and none has an owner: they outlive QuotaCluster and documents.

- *records*: released and orphaned pairs; written rarely.
- *ledger*: intents, overrides, what live documents hold, removals of the guard's window, who writes; written around
  every batch.

A series is one ConfigMap, or several where one would grow too large. Entities are filed by a hash of theirs, so that
one change touches one part. Other counts of parts are another *layout* with the next serial number: its parts are
created before the old ones are deleted, and the newest layout that is whole is the one that counts.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.inventory.writers import RecordedWriter
from reconciler.kube.api.custom_resources import (
    FIELD_MANAGER,
    GROUP,
    Obj,
    metadata_of,
)
from reconciler.kube.records.series_layout import (
    ONE,
    SeriesLayout,
    current,
    name_of_part,
)
from reconciler.kube.records.series_parts import PART_LIMITS, PartLimits, lay_out
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.removal_budgets import RemovalCount, count_of, row_of

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that a part may unpack to when it is read: a small one could announce any number."""

RECORDS, LEDGER = "records", "ledger"
CONTENT, REMOVALS, BUDGETS, HOLDINGS = "content", "removals", "budgets", "holdings"
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
SERIES_LABEL: Final = f"{GROUP}/records"
CLUSTER_ID: Final = f"{GROUP}/cluster-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecords:
    """What the ConfigMaps of one cluster id hold.

    Attributes:
        remainder: Records that no live document holds, orphans, drift of those pairs; all intents and overrides.
        removals: Removals within the guard's window.
        writers: Who writes to this cluster, by writer id.
        layouts: How each series is laid out at present.
        holdings: What live documents hold, without which their statuses are not believed; ``None`` = no such list was
            ever written for this cluster.
    """

    remainder: OwnershipRecords
    removals: Sequence[RemovalCount] = ()
    writers: Mapping[str, RecordedWriter] = field(default_factory=dict[str, RecordedWriter])
    layouts: Mapping[str, SeriesLayout] = field(default_factory=dict[str, SeriesLayout])
    holdings: OwnershipRecords | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapChanges:
    """What to write, in this order: a crash in between then loses nothing.

    Attributes:
        create: New ConfigMaps.
        update: Changed ones, with the resource version that they replace.
        delete: Names of those that are no longer needed.
    """

    create: tuple[Obj, ...] = ()
    update: tuple[Obj, ...] = ()
    delete: tuple[str, ...] = ()

    @property
    def writes(self) -> int:
        """How many requests that takes."""
        return len(self.create) + len(self.update) + len(self.delete)


def hash_of(cluster_id: str) -> str:
    """What names and labels call a cluster id: ids hold characters that those may not."""
    return hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def selector(cluster_id: str) -> str:
    """The label selector of all ConfigMaps of a cluster id."""
    return f"{CLUSTER_LABEL}={hash_of(cluster_id)},{SERIES_LABEL}"


# ---- writing ---------------------------------------------------------------------------------


def config_maps(
    stored: StoredRecords, *, namespace: str, limits: PartLimits = PART_LIMITS
) -> tuple[StoredRecords, dict[str, Obj]]:
    """The ConfigMaps that hold all this, by name; and what is kept, with the layouts that they have.

    Equal content gives equal bytes, so that what did not change is not written. Everything is encoded and compressed:
    on an event loop call it with ``asyncio.to_thread``.

    Raises:
        InventoryError: There is more than even the largest layout takes.
    """
    remainder = stored.remainder
    halves = {
        RECORDS: replace(remainder, intents={}, overrides={}, is_known=True),
        LEDGER: OwnershipRecords(
            cluster_id=remainder.cluster_id,
            records={} if stored.holdings is None else stored.holdings.records,
            intents=remainder.intents,
            overrides=remainder.overrides,
        ),
    }
    objects: dict[str, Obj] = {}
    layouts: dict[str, SeriesLayout] = {}
    for series, owned in halves.items():
        writers = stored.writers if series == LEDGER else {}
        layout, parts = lay_out(owned, writers, stored.layouts.get(series, ONE), limits=limits)
        layouts[series] = layout
        if series == RECORDS and layout == ONE and not _holds_records(owned):
            continue
        for number, part in enumerate(parts):
            name = name_of_part(f"kquota-{hash_of(remainder.cluster_id)}-{series}", layout, number)
            config_map = _config_map(
                remainder.cluster_id, series, part.packed, name=name, namespace=namespace
            )
            if series == LEDGER and number == 0:
                config_map |= _extra_data(stored)
            objects[name] = config_map
    return replace(stored, layouts=layouts), objects


def _extra_data(stored: StoredRecords) -> dict[str, Any]:
    """What the first part of the ledger says in plain text."""
    texts: dict[str, str] = {}
    if stored.removals:
        together: dict[float, int] = {}
        for removal in stored.removals:
            together[removal.at] = together.get(removal.at, 0) + removal.count
        # What an earlier version reads, should it come back.
        texts[REMOVALS] = json.dumps(sorted(together.items()))
        texts[BUDGETS] = json.dumps([row_of(removal_count) for removal_count in stored.removals])
    if stored.holdings is not None:
        texts[HOLDINGS] = "complete"
    return {"data": texts} if texts else {}


def _holds_records(owned: OwnershipRecords) -> bool:
    return bool(owned.records or owned.drift_since or owned.orphaned)


def _config_map(
    cluster_id: str, series: str, content: bytes, *, name: str, namespace: str
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
                SERIES_LABEL: series,
            },
            "annotations": {CLUSTER_ID: cluster_id},
        },
        "binaryData": {CONTENT: base64.b64encode(content).decode("ascii")},
    }


# ---- reading ---------------------------------------------------------------------------------


def read(cluster_id: str, config_maps_found: Iterable[Obj]) -> StoredRecords:
    """What the ConfigMaps of a cluster id hold; nothing known where there is none.

    Args:
        cluster_id: Whose.
        config_maps_found: All ConfigMaps that :func:`selector` selects, in any order.

    Raises:
        InventoryError: One cannot be read, or a part of a series is missing.
    """
    series: dict[str, list[Obj]] = {RECORDS: [], LEDGER: []}
    for config_map in config_maps_found:
        label = metadata_of(config_map).get("labels", {}).get(SERIES_LABEL)
        if label not in series:
            raise _damaged(config_map, f"{SERIES_LABEL} is {label!r}")
        series[label].append(config_map)
    stored = StoredRecords(
        remainder=OwnershipRecords(cluster_id=cluster_id, is_known=any(series.values()))
    )
    for name, series_objects in series.items():
        by_name = {
            str(metadata_of(series_object).get("name", "")): series_object
            for series_object in series_objects
        }
        layout, names = current(f"kquota-{hash_of(cluster_id)}-{name}", by_name)
        stored = replace(stored, layouts={**stored.layouts, name: layout})
        if name == LEDGER and any(HOLDINGS in _texts(by_name[part]) for part in names):
            stored = replace(stored, holdings=OwnershipRecords(cluster_id=cluster_id))
        for part in names:
            stored = _with_part(stored, by_name[part], series=name)
    return stored


def _texts(config_map: Obj) -> Mapping[str, Any]:
    data = config_map.get("data")
    return data if isinstance(data, Mapping) else {}


def _with_part(stored: StoredRecords, config_map: Obj, *, series: str) -> StoredRecords:
    remainder, holdings = stored.remainder, stored.holdings
    location = f"ConfigMap {metadata_of(config_map).get('name')}"
    clusters = records_format.decode(unpacked(config_map), location=location)
    if clusters.keys() != {remainder.cluster_id}:
        raise _damaged(config_map, "it belongs to another cluster id")
    part = clusters[remainder.cluster_id]
    if series == LEDGER and holdings is not None:
        records = _joined(config_map, holdings.records, part.owned.records)
        holdings = replace(holdings, records=records)
        part = replace(part, owned=replace(part.owned, records={}))
    return replace(
        stored,
        holdings=holdings,
        remainder=replace(
            remainder,
            records=_joined(config_map, remainder.records, part.owned.records),
            intents=_joined(config_map, remainder.intents, part.owned.intents),
            drift_since=_joined(config_map, remainder.drift_since, part.owned.drift_since),
            overrides=_joined(config_map, remainder.overrides, part.owned.overrides),
            orphaned=remainder.orphaned | part.owned.orphaned,
        ),
        removals=(*stored.removals, *_removals(config_map)),
        writers={**stored.writers, **part.writers},
    )


def _joined(
    config_map: Obj, some: Mapping[Any, Any], additional: Mapping[Any, Any]
) -> Mapping[Any, Any]:
    if not some.keys().isdisjoint(additional.keys()):
        raise _damaged(config_map, "it repeats what another one holds")
    return {**some, **additional}


def unpacked(config_map: Obj) -> bytes:
    """The content of a part.

    Raises:
        InventoryError: It is missing, cut off, or larger than any that we write.
    """
    try:
        packed = base64.b64decode(config_map["binaryData"][CONTENT], validate=True)
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


# ---- comparing -------------------------------------------------------------------------------


def diff(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> ConfigMapChanges:
    """What turns the ConfigMaps that are there into those that should be.

    Args:
        before: By name, as the API server gave them; damaged ones may be replaced too.
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
        if name in before and not _same(before[name], config_map)
    ]
    return ConfigMapChanges(
        create=tuple(config_map for name, config_map in after.items() if name not in before),
        update=tuple(update),
        delete=tuple(name for name in before if name not in after),
    )


def _same(first: Obj, second: Obj) -> bool:
    """Whether both hold the same, however it was packed: another zlib packs otherwise."""
    if (first.get("data") or {}) != (second.get("data") or {}):
        return False
    if first.get("binaryData") == second.get("binaryData"):
        return True
    try:
        return unpacked(first) == unpacked(second)
    except InventoryError:
        return False
