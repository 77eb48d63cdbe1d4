"""Quota entities: user, client-id and ip, each absent, default or named; their identity, order and text forms.

An entity is a plain tuple ``(user, client_id, ip)`` behind a ``NewType``. A slot is a name (``str``),
``DEFAULT`` (``None``) or ``ABSENT`` (``False``). The literal name ``<default>``, the empty name and the
default are three different entities, as in Kafka.

Why not a class: CPython stops tracking exact tuples of atoms in its cyclic collector, but never instances
or tuple subclasses. With the 100,000 entities of a large cluster the difference is a factor of three in time.
``entity()`` builds and checks entities; only broker responses are cast without a check.

Each form of an entity has one name, one writer and at most one reader, all in this module:

===================  ==========================================  =====================================================
form                 example                                     where
===================  ==========================================  =====================================================
display text         ``user="a,b",client-id=<default>``          output and input of commands; statuses; field ``text``;
                                                                 a name is plain, ``<default>`` or a JSON string
JSON                 ``[["user","a,b"],["client-id",null]]``     field ``entity`` of documents
canonical text       the same as text, without blanks            columns of evidence; equal entities have equal text
slots                ``["a,b",null,false]``                      ownership records
record key, name     slots and JSON with blanks                  hashed: parts of records, names of exported documents
key
sanitized name       ``a%2Cb``                                   tags of brokers' metrics
===================  ==========================================  =====================================================

In every form the default, the literal name ``<default>`` and the empty name differ.
"""

import ipaddress
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NewType, TypeAlias, cast
from urllib.parse import quote

from reconciler.base import bounded_json
from reconciler.base.escaping import escaped, quoted
from reconciler.errors import QuotaValueError

# Not a class, and not open for other types: docs/adr/entity-representation.md.
DEFAULT: Final = None
ABSENT: Final = False

# Never test a slot for truth: the empty name, the default (None) and an absent slot (False) are three different
# slots. Use isinstance(slot, str), `is DEFAULT` or `is ABSENT`.
Slot: TypeAlias = str | Literal[False] | None
"""A name, ``DEFAULT`` or ``ABSENT``."""

Entity = NewType("Entity", tuple[Slot, Slot, Slot])
"""``(user, client_id, ip)``; hashable, equal by value. Build it with :func:`entity`."""

EntityParts: TypeAlias = tuple[tuple[str, str | None], ...]
"""``(type, name)`` of each part of an entity of any types, ``None`` for the default. KIP-546: the broker checks types."""

ENTITY_TYPES: Final = ("user", "client-id", "ip")
"""Kafka's names of the three slots, in the order of the tuple (org.apache.kafka.common.quota.ClientQuotaEntity)."""

MAX_NAME_BYTES: Final = 32_767
"""Longest name in UTF-8 bytes: a Kafka string has an int16 length."""

MAX_DECLARED_NAME_BYTES: Final = 512
"""Longest name in UTF-8 bytes that a document may declare. Longer names of live quotas are read and never declared.

Tenants choose names, and one operator serves all tenants, so their size has a bound. Distinguished names of
certificates rarely exceed 256 bytes; Kafka has no bound below :data:`MAX_NAME_BYTES`.
"""


_KIND: Final[dict[type, str]] = {str: "named", type(None): "default", bool: "absent"}

# Precedence of the eight user/client forms, closest first, then ip.
# Source: org.apache.kafka.server.quota.ClientQuotaManager (4.3), DefaultQuotaCallback.quotaLimit.
SHAPES: Final[dict[tuple[str, str, str], str]] = {
    ("named", "named", "absent"): "user + client-id",
    ("named", "default", "absent"): "user + default client-id",
    ("named", "absent", "absent"): "user",
    ("default", "named", "absent"): "default user + client-id",
    ("default", "default", "absent"): "default user + default client-id",
    ("default", "absent", "absent"): "default user",
    ("absent", "named", "absent"): "client-id",
    ("absent", "default", "absent"): "default client-id",
    ("absent", "absent", "named"): "ip",
    ("absent", "absent", "default"): "default ip",
}
"""Kinds of (user, client-id, ip) of each legal entity, in the order of its level, with the name of the level."""

LEVEL_NAMES: Final = dict(enumerate(SHAPES.values(), start=1))

_TYPE_OF: Final = {kind: slot_type for slot_type, kind in _KIND.items()}
_LEVEL_OF_TYPES: Final[dict[tuple[type, type, type], int]] = {
    (_TYPE_OF[user], _TYPE_OF[client_id], _TYPE_OF[ip]): number
    for number, (user, client_id, ip) in enumerate(SHAPES, start=1)
}
"""Levels by the types of the slots: a single lookup, because each sort calls it thousands of times."""


def entity(*, user: Slot = ABSENT, client_id: Slot = ABSENT, ip: Slot = ABSENT) -> Entity:
    """Return the entity with these slots.

    Raises:
        QuotaValueError: No slot is set, ip is combined with another slot, or a name is longer than a
            Kafka string (ClientQuotaControlManager.validateEntity, 4.3). Empty names are allowed here,
            because a live cluster may have them; manifests refuse them.
    """
    new_entity = Entity((user, client_id, ip))
    if kinds(new_entity) not in SHAPES:
        raise QuotaValueError(
            "an entity needs a user, a client-id or an ip"
            if new_entity == (ABSENT, ABSENT, ABSENT)
            else "ip cannot be combined with user or client-id"
        )
    for slot in new_entity:
        if isinstance(slot, str) and len(slot.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            raise QuotaValueError(
                f"a name of more than {MAX_NAME_BYTES} bytes does not fit into a Kafka string"
            )
    return new_entity


def kinds(subject: Entity) -> tuple[str, str, str]:
    """Return ``named``, ``default`` or ``absent`` for each slot."""
    user, client_id, ip = subject
    return _KIND[type(user)], _KIND[type(client_id)], _KIND[type(ip)]


def is_legal(subject: Entity) -> bool:
    """Whether the entity has one of the ten shapes of Kafka's quota managers."""
    return kinds(subject) in SHAPES


def level(subject: Entity) -> int:
    """Return 1 (closest) to 8 for user and client-id, 9 for a named ip, 10 for the default ip.

    Raises:
        KeyError: The shape is not legal; :func:`entity` never returns such a tuple.
    """
    user, client_id, ip = subject
    return _LEVEL_OF_TYPES[type(user), type(client_id), type(ip)]


@lru_cache(maxsize=16_384)  # the documents of a run are about the same entities
def parts(subject: Entity) -> EntityParts:
    """Return ``(type, name)`` of each slot that is present, name ``None`` for the default; in slot order."""
    user, client_id, ip = subject
    if ip is not ABSENT:  # also beside another slot, if a broker answers so
        named = zip(ENTITY_TYPES, subject, strict=True)
        return tuple((kind, slot) for kind, slot in named if slot is not ABSENT)
    if user is ABSENT:
        return () if client_id is ABSENT else (("client-id", client_id),)
    if client_id is ABSENT:
        return (("user", user),)
    return ("user", user), ("client-id", client_id)


def from_parts(entity_parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Build an entity from its parts; the inverse of :func:`parts`.

    Raises:
        QuotaValueError: A type is unknown or repeated, or the combination is illegal.
    """
    slots: dict[str, Slot] = {}
    for kind, name in entity_parts:
        if kind not in ENTITY_TYPES or kind in slots:
            raise QuotaValueError(
                f"entity type {kind!r} is {'given twice' if kind in slots else 'unknown'}"
            )
        slots[kind] = name
    return entity(
        user=slots.get("user", ABSENT),
        client_id=slots.get("client-id", ABSENT),
        ip=slots.get("ip", ABSENT),
    )


def sort_key(subject: Entity) -> tuple[int, str, str, str]:
    """Return the key of the total order: by level, then by names as code points."""
    user, client_id, ip = subject
    number = _LEVEL_OF_TYPES[type(user), type(client_id), type(ip)]
    return number, user or "", client_id or "", ip or ""


def canonical_address(text: str) -> str | None:
    """Return the canonical text of an address, IPv4-mapped addresses as IPv4; ``None`` if it is not a literal.

    A scope (``fe80::1%eth0``) is ignored, as in Inet6Address.equals. Texts that only Java reads as addresses, such as
    ``127.1`` and ``[::1]``, have none.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.IPv6Address(int(address)))


DEFAULT_TEXT: Final = "<default>"
"""Text of the default, as in Kafka's own tools."""

_PART: Final = re.compile(
    r'(?P<type>[^\s",=]+)=(?:(?P<default><default>)|(?P<json>"(?:[^"\\]|\\.)*")'
    r'|(?P<plain>(?![\s<])[^",\\\x00-\x1f\x7f]+(?<!\s)))(?:,|\Z)',
    re.DOTALL,
)


# ---- display text ----------------------------------------------------------------------------


@lru_cache(maxsize=16_384)  # the documents of a run are about the same entities
def entity_text(subject: Entity) -> str:
    """Return an entity as ``user=alice,client-id=<default>``; a name that is not plain is a JSON string."""
    return ",".join(
        [
            f"{kind}={DEFAULT_TEXT if name is None else quoted(name)}"
            for kind, name in parts(subject)
        ]
    )


def parts_text(entity_parts: EntityParts) -> str:
    """Return the same form for parts of any types."""
    return ",".join(
        f"{escaped(kind)}={DEFAULT_TEXT if name is None else quoted(name)}"
        for kind, name in entity_parts
    )


def read_entity(text: str) -> Entity:
    """Parse the form of :func:`entity_text`.

    Raises:
        QuotaValueError: The text does not have this form, or the combination is illegal.
    """
    return from_parts(read_parts(text))


def read_parts(text: str) -> EntityParts:
    """Parse the form of :func:`parts_text`, with parts of any types.

    Raises:
        QuotaValueError: The text does not have this form.
    """
    at, entity_parts = 0, list[tuple[str, str | None]]()
    while at < len(text) or not entity_parts:
        match = _PART.match(text, at)
        if match is None or (match.end() == len(text) and text.endswith(",")):
            raise QuotaValueError(
                f"'{escaped(text[at:] or text)}' is not an entity; write it as user=alice,client-id=<default>"
                f" with the types {', '.join(ENTITY_TYPES)}; a name that is empty, begins with <, or has a comma,"
                ' a quote, a backslash or outer blanks is a JSON string: user="CN=alice,O=Acme"'
            )
        at = match.end()
        name = match["plain"] if match["json"] is None else _json_name(match["json"])
        entity_parts.append((match["type"], name))
    return tuple(entity_parts)


def _json_name(text: str) -> str:
    try:
        name: str = bounded_json.parse(text, most_bytes=bounded_json.ANSWER)
        _ = name.encode(
            "utf-8"
        )  # JSON can escape half a character; Kafka's names cannot contain it
    except bounded_json.InvalidJson as error:
        raise QuotaValueError(f"{escaped(text)} is not a JSON string: {error}") from None
    except UnicodeEncodeError:
        raise QuotaValueError(f"{escaped(text)} has half of a surrogate pair") from None
    return name


# ---- JSON ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # rows about one entity follow one another; no reader changes the lists
def entity_json(subject: Entity) -> list[list[str | None]]:
    """Return an entity as ``[["user", "alice"], ["client-id", null]]``; only the default is ``null``."""
    return [[kind, name] for kind, name in parts(subject)]


def read_json_parts(value: object) -> EntityParts:
    """Parse the JSON form of :func:`entity_json`, with parts of any types.

    Raises:
        QuotaValueError: The value is not an array of pairs of a type and a name.
    """
    if not isinstance(value, list):
        raise QuotaValueError(f"{value!r} is not an array of types and names")
    return tuple(map(read_json_part, cast("list[object]", value)))


def read_json_part(value: object) -> tuple[str, str | None]:
    """Parse one part of the JSON form.

    Raises:
        QuotaValueError: The value is not a pair of a type and a name.
    """
    match value:
        case [str() as kind, (str() | None) as name]:
            return kind, name
        case _:
            raise QuotaValueError(f'{value!r} is not a pair such as ["user", "alice"]')


def canonical_text(subject: Entity | None) -> str:
    """Return ``[["user","alice"],["client-id",null]]`` in pure ASCII; "" for ``None`` (no entity)."""
    return "" if subject is None else canonical_parts_text(parts(subject))


def canonical_parts_text(entity_parts: Iterable[tuple[str, str | None]]) -> str:
    """Return the same form for parts in their order, which may have any types."""
    return json.dumps(list(entity_parts), separators=(",", ":"))


def read_canonical(text: str) -> Entity:
    """Parse a :func:`canonical_text`.

    Raises:
        QuotaValueError: The text is not this JSON, a type is unknown, or the combination is illegal.
    """
    return from_parts(read_canonical_parts(text))


def read_canonical_parts(text: str) -> EntityParts:
    """Parse a :func:`canonical_parts_text`, with parts of any types.

    Raises:
        QuotaValueError: The text is not this JSON.
    """
    try:
        value: object = bounded_json.parse(text, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson as error:
        raise QuotaValueError(f"no entity in JSON: {error}") from None
    return read_json_parts(value)


def name_key(subject: Entity) -> bytes:
    """Return the bytes whose hash is in the name of an exported document. Never change them, not even a blank."""
    return json.dumps(parts(subject)).encode("ascii")


# ---- slots -----------------------------------------------------------------------------------


def entity_slots(subject: Entity) -> list[Slot]:
    """Return ``[user, client-id, ip]``: a name, ``null`` for the default, ``false`` if absent."""
    return list(subject)


def read_slots(slots: Sequence[object]) -> Entity:
    """Parse the slots of :func:`entity_slots`.

    Raises:
        QuotaValueError: The slots are not three names, nulls or falses, or the combination is illegal.
    """
    if len(slots) != len(ENTITY_TYPES):
        raise QuotaValueError(f"{slots!r} should be {len(ENTITY_TYPES)} slots of an entity")
    for slot in slots:
        if not (slot is None or slot is False or isinstance(slot, str)):
            raise QuotaValueError(f"{slot!r} is not a name, null or false")
    user, client_id, ip = cast("Sequence[Slot]", slots)
    return entity(user=user, client_id=client_id, ip=ip)


def record_key(subject: Entity) -> bytes:
    """Return the bytes whose hash selects the part of the records for an entity. Never change them, not even a blank."""
    return json.dumps(entity_slots(subject)).encode("ascii")


# ---- Kafka's Sanitizer -----------------------------------------------------------------------


def sanitized(name: str) -> str:
    """Encode a name as org.apache.kafka.common.utils.Sanitizer does: URL encoding with ``%20``, ``%2A`` and ``%7E``."""
    return quote(name, safe="-_.", errors="replace").replace("~", "%7E")
