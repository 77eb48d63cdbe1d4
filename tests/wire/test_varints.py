"""Unsigned varints in Kafka's bytes; truncated and too large ones are refused."""

import pytest

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.varints import MAX_VARINT, encode_varint, read_varint


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (MAX_VARINT, "ffffffff07"),
    ],
)
def test_a_varint_is_encoded_as_by_kafka(value: int, octets: str) -> None:
    assert encode_varint(value).hex() == octets


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        ("", "ends inside a varint"),
        ("80", "ends inside a varint"),
        ("ffffffffff00", "more than five bytes"),
        ("ffffffff08", "above 2\\^31 - 1"),
    ],
)
def test_an_impossible_varint_is_refused(octets: str, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        read_varint(bytes.fromhex(octets), 0)


@pytest.mark.parametrize("value", [-1, MAX_VARINT + 1])
def test_a_length_too_large_for_a_varint_is_rejected(value: int) -> None:
    with pytest.raises(EncodeError, match="does not fit"):
        encode_varint(value)
