"""The text forms of an entity. Each form has one name, one writer and at most one reader, all in this module.

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

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, cast
from urllib.parse import quote

from reconciler.base import bounded_json
from reconciler.base.escaping import escaped, quoted
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import (
    ENTITY_TYPES,
    Entity,
    EntityParts,
    Slot,
    entity,
    from_parts,
    parts,
)

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
