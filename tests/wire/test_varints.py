"""Unsigned varints in Kafka's bytes; truncated and too large ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.varints import MAX_VARINT, encode_varint, read_varint, skip_tags


@given(st.integers(0, MAX_VARINT))
def test_a_varint_is_read_back(value: int) -> None:
    octets = encode_varint(value)
    assert read_varint(octets, 0) == (value, len(octets))


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


@pytest.mark.parametrize("octets", ["8500", "8580808000"])
def test_an_overlong_varint_is_accepted_as_by_java(octets: str) -> None:
    assert read_varint(bytes.fromhex(octets), 0) == (5, len(octets) // 2)


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


@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200)), max_size=5), st.binary())
def test_tagged_fields_are_skipped_for_any_content(
    fields: list[tuple[int, bytes]], tail: bytes
) -> None:
    section = encode_varint(len(fields)) + b"".join(
        encode_varint(tag) + encode_varint(len(content)) + content for tag, content in fields
    )
    assert skip_tags(section + tail, 0) == len(section)
    for end in range(len(section)):
        with pytest.raises(DecodeError):
            skip_tags(section[:end], 0)
