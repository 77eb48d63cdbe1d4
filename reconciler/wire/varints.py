"""Unsigned varints, and the sections of tagged fields that consist of them (KIP-482).

Limits are Kafka's own (``org.apache.kafka.common.utils.ByteUtils`` at 4.4.0): at most five bytes, at most 2^31 - 1.
"""

from typing import Final

from reconciler.errors import DecodeError, EncodeError

MAX_VARINT: Final = 2**31 - 1
"""Largest length or tag: Java reads an unsigned varint into an int and refuses negative ones."""

MAX_VARINT_BYTES: Final = 5

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
"""The encoding of the small numbers, which nearly all lengths are."""


def read_varint(body: bytes | bytearray, offset: int) -> tuple[int, int]:
    """Return the unsigned varint at ``offset`` and the offset after it.

    Over-long forms of small numbers are accepted, as in Java.

    Raises:
        DecodeError: It is truncated, longer than five bytes or above 2^31 - 1.
    """
    value = 0
    for index in range(MAX_VARINT_BYTES):
        if offset + index >= len(body):
            raise DecodeError("the body ends inside a varint", offset=offset)
        octet = body[offset + index]
        value |= (octet & 0x7F) << (7 * index)
        if octet < 0x80:
            if value > MAX_VARINT:
                raise DecodeError(f"the varint {value} is above 2^31 - 1", offset=offset)
            return value, offset + index + 1
    raise DecodeError("a varint has more than five bytes", offset=offset)


def skip_tags(body: bytes | bytearray, offset: int) -> int:
    """Return the offset after a section of tagged fields, whatever their content.

    Raises:
        DecodeError: A field announces more bytes than remain.
    """
    count, offset = read_varint(body, offset)
    for _ in range(count):
        _, offset = read_varint(body, offset)
        size, start = read_varint(body, offset)
        if size > len(body) - start:
            raise DecodeError(f"a tagged field of {size} bytes is cut off", offset=offset)
        offset = start + size
    return offset


def encode_varint(value: int) -> bytes:
    """Encode ``value`` (0 to 2^31 - 1) in its shortest form.

    Raises:
        EncodeError: The value is out of range.
    """
    if 0 <= value <= 0x7F:
        return _ONE_BYTE[value]
    if not 0 <= value <= MAX_VARINT:
        raise EncodeError(f"{value} does not fit in a varint length")
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
