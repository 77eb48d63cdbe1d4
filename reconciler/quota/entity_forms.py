"""The text forms of an entity: each has one name, one writer and, where it is read, one reader. No other module spells one.

===================  ==========================================  =====================================================
form                 example                                     where
===================  ==========================================  =====================================================
display text         ``user="a,b",client-id=<default>``          what people read and type; statuses; field ``text``
JSON                 ``[["user","a,b"],["client-id",null]]``     field ``entity`` of documents
canonical text       the same as text, without blanks            columns of evidence; equal entities have equal text
slots                ``["a,b",null,false]``                      ownership records
record key, name     slots and JSON with blanks                  hashed: parts of records, names of exported documents
key
sanitized text       ``{user=a%2Cb, client-id=<default>}``       Kafka's tools; a sanitized name: tags of brokers' metrics
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
"""How the default is written, as Kafka's own tools do."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PART: Final = re.compile(
    r'(?P<type>[^\s",=]+)=(?:(?P<default><default>)|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^",]+))(?:,|$)',
    re.DOTALL,
)


# ---- display text ----------------------------------------------------------------------------


@lru_cache(maxsize=64)  # rows about one entity follow one another
def entity_text(subject: Entity) -> str:
    """An entity as ``user=alice,client-id=<default>``; every odd name is quoted."""
    return parts_text(parts(subject))


def parts_text(entity_parts: EntityParts) -> str:
    """The same for entities of types that we do not know."""
    return ",".join(
        f"{escaped(kind)}={DEFAULT_TEXT if name is None else quoted(name)}"
        for kind, name in entity_parts
    )


def read_entity(text: str) -> Entity:
    """The entity that :func:`entity_text` wrote, or that a person typed in that form.

    Raises:
        QuotaValueError: The text is no such list, or the combination is illegal.
    """
    return from_parts(read_parts(text))


def read_parts(text: str) -> EntityParts:
    """The parts that :func:`parts_text` wrote, of any types.

    Raises:
        QuotaValueError: The text is no such list.
    """
    at, entity_parts = 0, list[tuple[str, str | None]]()
    while at < len(text) or not entity_parts:
        match = _PART.match(text, at)
        if match is None or (match.end() == len(text) and text.endswith(",")):
            raise QuotaValueError(
                f"{escaped(text[at:] or text)!r} is no entity; write it as user=alice,client-id=<default>"
                f" with the types {', '.join(ENTITY_TYPES)}; quote names that hold a comma or a quote"
            )
        at = match.end()
        if match["default"] is not None:
            entity_parts.append((match["type"], None))
        elif match["quoted"] is not None:
            entity_parts.append((match["type"], _ESCAPE.sub(_unescaped, match["quoted"])))
        else:
            entity_parts.append((match["type"], match["plain"]))
    return tuple(entity_parts)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return match[3]
    try:
        return chr(int(code, 16))
    except (OverflowError, ValueError) as error:
        raise QuotaValueError(f"\\U{code} is no character") from error


# ---- JSON ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # rows about one entity follow one another; no reader changes the lists
def entity_json(subject: Entity) -> list[list[str | None]]:
    """An entity as ``[["user", "alice"], ["client-id", null]]``: ``null`` is the default, nothing else is."""
    return [[kind, name] for kind, name in parts(subject)]


def read_json_parts(value: object) -> EntityParts:
    """The parts in that JSON, of any types.

    Raises:
        QuotaValueError: The value is no array of pairs of a type and a name.
    """
    if not isinstance(value, list):
        raise QuotaValueError(f"{value!r} is no array of types and names")
    return tuple(map(read_json_part, cast("list[object]", value)))


def read_json_part(value: object) -> tuple[str, str | None]:
    """One part in that JSON.

    Raises:
        QuotaValueError: The value is no pair of a type and a name.
    """
    match value:
        case [str() as kind, (str() | None) as name]:
            return kind, name
        case _:
            raise QuotaValueError(f'{value!r} is no pair such as ["user", "alice"]')


def canonical_text(subject: Entity | None) -> str:
    """``[["user","alice"],["client-id",null]]``, pure ASCII; ``None`` = no entity = ""."""
    return "" if subject is None else canonical_parts_text(parts(subject))


def canonical_parts_text(entity_parts: Iterable[tuple[str, str | None]]) -> str:
    """The same for parts in their order, which may be of types that we do not know."""
    return json.dumps(list(entity_parts), separators=(",", ":"))


def read_canonical(text: str) -> Entity:
    """The entity of a :func:`canonical_text` with types that we know.

    Raises:
        QuotaValueError: The text is no such JSON, or the combination is illegal.
    """
    return from_parts(read_canonical_parts(text))


def read_canonical_parts(text: str) -> EntityParts:
    """The parts of a :func:`canonical_parts_text`, of any types.

    Raises:
        QuotaValueError: The text is no such JSON.
    """
    try:
        value: object = bounded_json.parse(text, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson as error:
        raise QuotaValueError(f"no entity in JSON: {error}") from None
    return read_json_parts(value)


def name_key(subject: Entity) -> bytes:
    """What the name of an exported document is hashed from; names that exist depend on each blank of it."""
    return json.dumps(parts(subject)).encode("ascii")


# ---- slots -----------------------------------------------------------------------------------


def entity_slots(subject: Entity) -> list[Slot]:
    """``[user, client-id, ip]``: a name, ``null`` for the default, ``false`` where absent."""
    return list(subject)


def read_slots(slots: Sequence[object]) -> Entity:
    """The entity of :func:`entity_slots`.

    Raises:
        QuotaValueError: The slots are not three names, nulls or falses, or the combination is illegal.
    """
    if len(slots) != len(ENTITY_TYPES):
        raise QuotaValueError(f"{slots!r} should be {len(ENTITY_TYPES)} slots of an entity")
    for slot in slots:
        if not (slot is None or slot is False or isinstance(slot, str)):
            raise QuotaValueError(f"{slot!r} is no name, null or false")
    user, client_id, ip = cast("Sequence[Slot]", slots)
    return entity(user=user, client_id=client_id, ip=ip)


def record_key(subject: Entity) -> bytes:
    """What decides in which part of the records an entity is filed; the same for all time, each blank of it."""
    return json.dumps(entity_slots(subject)).encode("ascii")


# ---- Kafka's Sanitizer -----------------------------------------------------------------------


def sanitized(name: str) -> str:
    """A name as org.apache.kafka.common.utils.Sanitizer writes it: URL encoding with ``%20``, ``%2A`` and ``%7E``."""
    return quote(name, safe="-_.", errors="replace").replace("~", "%7E")


def sanitized_text(entity_parts: Iterable[tuple[str, str | None]]) -> str:
    """``{user=user-one, client-id=<default>}``; a user of that very name is ``%3Cdefault%3E``."""
    names = ", ".join(
        f"{sanitized(kind)}={DEFAULT_TEXT if name is None else sanitized(name)}"
        for kind, name in entity_parts
    )
    return f"{{{names}}}"
