"""Gzip ConfigMaps and back: what no live document's status holds, the intents of a batch, overrides, counts of removals.

There are two series per cluster id, and none has an owner: they outlive QuotaCluster and documents.

- *records*: released and orphaned pairs; written rarely.
- *ledger*: intents, overrides, removals of the guard's window, who writes; written around every batch.

A series is one ConfigMap, or several where one would grow too large. Entities are filed by a hash of theirs, so that
one change touches one part. Other counts of parts are another *layout* with the next serial number: its parts are
created before the old ones are deleted, and the newest layout that is whole is the one that counts.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.inventory.format import ClusterRecords
from reconciler.inventory.writers import KnownWriter
from reconciler.kube.layouts import ONE, Layout, current, name_of_part, part_of
from reconciler.kube.resources import FIELD_MANAGER, GROUP, Obj, metadata_of
from reconciler.quota.entity import Entity
from reconciler.quota.owned import Owned

PART_BYTES: Final = 256 * 1024
"""Most characters of one part, in base64 as it is stored; a ConfigMap of 1 MiB is the API server's limit."""

UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that a part may unpack to: a small one could announce any number."""

MOST_PARTS: Final = 1024

RECORDS, LEDGER = "records", "ledger"
CONTENT, REMOVALS = "content", "removals"
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
SERIES_LABEL: Final = f"{GROUP}/records"
CLUSTER_ID: Final = f"{GROUP}/cluster-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the ConfigMaps of one cluster id hold.

    Attributes:
        rest: Records that no live document holds, orphans, drift of those pairs; all intents and overrides.
        removals: When -> how many removals were made; what the guard's window counts.
        writers: Who writes to this cluster, by writer id.
        layouts: How each series is laid out at present.
    """

    rest: Owned
    removals: Mapping[float, int] = field(default_factory=dict[float, int])
    writers: Mapping[str, KnownWriter] = field(default_factory=dict[str, KnownWriter])
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])


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


def config_maps(kept: Kept, *, namespace: str) -> tuple[Kept, dict[str, Obj]]:
    """The ConfigMaps that hold all this, by name; and what is kept, with the layouts that they have.

    Equal content gives equal bytes, so that what did not change is not written.

    Raises:
        InventoryError: There is more than even the largest layout takes.
    """
    rest = kept.rest
    halves = {
        RECORDS: replace(rest, intents={}, overrides={}, known=True),
        LEDGER: Owned(cluster_id=rest.cluster_id, intents=rest.intents, overrides=rest.overrides),
    }
    made: dict[str, Obj] = {}
    layouts: dict[str, Layout] = {}
    for series, owned in halves.items():
        writers = kept.writers if series == LEDGER else {}
        layout, parts = _laid_out(owned, writers, kept.layouts.get(series, ONE))
        layouts[series] = layout
        if series == RECORDS and layout == ONE and not _holds_records(owned):
            continue
        for number, content in enumerate(parts):
            name = name_of_part(f"kquota-{hash_of(rest.cluster_id)}-{series}", layout, number)
            one = _config_map(rest.cluster_id, series, content, name=name, namespace=namespace)
            if series == LEDGER and number == 0 and kept.removals:
                one["data"] = {REMOVALS: json.dumps(sorted(kept.removals.items()))}
            made[name] = one
    return replace(kept, layouts=layouts), made


def _holds_records(owned: Owned) -> bool:
    return bool(owned.records or owned.drift_since or owned.orphaned)


def _laid_out(
    owned: Owned, writers: Mapping[str, KnownWriter], present: Layout
) -> tuple[Layout, Sequence[bytes]]:
    """The present layout if it fits and is not far too large, else the next that does."""
    parts = _parts(owned, writers, present.parts)
    if all(map(_fits, parts)):
        small = present.parts > 1 and sum(map(len, parts)) <= PART_BYTES // 4
        if not small:
            return present, parts
        parts = _parts(owned, writers, 1)
        return Layout(serial=present.serial + 1, parts=1), parts
    count = present.parts
    while not all(map(_fits, parts)):
        count *= 2
        if count > MOST_PARTS:
            raise InventoryError(
                f"the records of cluster {owned.cluster_id} do not fit into {MOST_PARTS} ConfigMaps",
                hint="remove orphaned quotas, or keep their documents",
            )
        parts = _parts(owned, writers, count)
    return Layout(serial=present.serial + 1, parts=count), parts


def _fits(content: bytes) -> bool:
    return 4 * ((len(content) + 2) // 3) <= PART_BYTES


def _parts(owned: Owned, writers: Mapping[str, KnownWriter], count: int) -> Sequence[bytes]:
    return [
        _packed(
            records_format.encode(
                {owned.cluster_id: ClusterRecords(owned=part, writers={} if number else writers)}
            )
        )
        for number, part in enumerate(_split(owned, count))
    ]


def _split(owned: Owned, count: int) -> Iterable[Owned]:
    if count == 1:
        yield owned
        return
    places: dict[Entity, int] = {}

    def in_part(number: int) -> Callable[[Entity], bool]:
        def holds(subject: Entity) -> bool:
            place = places.get(subject)
            if place is None:
                place = places[subject] = part_of(subject, count)
            return place == number

        return holds

    for number in range(count):
        holds = in_part(number)
        yield Owned(
            cluster_id=owned.cluster_id,
            records={one: record for one, record in owned.records.items() if holds(one)},
            intents={pair: one for pair, one in owned.intents.items() if holds(pair[0])},
            drift_since={pair: at for pair, at in owned.drift_since.items() if holds(pair[0])},
            orphaned=frozenset(pair for pair in owned.orphaned if holds(pair[0])),
            overrides={pair: one for pair, one in owned.overrides.items() if holds(pair[0])},
        )


def _packed(content: bytes) -> bytes:
    """Gzip without a time and a name in it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


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
        for part in names:
            kept = _with_part(kept, by_name[part])
    return kept


def _with_part(kept: Kept, one: Obj) -> Kept:
    rest = kept.rest
    where = f"ConfigMap {metadata_of(one).get('name')}"
    held = records_format.decode(unpacked(one), where=where)
    if held.keys() != {rest.cluster_id}:
        raise _damaged(one, "it belongs to another cluster id")
    part = held[rest.cluster_id]
    return replace(
        kept,
        rest=replace(
            rest,
            records=_joined(one, rest.records, part.owned.records),
            intents=_joined(one, rest.intents, part.owned.intents),
            drift_since=_joined(one, rest.drift_since, part.owned.drift_since),
            overrides=_joined(one, rest.overrides, part.owned.overrides),
            orphaned=rest.orphaned | part.owned.orphaned,
        ),
        removals={**kept.removals, **_removals(one)},
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


def _removals(one: Obj) -> dict[float, int]:
    text = (one.get("data") or {}).get(REMOVALS, "[]")
    try:
        return {_time(at): _count(count) for at, count in json.loads(text)}
    except (TypeError, ValueError) as error:
        raise _damaged(one, f"{REMOVALS}: {error}") from error


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no time")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


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
