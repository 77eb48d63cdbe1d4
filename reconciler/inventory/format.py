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
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from reconciler.base import bounded_json
from reconciler.base.compact_json import exact, lines
from reconciler.errors import InventoryError, QuotaValueError
from reconciler.quota.entity import Entity, read_slots, sort_key
from reconciler.quota.keys import COLUMNS, Key, read_key_columns
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, Owner, OwnershipRecord, OwnershipRecords, Pair
from reconciler.quota.policy import DeletionPolicy

KIND: Final = "kquota-inventory"
FORMAT: Final = 1

_V = TypeVar("_V")
_LAST_MOMENT: Final = 253_402_300_799.0  # the end of the year 9999

_Place: TypeAlias = Annotated[int, Meta(ge=0)]
_Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A number that can be written again: ``1e999`` is read as infinity."""
_Number: TypeAlias = float | Literal["nan", "inf", "-inf"] | None
"""A live value; one that JSON cannot represent, kept as a previous value, is its name."""


class _SectionRow(Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A line of a section."""


class _OwnerRow(_SectionRow):
    document: str
    deletion_policy: DeletionPolicy | None
    since: _Finite


class _EntityRow(_SectionRow):
    user: str | bool | None
    client_id: str | bool | None
    ip: str | bool | None

    @property
    def entity(self) -> Entity:
        return read_slots((self.user, self.client_id, self.ip))


class _RecordRow(_EntityRow):
    limits: Annotated[list[_Finite | None], Meta(min_length=1, max_length=len(COLUMNS))]
    owners: _Place | list[_Place | None]


class _PairRow(_EntityRow):
    key: Key

    @property
    def pair(self) -> Pair:
        return self.entity, self.key


class _IntentRow(_PairRow):
    value: _Number
    owner: _Place
    at: _Finite


class _DriftRow(_PairRow):
    since: _Finite


class _OverrideRow(_PairRow):
    value: Annotated[float, Meta(gt=0, le=sys.float_info.max)] | None
    until: Annotated[float, Meta(ge=0, le=_LAST_MOMENT)]
    author: str
    reason: str
    before: _Number
    applied: _Number
    declared: _Number
    ends_with_document: bool
    document: str


class _StoredCluster(Struct, forbid_unknown_fields=True, gc=False, rename={"is_known": "known"}):
    project: str
    is_known: bool
    ended: _Finite
    owners: list[_OwnerRow]
    records: list[_RecordRow]
    intents: list[_IntentRow]
    drift: list[_DriftRow]
    orphaned: list[_PairRow]
    overrides: list[_OverrideRow]


class _StoredDocument(Struct, forbid_unknown_fields=True):
    kind: Literal["kquota-inventory"]
    format: Literal[1]
    clusters: dict[str, _StoredCluster]


class _DocumentNames(Struct):
    """The names of a document, with the texts of its sections."""

    kind: msgspec.Raw
    format: msgspec.Raw
    clusters: dict[str, dict[str, msgspec.Raw]]


_DECODER: Final = msgspec.json.Decoder(_StoredDocument)
_NAMES: Final = msgspec.json.Decoder(_DocumentNames)
_IS_MORE: Final = re.compile("unknown field|at most length|length <=").search
"""Whether an error of msgspec says that something has more than it should."""

_UPGRADE: Final = (
    "use the kquota that wrote it, or a newer one; upgrade operators and loops before the command lines that share records"
    " with them"
)


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


def encode_cluster(cluster_id: str, records: OwnershipRecords) -> bytes:
    """Encode one cluster for :func:`join_clusters`."""
    stored, fields = _stored(records), list[bytes]()
    for name, field in zip(stored.__struct_encode_fields__, stored.__struct_fields__, strict=True):
        value = getattr(stored, field)
        text = (
            b"[\n%b]" % lines(value)[:-1].replace(b"\n", b",\n")
            if isinstance(value, list)
            else json.dumps(value).encode()
        )
        fields.append(b'"%b":%b' % (name.encode(), text))
    return b"%b:{\n%b}" % (json.dumps(cluster_id).encode(), b",\n".join(fields))


def join_clusters(texts: Mapping[str, bytes]) -> bytes:
    """Encode the document from the texts of its clusters."""
    head = f'{{"kind":"{KIND}","format":{FORMAT},"clusters":{{\n'.encode()
    return head + b",\n".join(texts[name] for name in sorted(texts)) + b"\n}}\n"


def decode(content: bytes, *, location: str) -> dict[str, OwnershipRecords]:
    """Decode the clusters of a document.

    Raises:
        InventoryError: It is damaged, not an inventory, of another format, or has something that this version does not know.
    """
    try:
        text = content.decode("ascii")
        document = _typed(text) or _parsed(text, location)
    except ValueError as error:
        raise _damaged_error(location, error) from error
    clusters: dict[str, OwnershipRecords] = {}
    for cluster_id, cluster in document.clusters.items():
        try:
            clusters[cluster_id] = _records(cluster_id, cluster)
        except (ValueError, IndexError, QuotaValueError) as error:
            raise _damaged_error(location, f"cluster {cluster_id!r}: {error}") from error
    return clusters


def _damaged_error(location: str, reason: object) -> InventoryError:
    return InventoryError(
        f"{location} is damaged: {reason}",
        hint="restore it from a backup or the history of its git ref; a damaged inventory is not treated as empty. Without a backup,"
        " move it away: the next apply adopts the live limits that documents declare and removes nothing; overrides are forgotten",
    )


def _typed(text: str) -> _StoredDocument | None:
    """Return a document without faults; ``None`` = :func:`_parsed` decides."""
    with suppress(ValueError):
        document, packed = _DECODER.decode(text), msgspec.json.format(text, indent=-1)
        # Of a name that is given twice, msgspec keeps one.
        if msgspec.json.encode(_NAMES.decode(packed)).decode() == packed:
            return document
    return None


def _parsed(text: str, location: str) -> _StoredDocument:
    """Return a document whose names contain half of a surrogate pair, which only Python's parser accepts.

    Raises:
        InventoryError: It is not an inventory, of another format, or has something that this version does not know.
        ValueError: It is damaged.
    """
    value = bounded_json.parse(text, most_bytes=bounded_json.OWN_FILE, pairs=bounded_json.unique)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise InventoryError(f"{location} is not an inventory of kquota", hint="name another file")
    if value.get("format") != FORMAT:
        raise InventoryError(
            f"{location} has format {value.get('format')!r}; this version supports format {FORMAT}",
            hint=_UPGRADE,
        )
    try:
        return msgspec.convert(value, _StoredDocument)
    except msgspec.ValidationError as error:
        if not _IS_MORE(str(error)):
            raise
        raise InventoryError(
            f"{location} was written by a newer kquota: {error}", hint=_UPGRADE
        ) from error


# ---- writing ---------------------------------------------------------------------------------


def _stored(owned: OwnershipRecords) -> _StoredCluster:
    places: dict[Owner, int] = {}  # in the order of their first use

    def place(owner: Owner) -> int:
        return places.setdefault(owner, len(places))

    records = [
        _RecordRow(
            *entity,
            [limit and exact(limit) for limit in record.applied],
            [None if owner is None else place(owner) for owner in record.owners]
            if record.sole is None
            else place(record.sole),
        )
        for entity, record in sorted(owned.records.items(), key=lambda item: sort_key(item[0]))
    ]
    intents = [
        _IntentRow(*entity, key, _number(intent.value), place(intent.owner), intent.at)
        for (entity, key), intent in _sorted(owned.intents)
    ]
    overrides = [
        _OverrideRow(
            *entity,
            key,
            override.value and exact(override.value),
            override.until,
            override.author,
            override.reason,
            _number(override.before),
            _number(override.applied),
            _number(override.declared),
            override.ends_with_document,
            override.document,
        )
        for (entity, key), override in _sorted(owned.overrides)
    ]
    return _StoredCluster(
        project=owned.project,
        is_known=owned.is_known,
        ended=owned.latest_end,
        owners=[_OwnerRow(o.document, o.deletion_policy, o.since) for o in places],
        records=records,
        intents=intents,
        drift=[_DriftRow(*entity, key, at) for (entity, key), at in _sorted(owned.drift_since)],
        orphaned=[
            _PairRow(*entity, key) for (entity, key), _ in _sorted(dict.fromkeys(owned.orphaned))
        ],
        overrides=overrides,
    )


def _sorted(pairs: Mapping[Pair, _V]) -> list[tuple[Pair, _V]]:
    return sorted(pairs.items(), key=lambda item: (*sort_key(item[0][0]), item[0][1]))


def _number(value: float | None) -> _Number:
    if value is None or math.isfinite(value):
        return value and exact(value)
    return cast("_Number", str(float(value)))


# ---- reading ---------------------------------------------------------------------------------


def _records(cluster_id: str, stored: _StoredCluster) -> OwnershipRecords:
    owners = msgspec.convert(stored.owners, list[Owner], from_attributes=True)
    records = {row.entity: _record(row, owners) for row in stored.records}
    if len(records) < len(stored.records):
        raise ValueError("a record is given twice")
    return OwnershipRecords(
        cluster_id=cluster_id,
        records=records,
        intents={
            row.pair: Intent(value=_value(row.value), owner=owners[row.owner], at=row.at)
            for row in stored.intents
        },
        drift_since={row.pair: row.since for row in stored.drift},
        orphaned=frozenset(row.pair for row in stored.orphaned),
        overrides={row.pair: _override(row) for row in stored.overrides},
        is_known=stored.is_known,
        project=stored.project,
        latest_end=stored.ended,
    )


def _record(row: _RecordRow, owners: Sequence[Owner]) -> OwnershipRecord:
    places = row.owners
    if isinstance(places, int):
        places = [None if limit is None else places for limit in row.limits]
    is_set = [limit is not None for limit in row.limits]
    if not any(is_set) or is_set != [place is not None for place in places]:
        raise ValueError(f"{row!r} should have a number, and one owner for each number")
    columns = [None if place is None else owners[place] for place in places]
    return OwnershipRecord(read_key_columns(row.limits), read_key_columns(columns))


def _override(row: _OverrideRow) -> Override:
    return Override(
        entity=row.entity,
        key=row.key,
        value=row.value,
        until=row.until,
        author=row.author,
        reason=row.reason,
        document=row.document,
        before=_value(row.before),
        applied=_value(row.applied),
        declared=_value(row.declared),
        ends_with_document=row.ends_with_document,
    )


def _value(number: _Number) -> float | None:
    return None if number is None else float(number)
