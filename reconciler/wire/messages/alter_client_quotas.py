"""AlterClientQuotas (key 49), versions 0 and 1 (KIP-546): values to set and remove, results per entity.

The response has no error for the whole request and no defined order: match results by entity. Entries are encoded
one by one and joined afterwards, so that a caller can split requests by size without encoding twice.
"""

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from reconciler.errors import EncodeError
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS
from reconciler.wire.messages.entry_layout import Part, read_parts, write_parts
from reconciler.wire.primitives import encode_string, encode_string_length
from reconciler.wire.varints import encode_varint

Operation: TypeAlias = tuple[str, float | None]
"""A key and its new value; None removes it (0.0 is sent then, as the Java client does)."""

Alteration: TypeAlias = tuple[tuple[Part, ...], tuple[Operation, ...]]
"""An entity's components, and its operations."""

Entry: TypeAlias = tuple[bytes, bytes]
"""An encoded alteration: its components and its operations."""

K = TypeVar("K")
V = TypeVar("V")

Result: TypeAlias = tuple[tuple[Part, ...], int, str | None]
"""An entity's components sorted by type, its error code, and the broker's message."""

_FLOAT64: Final = struct.Struct(">d")
_ZERO: Final = bytes(8)
_THROTTLE_BYTES: Final = 4


class AlterClientQuotasRequest(Struct, frozen=True):
    """A request; with ``validate_only`` nothing is changed."""

    alterations: tuple[Alteration, ...]
    validate_only: bool


class AlterClientQuotasResponse(Struct, frozen=True):
    """One result per entity, in the broker's order."""

    throttle_time_ms: int
    results: tuple[Result, ...]


def encode_entries(version: int, alterations: Iterable[Alteration]) -> list[Entry]:
    """Return one encoded entry per alteration, for ``join_entries``.

    The bytes between two variable parts (names and numbers) are constant for each type, key and length, so they are
    computed once and then looked up.

    Raises:
        EncodeError: A name or key has more than 32,767 bytes or cannot be UTF-8.
    """
    lookup = _ConstantBytes(flexible=ALTER_CLIENT_QUOTAS.is_flexible(version))
    next_part, after_set, after_removal = lookup.next_part, lookup.after_set, lookup.after_removal
    first_part, first_operation, last = lookup.first_part, lookup.first_operation, lookup.last
    last_part, nothing = lookup.last_part, lookup.nothing
    number, join = _FLOAT64.pack, b"".join
    entries: list[Entry] = []
    try:
        for parts, operations in alterations:
            pieces: list[bytes] = []
            append = pieces.append  # bound once: this runs for every piece of every entry
            by_type = first_part[len(parts)]
            for entity_type, name in parts:
                if name is None:
                    append(by_type[entity_type][None])
                else:
                    text = name.encode()
                    append(by_type[entity_type][len(text)])
                    append(text)
                by_type = next_part
            append(last_part if parts else nothing)
            entity = join(pieces)
            pieces.clear()
            by_key = first_operation[len(operations)]
            for key, value in operations:
                append(by_key[key])
                if value is None:
                    append(_ZERO)
                    by_key = after_removal
                else:
                    append(number(value))
                    by_key = after_set
            append(last[by_key is after_removal] if operations else nothing + last_part)
            entries.append((entity, join(pieces)))
    except UnicodeEncodeError as error:
        raise EncodeError(
            f"{str(error.object)[:40]!a} cannot be written as UTF-8: {error.reason}"
        ) from error
    return entries


class _LazyTable(dict[K, V]):
    """A table whose cells are computed at the first lookup."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        cell = self[key] = self._make(key)
        return cell


_ByType: TypeAlias = _LazyTable[str, _LazyTable[int | None, bytes]]
_ByKey: TypeAlias = _LazyTable[str, bytes]


class _ConstantBytes:
    """The constant bytes between names and numbers, in one of the two encodings.

    Attributes:
        first_part: By the number of components, by type, by length of the name (None for null).
        next_part: Between one name and the next, by type, by length of the next name.
        last_part: After the last name.
        first_operation: By the number of operations, by key: to the first number.
        after_set: From a number that is set to the next number, by the key of the next.
        after_removal: From a number that is removed to the next number, by the key of the next.
        last: From the last number to the end of the entry, by whether it is removed.
        nothing: An array without items.
    """

    def __init__(self, *, flexible: bool) -> None:
        self._flexible = flexible
        self.nothing = _count(0, flexible=flexible)
        self.last_part = tags = b"\x00" if flexible else b""
        self.first_part = _LazyTable[int, _ByType](
            lambda count: self._by_type(_count(count, flexible=flexible))
        )
        self.next_part = self._by_type(tags)
        self.first_operation = _LazyTable[int, _ByKey](
            lambda count: self._by_key(_count(count, flexible=flexible))
        )
        self.after_set = self._by_key(b"\x00" + tags)
        self.after_removal = self._by_key(b"\x01" + tags)
        self.last = (b"\x00" + tags + tags, b"\x01" + tags + tags)

    def _by_key(self, before: bytes) -> _ByKey:
        return _LazyTable(lambda key: before + encode_string(key, flexible=self._flexible))

    def _by_type(self, before: bytes) -> _ByType:
        def by_length(entity_type: str) -> _LazyTable[int | None, bytes]:
            start = before + encode_string(entity_type, flexible=self._flexible)
            return _LazyTable(
                lambda length: start + encode_string_length(length, flexible=self._flexible)
            )

        return _LazyTable(by_length)


def _count(count: int, *, flexible: bool) -> bytes:
    return encode_varint(count + 1) if flexible else count.to_bytes(4, "big")


def join_entries(version: int, entries: Sequence[Entry], *, validate_only: bool) -> bytes:
    """Encode the body of a request with these entries.

    Raises:
        EncodeError: There are no entries: an empty request is answered without any result, so that a failure of the
            whole request could not be detected.
    """
    if not entries:
        raise EncodeError("a request without entries would be answered without a result")
    flexible = ALTER_CLIENT_QUOTAS.is_flexible(version)
    last = bytes((validate_only,)) + (b"\x00" if flexible else b"")
    pieces = itertools.chain.from_iterable(entries)
    return b"".join((_count(len(entries), flexible=flexible), *pieces, last))


def encode_request(
    version: int, alterations: Iterable[Alteration], *, validate_only: bool
) -> bytes:
    """Encode the body of a request.

    Raises:
        EncodeError: As in ``encode_entries`` and ``join_entries``.
    """
    return join_entries(version, encode_entries(version, alterations), validate_only=validate_only)


def decode_request(version: int, body: bytes) -> AlterClientQuotasRequest:
    """Decode a request body; the value of a removal is ignored, as in brokers."""
    reader = ALTER_CLIENT_QUOTAS.request_reader(version, body)

    def read_operation() -> Operation:
        key, value, is_removed = reader.string(), reader.float64(), reader.boolean()
        return key, None if is_removed else value

    def read_alteration() -> Alteration:
        return read_parts(reader), reader.structures(read_operation, least_size=11)

    return reader.complete(
        AlterClientQuotasRequest(
            alterations=reader.structures(read_alteration, least_size=3),
            validate_only=reader.boolean(),
        )
    )


def encode_response(version: int, *, results: Iterable[Result], throttle_time_ms: int = 0) -> bytes:
    """Encode the body of a response."""
    writer = ALTER_CLIENT_QUOTAS.writer(version)

    def write_result(result: Result) -> None:
        parts, error_code, error_message = result
        writer.int16(error_code)
        writer.nullable_string(error_message)
        write_parts(writer, parts)

    writer.int32(throttle_time_ms)
    writer.structures(results, write_result)
    return writer.complete()


def decode_response(version: int, body: bytes) -> AlterClientQuotasResponse:
    """Decode a response body."""
    reader = ALTER_CLIENT_QUOTAS.answer_reader(version, body)

    def read_result() -> Result:
        error_code, error_message = reader.int16(), reader.nullable_string()
        return tuple(sorted(read_parts(reader), key=itemgetter(0))), error_code, error_message

    return reader.complete(
        AlterClientQuotasResponse(
            throttle_time_ms=reader.int32(), results=reader.structures(read_result, least_size=5)
        )
    )


def is_plain_success(version: int, body: bytes, entries: Sequence[Entry]) -> bool:
    """Whether a response has no error for each of these different entities of a request, in any order, and no other byte.

    It compares bytes and decodes nothing. False proves nothing: the components of an entity may be in another order
    than in the request, or a name may look like the bytes between two results.
    """
    flexible = ALTER_CLIENT_QUOTAS.is_flexible(version)
    tags, null = (b"\x00", b"\x00") if flexible else (b"", b"\xff\xff")
    before = b"\x00\x00" + null  # error code and message
    head, tail = _count(len(entries), flexible=flexible) + before, tags + tags
    results = body[_THROTTLE_BYTES + len(head) : len(body) - len(tail)]
    # From the right, because the bytes of an entity end with those that begin the next result, and not the reverse.
    entities = results.rsplit(tags + before)
    return (
        body.startswith(head, _THROTTLE_BYTES)
        and body.endswith(tail)
        and set(entities) == {entity for entity, _ in entries}
        and len(entities) == len(entries)
    )
