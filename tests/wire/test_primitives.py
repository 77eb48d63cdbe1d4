import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.primitives import WireReader, WireWriter
from reconciler.wire.varints import skip_tags

both_encodings = pytest.mark.parametrize("flexible", [True, False], ids=["flexible", "classic"])


def reader(octets: bytes, *, flexible: bool = True) -> WireReader:
    return WireReader(octets, flexible=flexible)


INTEGERS = [("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64)]


@pytest.mark.parametrize(("name", "bits"), INTEGERS)
def test_integers_are_read_back_at_their_limits(name: str, bits: int) -> None:
    for value in (-(2 ** (bits - 1)), -1, 0, 2 ** (bits - 1) - 1):
        writer = WireWriter(flexible=True)
        getattr(writer, name)(value)
        assert writer.to_bytes() == value.to_bytes(bits // 8, "big", signed=True)
        again = reader(writer.to_bytes())
        assert getattr(again, name)() == value
        again.end()


@pytest.mark.parametrize(("name", "bits"), INTEGERS)
def test_an_integer_out_of_range_is_rejected(name: str, bits: int) -> None:
    with pytest.raises(EncodeError, match=f"does not fit in an {name}"):
        getattr(WireWriter(flexible=True), name)(2 ** (bits - 1))


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "boolean", "float64", "uuid"])
def test_a_truncated_fixed_size_value_is_refused(name: str) -> None:
    with pytest.raises(DecodeError, match="0 are left") as caught:
        getattr(reader(b""), name)()
    assert caught.value.offset == 0


@given(st.floats(allow_nan=True))
def test_a_double_keeps_its_bits(value: float) -> None:
    writer = WireWriter(flexible=True)
    writer.float64(value)
    assert struct.pack(">d", reader(writer.to_bytes()).float64()) == struct.pack(">d", value)


def test_every_byte_but_zero_is_true() -> None:
    assert [reader(bytes((octet,))).boolean() for octet in (0, 1, 2, 255)] == [
        False,
        True,
        True,
        True,
    ]
    writer = WireWriter(flexible=True)
    writer.boolean(value=True)
    writer.boolean(value=False)
    assert writer.to_bytes() == b"\x01\x00"


def test_lone_surrogates_are_rejected() -> None:
    with pytest.raises(EncodeError, match="UTF-8"):
        WireWriter(flexible=True).string("a\ud800")


@pytest.mark.parametrize(
    ("octets", "flexible", "words"),
    [
        (b"\xff\xfe", False, "the length -2"),
        (b"\x00\x05abc", False, "needs 5 bytes, 3 are left"),
        (b"\x06abc", True, "needs 5 bytes, 3 are left"),
        (b"\x02\xff", True, "not UTF-8"),
        (b"\x00", True, "null where Kafka allows no null"),
        (b"\xff\xff", False, "null where Kafka allows no null"),
    ],
)
def test_an_impossible_string_is_refused(octets: bytes, flexible: bool, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        reader(octets, flexible=flexible).string()


@both_encodings
def test_a_null_byte_string_is_refused(flexible: bool) -> None:
    with pytest.raises(DecodeError, match="null"):
        reader(b"\x00" if flexible else b"\xff\xff\xff\xff", flexible=flexible).binary()


def test_a_count_larger_than_the_remaining_bytes_is_refused_before_reading_an_item() -> None:
    again = reader(b"\x7f\xff\xff\xff" + bytes(10), flexible=False)
    with pytest.raises(DecodeError, match="2147483647 items cannot fit in 10 bytes"):
        again.array(again.int8, least_size=1)


def test_tags_are_read_back_and_written_in_ascending_order() -> None:
    writer = WireWriter(flexible=True)
    writer.tags({5: b"five", 0: b""})
    assert writer.to_bytes() == b"\x02\x00\x00\x05\x04five"
    again = reader(writer.to_bytes())
    assert again.tags() == {0: b"", 5: b"five"}
    again.end()
    assert skip_tags(writer.to_bytes(), 0) == len(writer.to_bytes())


@pytest.mark.parametrize(
    ("octets", "words"),
    [(b"\x01\x05\x06abcde", "cut off|are left"), (b"\x01", "varint"), (b"\x01\x05", "varint")],
)
def test_a_tag_past_the_end_is_refused(octets: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        reader(octets).skip_tags()
    with pytest.raises(DecodeError, match=words):
        reader(octets).tags()


def test_a_repeated_tag_is_refused_where_tags_are_decoded() -> None:
    with pytest.raises(DecodeError, match="tag 1 occurs twice"):
        reader(b"\x02\x01\x00\x01\x00").tags()


def test_a_uuid_has_sixteen_bytes() -> None:
    octets = bytes(range(16))
    writer = WireWriter(flexible=True)
    writer.uuid(octets)
    assert reader(writer.to_bytes()).uuid() == octets
    with pytest.raises(EncodeError, match="16 bytes, not 3"):
        writer.uuid(b"abc")


def test_trailing_bytes_are_refused() -> None:
    again = reader(b"\x01\x02")
    assert again.int8() == 1
    with pytest.raises(DecodeError, match="1 bytes are left over") as caught:
        again.end()
    assert caught.value.offset == again.offset == 1
