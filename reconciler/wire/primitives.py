"""The primitive types of the protocol, read and written, with their limits.

Two encodings exist (KIP-482). In *flexible* versions lengths are unsigned varints of length + 1 with
0 for null, and every structure ends in a section of tagged fields; in the older ones lengths are
int16 (strings) or int32 (bytes, arrays) with -1 for null, and there are no tags. A ``WireReader`` and a
``WireWriter`` are configured once with one of the two, so that a message module reads like its schema.

Limits are Kafka's own (``org.apache.kafka.common.protocol.ByteBufferAccessor``, ``ByteUtils`` and the
generated message classes at 4.4.0): strings have at most 32,767 bytes in either encoding, varints at
most five bytes. A count from the wire is accepted only if its items could fit in the remaining bytes
and all arrays of the message together have at most the items that the reader allows.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from reconciler.errors import DecodeError, EncodeError, TooManyItems
from reconciler.wire.varints import encode_varint, read_varint, skip_tags

T = TypeVar("T")

MAX_STRING_BYTES: Final = 32_767
"""Longest string that Kafka reads or writes; its classic length field is an int16."""

REQUEST_ITEMS: Final = 1_000_000
"""Maximum items of all arrays of one request; responses have lower limits (``apis``)."""

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FLOAT64: Final = struct.Struct(">d")


def encode_string_length(length: int | None, *, flexible: bool) -> bytes:
    """Encode the length field of a string of ``length`` bytes; None is null.

    Raises:
        EncodeError: The length is above Kafka's limit.
    """
    if length is None:
        return b"\x00" if flexible else b"\xff\xff"
    if length > MAX_STRING_BYTES:
        raise EncodeError(
            f"a string of {length} bytes cannot be sent: Kafka's limit is {MAX_STRING_BYTES} bytes"
        )
    return encode_varint(length + 1) if flexible else _INT16.pack(length)


def encode_string(value: str, *, flexible: bool) -> bytes:
    """Encode ``value`` as UTF-8 after its length.

    Raises:
        EncodeError: It has more than 32,767 bytes, or contains lone surrogates.
    """
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"{value[:40]!a} cannot be written as UTF-8: {error.reason}") from error
    return encode_string_length(len(text), flexible=flexible) + text


class WireReader:
    """A cursor over one message body, which validates everything it reads.

    Every method raises ``DecodeError`` with the offset if the bytes are invalid for its type.
    """

    __slots__ = ("_body", "_flexible", "_items", "_offset")

    def __init__(
        self, body: bytes, *, flexible: bool, offset: int = 0, items: int = REQUEST_ITEMS
    ) -> None:
        self._body = body
        self._flexible = flexible
        self._offset = offset
        self._items = items

    @property
    def offset(self) -> int:
        """Offset of the next byte."""
        return self._offset

    @property
    def remaining(self) -> int:
        """Number of bytes not read yet."""
        return len(self._body) - self._offset

    def _advance(self, size: int, field_name: str) -> int:
        start = self._offset
        end = start + size
        if end > len(self._body):
            raise DecodeError(
                f"{field_name} needs {size} bytes, {self.remaining} are left", offset=start
            )
        self._offset = end
        return start

    def int8(self) -> int:
        """Read a signed byte."""
        return int(_INT8.unpack_from(self._body, self._advance(1, "an int8"))[0])

    def int16(self) -> int:
        """Read a signed big-endian int16."""
        return int(_INT16.unpack_from(self._body, self._advance(2, "an int16"))[0])

    def int32(self) -> int:
        """Read a signed big-endian int32."""
        return int(_INT32.unpack_from(self._body, self._advance(4, "an int32"))[0])

    def int64(self) -> int:
        """Read a signed big-endian int64."""
        return int(_INT64.unpack_from(self._body, self._advance(8, "an int64"))[0])

    def boolean(self) -> bool:
        """Read one byte; everything except 0 is true, as in Java."""
        return self._body[self._advance(1, "a bool")] != 0

    def float64(self) -> float:
        """Read an IEEE-754 binary64; NaN and infinities are returned unchanged."""
        return float(_FLOAT64.unpack_from(self._body, self._advance(8, "a float64"))[0])

    def uuid(self) -> bytes:
        """Read sixteen bytes."""
        start = self._advance(16, "a uuid")
        return self._body[start : start + 16]

    def varint(self) -> int:
        """Read an unsigned varint of at most five bytes and at most 2^31 - 1."""
        start = self._offset
        if start < len(self._body) and (octet := self._body[start]) < 0x80:  # nearly always
            self._offset = start + 1
            return octet
        value, self._offset = read_varint(self._body, start)
        return value

    def _length(self, read_classic: Callable[[], int], field_name: str) -> int | None:
        """Read the length of a string, byte string or array; None is null."""
        start = self._offset
        length = self.varint() - 1 if self._flexible else read_classic()
        if length < -1:
            raise DecodeError(f"{field_name} has the length {length}", offset=start)
        return None if length == -1 else length

    def nullable_string(self) -> str | None:
        """Read a string or null."""
        start = self._offset
        length = self._length(self.int16, "a string")
        if length is None:
            return None
        if length > MAX_STRING_BYTES:
            raise DecodeError(f"a string of {length} bytes is above Kafka's limit", offset=start)
        begin = self._advance(length, "a string")
        try:
            return self._body[begin : self._offset].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"a string is not UTF-8: {error.reason}", offset=begin) from error

    def string(self) -> str:
        """Read a string that must not be null."""
        start = self._offset
        value = self.nullable_string()
        if value is None:
            raise DecodeError("a string is null where Kafka allows no null", offset=start)
        return value

    def binary(self) -> bytes:
        """Read a byte string that must not be null."""
        start = self._offset
        length = self._length(self.int32, "a byte string")
        if length is None:
            raise DecodeError("a byte string is null where Kafka allows no null", offset=start)
        begin = self._advance(length, "a byte string")
        return self._body[begin : begin + length]

    def nullable_count(self, *, least_size: int) -> int | None:
        """Read the number of items of an array, or None if it is null.

        Args:
            least_size: Bytes of the smallest item in either encoding; a count that cannot fit in the remaining bytes is
                refused before anything is allocated for it.
        """
        start = self._offset
        count = self._length(self.int32, "an array")
        if count is not None and count * least_size > self.remaining:
            raise DecodeError(
                f"an array of {count} items cannot fit in {self.remaining} bytes", offset=start
            )
        if count is not None:
            self._take_items(count, offset=start)
        return count

    def _take_items(self, count: int, *, offset: int) -> None:
        """Count items against the limit before anything is allocated for them."""
        self._items -= count
        if self._items < 0:
            raise TooManyItems(
                f"{-self._items} items more than the message may hold", offset=offset
            )

    def nullable_array(self, read: Callable[[], T], *, least_size: int) -> tuple[T, ...] | None:
        """Read an array, each item by ``read``; None if it is null."""
        count = self.nullable_count(least_size=least_size)
        return None if count is None else tuple([read() for _ in range(count)])

    def array(self, read: Callable[[], T], *, least_size: int) -> tuple[T, ...]:
        """Read an array that must not be null."""
        start = self._offset
        items = self.nullable_array(read, least_size=least_size)
        if items is None:
            raise DecodeError("an array is null where Kafka allows no null", offset=start)
        return items

    def skip_tags(self) -> None:
        """Skip the tagged fields that end a structure; do nothing in classic versions."""
        if self._flexible:
            start = self._offset
            if self._body[start : start + 1] == b"\x00":  # nearly always
                self._offset = start + 1
            else:
                self._offset = skip_tags(self._body, start)

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields by number; empty in classic versions.

        Raises:
            DecodeError: A tag occurs twice.
        """
        tagged_fields: dict[int, bytes] = {}
        if not self._flexible:
            return tagged_fields
        count = self.varint()
        self._take_items(count, offset=self._offset)
        for _ in range(count):
            start = self._offset
            tag, size = self.varint(), self.varint()
            begin = self._advance(size, "a tagged field")
            if tag in tagged_fields:
                raise DecodeError(f"the tag {tag} occurs twice", offset=start)
            tagged_fields[tag] = self._body[begin : begin + size]
        return tagged_fields

    def structure(self, value: T) -> T:
        """Return a structure that was read, after the tagged fields that end it."""
        self.skip_tags()
        return value

    def structures(self, read: Callable[[], T], *, least_size: int) -> tuple[T, ...]:
        """Read an array of structures, the fields of each by ``read``, that must not be null."""
        return self.array(lambda: self.structure(read()), least_size=least_size)

    def nullable_structures(
        self, read: Callable[[], T], *, least_size: int
    ) -> tuple[T, ...] | None:
        """Read an array of structures, the fields of each by ``read``; None if it is null."""
        return self.nullable_array(lambda: self.structure(read()), least_size=least_size)

    def complete(self, message: T) -> T:
        """Return a message that was read, after the tagged fields that end it and its last byte."""
        self.skip_tags()
        self.end()
        return message

    def end(self) -> None:
        """Check that no bytes are left over."""
        if self.remaining:
            raise DecodeError(f"{self.remaining} bytes are left over", offset=self._offset)


class WireWriter:
    """Collects the bytes of one message body.

    Methods raise ``EncodeError`` for a value outside the range of its wire type.
    """

    __slots__ = ("_flexible", "_written")

    def __init__(self, *, flexible: bool) -> None:
        self._flexible = flexible
        self._written = bytearray()

    def _pack(self, layout: struct.Struct, value: int, field_name: str) -> None:
        try:
            self._written += layout.pack(value)
        except struct.error as error:
            raise EncodeError(f"{value} does not fit in an {field_name}") from error

    def int8(self, value: int) -> None:
        """Write a signed byte."""
        self._pack(_INT8, value, "int8")

    def int16(self, value: int) -> None:
        """Write a signed big-endian int16."""
        self._pack(_INT16, value, "int16")

    def int32(self, value: int) -> None:
        """Write a signed big-endian int32."""
        self._pack(_INT32, value, "int32")

    def int64(self, value: int) -> None:
        """Write a signed big-endian int64."""
        self._pack(_INT64, value, "int64")

    def boolean(self, value: bool) -> None:  # noqa: FBT001 - a wire value, not a switch
        """Write one byte, 0 or 1."""
        self._written.append(1 if value else 0)

    def float64(self, value: float) -> None:
        """Write an IEEE-754 binary64."""
        self._written += _FLOAT64.pack(value)

    def uuid(self, value: bytes) -> None:
        """Write sixteen bytes."""
        if len(value) != 16:
            raise EncodeError(f"a uuid has 16 bytes, not {len(value)}")
        self._written += value

    def varint(self, value: int) -> None:
        """Write an unsigned varint."""
        self._written += encode_varint(value)

    def string(self, value: str) -> None:
        """Write a string."""
        self._written += encode_string(value, flexible=self._flexible)

    def nullable_string(self, value: str | None) -> None:
        """Write a string or null."""
        if value is None:
            self._written += encode_string_length(None, flexible=self._flexible)
        else:
            self.string(value)

    def binary(self, value: bytes) -> None:
        """Write a byte string."""
        self._count(len(value))
        self._written += value

    def _count(self, count: int) -> None:
        if self._flexible:
            self.varint(count + 1)
        else:
            self.int32(count)

    def array(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """Write an array; ``write`` writes one item."""
        item_list = tuple(items)
        self._count(len(item_list))
        for item in item_list:
            write(item)

    def nullable_array(self, items: Iterable[T] | None, write: Callable[[T], None]) -> None:
        """Write an array or null."""
        if items is None:
            self._written += b"\x00" if self._flexible else b"\xff\xff\xff\xff"
        else:
            self.array(items, write)

    def structures(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """Write an array of structures; ``write`` writes the fields of one."""

        def write_structure(item: T) -> None:
            write(item)
            self.tags()

        self.array(items, write_structure)

    def nullable_structures(self, items: Iterable[T] | None, write: Callable[[T], None]) -> None:
        """Write an array of structures, or null."""
        if items is None:
            self.nullable_array(None, write)
        else:
            self.structures(items, write)

    def complete(self) -> bytes:
        """Return the whole message, with the tagged fields that end it."""
        self.tags()
        return self.to_bytes()

    def tags(self, fields: Mapping[int, bytes] | None = None) -> None:
        """Write the tagged fields that end a structure, ascending; nothing in classic versions."""
        if not self._flexible:
            return
        fields = fields or {}
        self.varint(len(fields))
        for tag in sorted(fields):
            self.varint(tag)
            self.varint(len(fields[tag]))
            self._written += fields[tag]

    def to_bytes(self) -> bytes:
        """Return everything written so far."""
        return bytes(self._written)
