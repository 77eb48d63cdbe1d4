"""AlterClientQuotas (key 49), versions 0 and 1 (KIP-546): values to set and remove, results per entity.

There is no error for the whole and no order in the results: match them by entity. Entries are encoded one
by one and joined afterwards, so that a caller can cut requests by size without encoding anything twice.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from reconciler.errors import EncodeError
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS
from reconciler.wire.layout import Part
from reconciler.wire.primitives import Reader, Writer, encode_string, encode_varint

Operation: TypeAlias = tuple[str, float | None]
"""A key and its new value; None removes it (0.0 is sent then, as the Java client does)."""

Alteration: TypeAlias = tuple[tuple[Part, ...], tuple[Operation, ...]]
"""An entity's components, and its operations."""

Result: TypeAlias = tuple[tuple[Part, ...], int, str | None]
"""An entity's components sorted by type, its error code, and the broker's words."""

_COUNT: Final = struct.Struct(">i")
_CLASSIC_LENGTHS: Final = tuple(size.to_bytes(2, "big") for size in range(127))
_COMPACT_LENGTHS: Final = tuple(bytes((size + 1,)) for size in range(127))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks for; with ``validate_only`` nothing is changed."""

    alterations: tuple[Alteration, ...]
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """One result per entity that the broker answers for, in its order."""

    throttle_time_ms: int
    results: tuple[Result, ...]


def encode_entries(version: int, alterations: Iterable[Alteration]) -> list[bytes]:
    """One encoded entry per alteration, for ``join_entries``.

    Raises:
        EncodeError: if a name or key has more than 32,767 bytes or cannot be UTF-8.
    """
    flexible = ALTER_CLIENT_QUOTAS.is_flexible(version)
    lengths = _COMPACT_LENGTHS if flexible else _CLASSIC_LENGTHS
    null, end = (b"\x00", b"\x00") if flexible else (b"\xff\xff", b"")
    types: dict[str, bytes] = {}
    packers: dict[str, Callable[[float, bool], bytes]] = {}
    entries: list[bytes] = []
    for parts, operations in alterations:
        pieces = [_count(len(parts), flexible=flexible)]
        for entity_type, name in parts:
            prefix = types.get(entity_type)
            if prefix is None:
                prefix = types[entity_type] = encode_string(entity_type, flexible=flexible)
            if name is None:
                pieces += prefix, null, end
            elif len(name) < 127 and name.isascii():
                pieces += prefix, lengths[len(name)], name.encode(), end
            else:
                pieces += prefix, encode_string(name, flexible=flexible), end
        pieces.append(_count(len(operations), flexible=flexible))
        for key, value in operations:
            pack = packers.get(key)
            if pack is None:
                pack = packers[key] = _packer(key, flexible=flexible)
            pieces.append(pack(0.0 if value is None else value, value is None))
        pieces.append(end)
        entries.append(b"".join(pieces))
    return entries


def _packer(key: str, *, flexible: bool) -> Callable[[float, bool], bytes]:
    """Writes an operation on ``key``, given the value and whether it is removed."""
    prefix = encode_string(key, flexible=flexible)
    layout = struct.Struct(f">{len(prefix)}sd?x" if flexible else f">{len(prefix)}sd?")
    return partial(layout.pack, prefix)


def _count(count: int, *, flexible: bool) -> bytes:
    return encode_varint(count + 1) if flexible else _COUNT.pack(count)


def join_entries(version: int, entries: Sequence[bytes], *, validate_only: bool) -> bytes:
    """The body of a request with these entries.

    Raises:
        EncodeError: if there is none: an empty request is answered without any result, so that a
            failure of the whole could not be seen.
    """
    if not entries:
        raise EncodeError("a request without entries would be answered without a result")
    flexible = ALTER_CLIENT_QUOTAS.is_flexible(version)
    last = bytes((validate_only,)) + (b"\x00" if flexible else b"")
    return b"".join((_count(len(entries), flexible=flexible), *entries, last))


def encode_request(
    version: int, alterations: Iterable[Alteration], *, validate_only: bool
) -> bytes:
    """The body of a request.

    Raises:
        EncodeError: as ``encode_entries`` and ``join_entries`` do.
    """
    return join_entries(version, encode_entries(version, alterations), validate_only=validate_only)


def decode_request(version: int, body: bytes) -> Request:
    """The request in ``body``; the value of a removal is ignored, as brokers do."""
    reader = Reader(body, flexible=ALTER_CLIENT_QUOTAS.is_flexible(version))

    def read_operation() -> Operation:
        key, value, is_removed = reader.string(), reader.float64(), reader.boolean()
        reader.skip_tags()
        return key, None if is_removed else value

    def read_alteration() -> Alteration:
        parts = _read_parts(reader)
        operations = reader.array(read_operation, least_size=11)
        reader.skip_tags()
        return parts, operations

    request = Request(
        alterations=reader.array(read_alteration, least_size=3), validate_only=reader.boolean()
    )
    reader.skip_tags()
    reader.end()
    return request


def encode_response(version: int, *, results: Iterable[Result], throttle_time_ms: int = 0) -> bytes:
    """The body of an answer."""
    writer = Writer(flexible=ALTER_CLIENT_QUOTAS.is_flexible(version))

    def write_part(part: Part) -> None:
        writer.string(part[0])
        writer.nullable_string(part[1])
        writer.tags()

    def write_result(result: Result) -> None:
        parts, error_code, error_message = result
        writer.int16(error_code)
        writer.nullable_string(error_message)
        writer.array(parts, write_part)
        writer.tags()

    writer.int32(throttle_time_ms)
    writer.array(results, write_result)
    writer.tags()
    return writer.to_bytes()


def decode_response(version: int, body: bytes) -> Altered:
    """The answer in ``body``."""
    reader = Reader(body, flexible=ALTER_CLIENT_QUOTAS.is_flexible(version))

    def read_result() -> Result:
        error_code, error_message = reader.int16(), reader.nullable_string()
        parts = tuple(sorted(_read_parts(reader)))
        reader.skip_tags()
        return parts, error_code, error_message

    altered = Altered(
        throttle_time_ms=reader.int32(), results=reader.array(read_result, least_size=5)
    )
    reader.skip_tags()
    reader.end()
    return altered


def _read_parts(reader: Reader) -> tuple[Part, ...]:
    def read_part() -> Part:
        part = (reader.string(), reader.nullable_string())
        reader.skip_tags()
        return part

    return reader.array(read_part, least_size=3)
