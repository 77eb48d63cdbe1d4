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

from reconciler import foreign_json
from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.inventory.writers import KnownWriter
from reconciler.kube.layouts import ONE, Layout, current, name_of_part
from reconciler.kube.parts import PART_LIMITS, PartLimits, lay_out
from reconciler.kube.resources import FIELD_MANAGER, GROUP, Obj, metadata_of
from reconciler.quota.budgets import RemovalCount, count_of, row_of
from reconciler.quota.owned import Owned

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that a part may unpack to when it is read: a small one could announce any number."""

RECORDS, LEDGER = "records", "ledger"
CONTENT, REMOVALS, BUDGETS, HOLDINGS = "content", "removals", "budgets", "holdings"
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
SERIES_LABEL: Final = f"{GROUP}/records"
CLUSTER_ID: Final = f"{GROUP}/cluster-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the ConfigMaps of one cluster id hold.

    Attributes:
        rest: Records that no live document holds, orphans, drift of those pairs; all intents and overrides.
        removals: Removals within the guard's window.
        writers: Who writes to this cluster, by writer id.
        layouts: How each series is laid out at present.
        holdings: What live documents hold, without which their statuses are not believed; ``None`` = no such list was
            ever written for this cluster.
    """

    rest: Owned
    removals: Sequence[RemovalCount] = ()
    writers: Mapping[str, KnownWriter] = field(default_factory=dict[str, KnownWriter])
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    holdings: Owned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
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
    kept: Kept, *, namespace: str, limits: PartLimits = PART_LIMITS
) -> tuple[Kept, dict[str, Obj]]:
    """The ConfigMaps that hold all this, by name; and what is kept, with the layouts that they have.

    Equal content gives equal bytes, so that what did not change is not written. Everything is encoded and compressed:
    on an event loop call it with ``asyncio.to_thread``.

    Raises:
        InventoryError: There is more than even the largest layout takes.
    """
    rest = kept.rest
    halves = {
        RECORDS: replace(rest, intents={}, overrides={}, known=True),
        LEDGER: Owned(
            cluster_id=rest.cluster_id,
            records={} if kept.holdings is None else kept.holdings.records,
            intents=rest.intents,
            overrides=rest.overrides,
        ),
    }
    made: dict[str, Obj] = {}
    layouts: dict[str, Layout] = {}
    for series, owned in halves.items():
        writers = kept.writers if series == LEDGER else {}
        layout, parts = lay_out(owned, writers, kept.layouts.get(series, ONE), limits=limits)
        layouts[series] = layout
        if series == RECORDS and layout == ONE and not _holds_records(owned):
            continue
        for number, part in enumerate(parts):
            name = name_of_part(f"kquota-{hash_of(rest.cluster_id)}-{series}", layout, number)
            one = _config_map(rest.cluster_id, series, part.packed, name=name, namespace=namespace)
            if series == LEDGER and number == 0:
                one |= _beside(kept)
            made[name] = one
    return replace(kept, layouts=layouts), made


def _beside(kept: Kept) -> dict[str, Any]:
    """What the first part of the ledger says in plain text."""
    texts: dict[str, str] = {}
    if kept.removals:
        together: dict[float, int] = {}
        for one in kept.removals:
            together[one.at] = together.get(one.at, 0) + one.count
        # What an earlier version reads, should it come back.
        texts[REMOVALS] = json.dumps(sorted(together.items()))
        texts[BUDGETS] = json.dumps([row_of(one) for one in kept.removals])
    if kept.holdings is not None:
        texts[HOLDINGS] = "complete"
    return {"data": texts} if texts else {}


def _holds_records(owned: Owned) -> bool:
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


def read(cluster_id: str, found: Iterable[Obj]) -> Kept:
    """What the ConfigMaps of a cluster id hold; nothing known where there is none.

    Args:
        cluster_id: Whose.
        found: All ConfigMaps that :func:`selector` selects, in any order.

    Raises:
        InventoryError: One cannot be read, or a part of a series is missing.
    """
    series: dict[str, list[Obj]] = {RECORDS: [], LEDGER: []}
    for one in found:
        label = metadata_of(one).get("labels", {}).get(SERIES_LABEL)
        if label not in series:
            raise _damaged(one, f"{SERIES_LABEL} is {label!r}")
        series[label].append(one)
    kept = Kept(rest=Owned(cluster_id=cluster_id, known=any(series.values())))
    for name, several in series.items():
        by_name = {str(metadata_of(one).get("name", "")): one for one in several}
        layout, names = current(f"kquota-{hash_of(cluster_id)}-{name}", by_name)
        kept = replace(kept, layouts={**kept.layouts, name: layout})
        if name == LEDGER and any(HOLDINGS in _texts(by_name[part]) for part in names):
            kept = replace(kept, holdings=Owned(cluster_id=cluster_id))
        for part in names:
            kept = _with_part(kept, by_name[part], series=name)
    return kept


def _texts(one: Obj) -> Mapping[str, Any]:
    found = one.get("data")
    return found if isinstance(found, Mapping) else {}


def _with_part(kept: Kept, one: Obj, *, series: str) -> Kept:
    rest, holdings = kept.rest, kept.holdings
    where = f"ConfigMap {metadata_of(one).get('name')}"
    held = records_format.decode(unpacked(one), where=where)
    if held.keys() != {rest.cluster_id}:
        raise _damaged(one, "it belongs to another cluster id")
    part = held[rest.cluster_id]
    if series == LEDGER and holdings is not None:
        known = _joined(one, holdings.records, part.owned.records)
        holdings = replace(holdings, records=known)
        part = replace(part, owned=replace(part.owned, records={}))
    return replace(
        kept,
        holdings=holdings,
        rest=replace(
            rest,
            records=_joined(one, rest.records, part.owned.records),
            intents=_joined(one, rest.intents, part.owned.intents),
            drift_since=_joined(one, rest.drift_since, part.owned.drift_since),
            overrides=_joined(one, rest.overrides, part.owned.overrides),
            orphaned=rest.orphaned | part.owned.orphaned,
        ),
        removals=(*kept.removals, *_removals(one)),
        writers={**kept.writers, **part.writers},
    )


def _joined(one: Obj, some: Mapping[Any, Any], more: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if not some.keys().isdisjoint(more.keys()):
        raise _damaged(one, "it repeats what another one holds")
    return {**some, **more}


def unpacked(one: Obj) -> bytes:
    """The content of a part.

    Raises:
        InventoryError: It is missing, cut off, or larger than any that we write.
    """
    try:
        packed = base64.b64decode(one["binaryData"][CONTENT], validate=True)
        reader = zlib.decompressobj(31)
        content = reader.decompress(packed, UNPACKED_BYTES)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise _damaged(one, error) from error
    if not reader.eof or reader.unused_data:
        raise _damaged(one, "its content is cut off, has something after its end, or is too large")
    return content


def _removals(one: Obj) -> tuple[RemovalCount, ...]:
    texts = _texts(one)
    name = BUDGETS if BUDGETS in texts else REMOVALS
    try:
        rows = foreign_json.parse(texts.get(name, "[]"), most_bytes=foreign_json.DOCUMENT)
        return tuple(count_of(row) for row in rows)
    except (TypeError, ValueError) as error:
        raise _damaged(one, f"{name}: {error}") from error


def _damaged(one: Obj, why: object) -> InventoryError:
    return InventoryError(
        f"ConfigMap {metadata_of(one).get('name')} is damaged: {why}",
        hint="restore it from a backup; it is never taken for empty",
    )


# ---- comparing -------------------------------------------------------------------------------


def diff(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> Difference:
    """What turns the ConfigMaps that are there into those that should be.

    Args:
        before: By name, as the API server gave them; damaged ones may be replaced too.
        after: From :func:`config_maps`.
    """
    update = [
        {
            **one,
            "metadata": {
                **one["metadata"],
                "resourceVersion": metadata_of(before[name]).get("resourceVersion"),
            },
        }
        for name, one in after.items()
        if name in before and not _same(before[name], one)
    ]
    return Difference(
        create=tuple(one for name, one in after.items() if name not in before),
        update=tuple(update),
        delete=tuple(name for name in before if name not in after),
    )


def _same(one: Obj, other: Obj) -> bool:
    """Whether both hold the same, however it was packed: another zlib packs otherwise."""
    if (one.get("data") or {}) != (other.get("data") or {}):
        return False
    if one.get("binaryData") == other.get("binaryData"):
        return True
    try:
        return unpacked(one) == unpacked(other)
    except InventoryError:
        return False
