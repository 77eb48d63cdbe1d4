"""Records as text and back: one JSON document for any number of clusters, one line per entity, sorted, versioned.

    {"kind":"kquota-inventory","format":1,"clusters":{
    "CLUSTER ID":{
    "project":"payments/prod",
    "known":true,
    "ended":0.0,
    "owners":[
    ["payments/alice","Retain",1700000000.0]],
    "records":[
    ["alice",false,false,[1048576.0,null,null,null,null],0],
    ...

An entity is written as its three slots (``false`` = absent, ``null`` = default). A record names its owners by
their place in ``owners``: one number if all its pairs have the same, else one for each value. Reading is strict:
anything that is not exactly this is damage, and damage is never an empty inventory. A record that was written before a key
was added has fewer values, and does not have that key. More values, items or sections are those of a newer version:
they are an error as well, because the next write would lose them.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from reconciler.base import bounded_json
from reconciler.base.compact_json import compact
from reconciler.errors import InventoryError, QuotaValueError
from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.entity_forms import read_slots
from reconciler.quota.keys import COLUMNS, Key, read_key_columns
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, Owner, OwnershipRecord, OwnershipRecords, Pair
from reconciler.quota.policy import DeletionPolicy

KIND: Final = "kquota-inventory"
FORMAT: Final = 1

_V = TypeVar("_V")
_ENCODE: Final = compact()
_LAST_MOMENT: Final = 253_402_300_799.0  # the end of the year 9999
_SECTIONS: Final = {
    "owners": 3,
    "records": 5,
    "intents": 9,
    "drift": 5,
    "orphaned": 4,
    "overrides": 13,
}
"""Section -> maximum number of items of a row."""
_NAMES: Final = frozenset({"project", "known", "ended", *_SECTIONS})


def safe_name(cluster_id: str) -> str:
    """Return a cluster id for names of files and refs. Ids are free text, so one with other characters is hashed."""
    plain = cluster_id.replace("-", "").replace("_", "")
    if plain.isascii() and plain.isalnum():
        return cluster_id
    return hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def no_records(cluster_id: str) -> OwnershipRecords:
    """Return the records of a cluster that has none and never had any."""
    return OwnershipRecords(cluster_id=cluster_id, is_known=False)


def encode(clusters: Mapping[str, OwnershipRecords]) -> bytes:
    """Encode the document; equal records give equal bytes."""
    return join_clusters(
        {cluster_id: encode_cluster(cluster_id, clusters[cluster_id]) for cluster_id in clusters}
    )


def encode_cluster(cluster_id: str, records: OwnershipRecords) -> str:
    """Encode one cluster for :func:`join_clusters`."""
    return f"{json.dumps(cluster_id)}:{{\n{_cluster(records)}}}"


def join_clusters(texts: Mapping[str, str]) -> bytes:
    """Encode the document from the texts of its clusters."""
    head = f'{{"kind":"{KIND}","format":{FORMAT},"clusters":{{\n'
    return (head + ",\n".join(texts[name] for name in sorted(texts)) + "\n}}\n").encode("ascii")


def decode(content: bytes, *, location: str) -> dict[str, OwnershipRecords]:
    """Decode the clusters of a document.

    Raises:
        InventoryError: It is damaged, not an inventory, of another format, or has something that this version does not know.
    """
    try:
        document = bounded_json.parse(
            content.decode("ascii"), most_bytes=bounded_json.OWN_FILE, pairs=bounded_json.unique
        )
    except ValueError as error:
        raise _damaged_error(location, str(error)) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InventoryError(f"{location} is not an inventory of kquota", hint="name another file")
    if document.get("format") != FORMAT:
        raise InventoryError(
            f"{location} has format {document.get('format')!r}; this version supports format {FORMAT}",
            hint=_UPGRADE,
        )
    clusters = document.get("clusters")
    if document.keys() != {"kind", "format", "clusters"} or not isinstance(clusters, dict):
        raise _damaged_error(location, "it has no clusters")
    records_by_cluster: dict[str, OwnershipRecords] = {}
    for cluster_id, value in clusters.items():
        try:
            records_by_cluster[cluster_id] = _records(cluster_id, value)
        except _NewerContent as error:
            raise InventoryError(
                f"{location} was written by a newer kquota: cluster {cluster_id!r}: {error}",
                hint=_UPGRADE,
            ) from error
        except (ValueError, TypeError, IndexError, QuotaValueError) as error:
            raise _damaged_error(location, f"cluster {cluster_id!r}: {error}") from error
    return records_by_cluster


_UPGRADE: Final = (
    "use the kquota that wrote it, or a newer one; upgrade operators and loops before the command lines that share records"
    " with them"
)


class _NewerContent(ValueError):
    """The document has something that this version does not know."""


def _damaged_error(location: str, reason: str) -> InventoryError:
    return InventoryError(
        f"{location} is damaged: {reason}",
        hint="restore it from a backup or the history of its git ref; a damaged inventory is not treated as empty. Without a backup,"
        " move it away: the next apply adopts the live limits that documents declare and removes nothing; overrides are forgotten",
    )


# ---- writing ---------------------------------------------------------------------------------


class _OwnerTable:
    """Owners in the order of their first use; equal ones are stored once."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str | None, float]] = []
        self._places: dict[Owner, int] = {}
        self._known: dict[int, tuple[Owner, int]] = {}  # by identity: most are the very same object

    def place(self, owner: Owner) -> int:
        known_place = self._known.get(id(owner))
        if known_place is not None:
            return known_place[1]
        place = self._places.setdefault(owner, len(self.rows))
        if place == len(self.rows):
            self.rows.append((owner.document, owner.deletion_policy, owner.since))
        self._known[id(owner)] = owner, place
        return place

    def columns(self, record: OwnershipRecord) -> int | list[int | None]:
        if record.sole is not None:
            return self.place(record.sole)
        return [None if owner is None else self.place(owner) for owner in record.owners]


def _cluster(owned: OwnershipRecords) -> str:
    table = _OwnerTable()
    rows: dict[str, Sequence[object]] = {
        "owners": table.rows,  # filled by what follows
        "records": [
            (*subject, record.applied, table.columns(record))
            for subject, record in sorted(owned.records.items(), key=lambda item: sort_key(item[0]))
        ],
        "intents": [
            (*subject, key, *_intent_values(intent, table))
            for (subject, key), intent in _sort_pairs(owned.intents)
        ],
        "drift": [(*subject, key, at) for (subject, key), at in _sort_pairs(owned.drift_since)],
        "orphaned": [
            (*subject, key) for (subject, key), _ in _sort_pairs(dict.fromkeys(owned.orphaned))
        ],
        "overrides": [
            (*subject, key, *_override_values(override))
            for (subject, key), override in _sort_pairs(owned.overrides)
        ],
    }
    head = f'"project":{_ENCODE(owned.project)},\n"known":{_ENCODE(owned.is_known)},\n'
    head += f'"ended":{_ENCODE(owned.latest_end)},\n'
    return head + ",\n".join(
        f'"{name}":[\n' + ",\n".join(map(_ENCODE, rows[name])) + "]" for name in _SECTIONS
    )


def _sort_pairs(pairs: Mapping[Pair, _V]) -> list[tuple[Pair, _V]]:
    return sorted(pairs.items(), key=lambda item: (sort_key(item[0][0]), item[0][1]))


def _intent_values(intent: Intent, table: _OwnerTable) -> tuple[object, ...]:
    return _number(intent.value), table.place(intent.owner), intent.at


def _override_values(override: Override) -> Sequence[object]:
    return (
        _number(override.value),
        override.until,
        override.author,
        override.reason,
        _number(override.before),
        _number(override.applied),
        _number(override.declared),
        override.ends_with_document,
        override.document,
    )


def _number(value: float | None) -> float | str | None:
    """Return a value; one that JSON cannot represent (a live NaN, kept as a previous value) as its name."""
    return value if value is None or math.isfinite(value) else str(float(value))


# ---- reading ---------------------------------------------------------------------------------


def _records(cluster_id: str, value: object) -> OwnershipRecords:
    """Decode one cluster.

    Raises:
        ValueError: It has another structure (also TypeError, IndexError, QuotaValueError from the values).
    """
    if not isinstance(value, dict) or not value.keys() >= _NAMES:
        raise ValueError(f"it should have exactly {', '.join(sorted(_NAMES))}")
    match value["project"], value["known"]:
        case str(project), bool(is_known):
            pass
        case _:
            raise ValueError("project should be a text, and known true or false")
    if unknown := value.keys() - _NAMES:
        raise _NewerContent(f"it has the unknown section {min(unknown)!r}")
    for name, most_items in _SECTIONS.items():
        if not isinstance(value[name], list):
            raise ValueError(f"{name} should be an array")  # noqa: TRY004 - damage, not a bug
        most = max((len(row) for row in value[name] if isinstance(row, list)), default=0)
        if most > most_items:
            raise _NewerContent(
                f"a row of {name} has {most} items, of which {most_items} are known"
            )
    owners = tuple(_owner(row) for row in value["owners"])
    records: dict[Entity, OwnershipRecord] = {}
    for row in value["records"]:
        *slots, limits, places = row
        subject = read_slots(slots)
        if subject in records:
            raise ValueError(f"the record {row!r} is given twice")
        values = _limits(limits)
        records[subject] = OwnershipRecord(
            read_key_columns(values), read_key_columns(_owners(values, places, owners))
        )
    overrides = [_override(row) for row in value["overrides"]]
    return OwnershipRecords(
        cluster_id=cluster_id,
        records=records,
        intents={pair: _intent(fields, owners) for pair, fields in _pairs(value["intents"], 3)},
        drift_since={pair: _float(fields[0]) for pair, fields in _pairs(value["drift"], 1)},
        orphaned=frozenset(pair for pair, _ in _pairs(value["orphaned"], 0)),
        overrides={override.pair: override for override in overrides},
        is_known=is_known,
        project=project,
        latest_end=_float(value["ended"]),
    )


def _limits(value: object) -> list[float | None]:
    values = _list(value)
    if len(values) > len(COLUMNS):
        raise _NewerContent(f"{value!r} has more than {len(COLUMNS)} values")
    if values.count(None) == len(values):
        raise ValueError(f"{value!r} should be numbers or nulls, with a number")
    return [v if v is None or type(v) is float else _float(v) for v in values]


def _owners(
    values: Sequence[float | None], places: object, owners: Sequence[Owner]
) -> list[Owner | None]:
    if isinstance(places, int):
        owner = _at(owners, places)
        return [None if value is None else owner for value in values]
    value_owners = [None if place is None else _at(owners, place) for place in _list(places)]
    if [owner is None for owner in value_owners] != [value is None for value in values]:
        raise ValueError("a record should have one owner per value")
    return value_owners


def _intent(values: Sequence[object], owners: Sequence[Owner]) -> Intent:
    return Intent(value=_read_number(values[0]), owner=_at(owners, values[1]), at=_float(values[2]))


def _pairs(rows: Iterable[object], extra_count: int) -> Iterator[tuple[Pair, list[object]]]:
    for row in rows:
        values = _list(row)
        if len(values) != 4 + extra_count:
            raise ValueError(f"{row!r} should have {4 + extra_count} items")
        yield (read_slots(values[:3]), Key(str(values[3]))), values[4:]


def _override(row: object) -> Override:
    ((pair, values),) = _pairs([row], 9)
    match values:
        case [
            value,
            until,
            str(author),
            str(reason),
            before,
            applied,
            declared,
            bool(ends),
            str(document),
        ]:
            temporary, end = _read_number(value), _float(until)
        case _:
            raise ValueError(f"{row!r} is no override")
    if not (temporary is None or 0 < temporary < math.inf) or not 0 <= end <= _LAST_MOMENT:
        raise ValueError(f"{row!r} is no override: its value or its end cannot be")
    return Override(
        entity=pair[0],
        key=pair[1],
        value=temporary,
        until=end,
        author=author,
        reason=reason,
        document=document,
        before=_read_number(before),
        applied=_read_number(applied),
        declared=_read_number(declared),
        ends_with_document=ends,
    )


def _owner(row: object) -> Owner:
    match row:
        case [str(document), str() | None as policy, float() | int() as since]:
            return Owner(
                document=document,
                deletion_policy=None if policy is None else DeletionPolicy(policy),
                since=float(since),
            )
        case _:
            raise ValueError(f"{row!r} is no owner")


def _at(owners: Sequence[Owner], place: object) -> Owner:
    if not isinstance(place, int) or isinstance(place, bool) or place < 0:
        raise ValueError(f"{place!r} is no place of an owner")
    return owners[place]


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} should be an array")  # noqa: TRY004 - damage, not a bug
    return value


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int):
        raise ValueError(f"{value!r} should be a number")  # noqa: TRY004 - damage, not a bug
    return float(value)


def _read_number(value: object) -> float | None:
    if value in ("nan", "inf", "-inf"):
        return float(str(value))
    return None if value is None else _float(value)
