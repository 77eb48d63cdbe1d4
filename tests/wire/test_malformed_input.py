"""Bad input, row by row: messages of a hostile or broken peer are refused at once, with an explanation.

Peers accept some of these, crash on others, or take quadratic time. A wrong reading of a describe response makes a
wrong plan, so nothing is guessed.
"""

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest

from reconciler.errors import DecodeError, FrameTooLarge, KquotaError, ProtocolError, TooManyItems
from reconciler.wire import frames
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    APIS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.frames import FrameBuffer
from reconciler.wire.messages import (
    alter_client_quotas,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
    sasl_handshake,
)
from reconciler.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from reconciler.wire.varints import encode_varint
from tests.wire.samples import LAYOUT

HEAD = b"\x00\x00\x00\x00\x00\x00"  # no throttle, no error
V0, V1 = HEAD + b"\xff\xff", HEAD + b"\x00"  # and no message

USER0 = b"\x00\x04user\x00\x01u"
USER1 = b"\x05user\x02u\x00"
RATE0 = b"\x00\x12producer_byte_rate" + bytes(8)
RATE1 = b"\x13producer_byte_rate" + bytes(8) + b"\x00"
ENTRY0 = b"\x00\x00\x00\x01" + USER0 + b"\x00\x00\x00\x01" + RATE0
ENTRY1 = b"\x02" + USER1 + b"\x02" + RATE1 + b"\x00"


def v0(entries: bytes) -> Callable[[], DescribeClientQuotasResponse]:
    return lambda: describe_client_quotas.decode_response(0, V0 + entries, LAYOUT)


def v1(entries: bytes) -> Callable[[], DescribeClientQuotasResponse]:
    return lambda: describe_client_quotas.decode_response(1, V1 + entries, LAYOUT)


def size(octets: str) -> Callable[[], int]:
    return lambda: frames.frame_size(bytes.fromhex(octets))


REFUSED: list[tuple[str, Callable[[], object], type[KquotaError], str]] = [
    ("frame size negative", size("ffffffff"), ProtocolError, "a frame of -1 bytes"),
    ("frame size over the limit", size("7fffffff"), FrameTooLarge, "limit is 33554432"),
    ("frame size 0", size("00000000"), ProtocolError, "a frame of 0 bytes"),
    ("frame size 3", size("00000003"), ProtocolError, "a frame of 3 bytes"),
    ("body cut in an entry", v1(b"\x02" + ENTRY1[:20]), DecodeError, "left|ends|fit"),
    ("body cut before the tags", v1(b"\x02" + ENTRY1), DecodeError, "ends inside a varint"),
    ("body cut, v0", v0(b"\x00\x00\x00\x01" + ENTRY0[:20]), DecodeError, "left|fit"),
    ("2^31-1 entries, no bytes, v0", v0(b"\x7f\xff\xff\xff"), DecodeError, "cannot fit"),
    ("2^31-2 entries, no bytes", v1(b"\xff\xff\xff\xff\x07"), DecodeError, "cannot fit"),
    ("2^32-1 entries", v1(b"\xff\xff\xff\xff\x0f"), DecodeError, r"above 2\^31"),
    ("2^35 entries", v1(b"\xff\xff\xff\xff\xff\x01"), DecodeError, "five bytes"),
    ("array length -2, v0", v0(b"\xff\xff\xff\xfe"), DecodeError, "the length -2"),
    (
        "string length -2, v0",
        v0(b"\x00\x00\x00\x01\x00\x00\x00\x01\xff\xfe" + bytes(20)),
        DecodeError,
        "the length -2",
    ),
    ("varint of six bytes", v1(b"\x80\x80\x80\x80\x80\x01"), DecodeError, "five bytes"),
    ("null type", v1(b"\x02\x02\x00" + bytes(20)), DecodeError, "null where"),
    ("null key", v1(b"\x02\x02" + USER1 + b"\x02\x00" + bytes(20)), DecodeError, "null where"),
    ("null entity", v1(b"\x02\x00\x01\x00\x00"), DecodeError, "an array is null"),
    ("null values", v1(b"\x02\x02" + USER1 + b"\x00\x00\x00"), DecodeError, "an array is null"),
    (
        "null entity, v0",
        v0(b"\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00"),
        DecodeError,
        "an array is null",
    ),
    (
        "bad UTF-8",
        v1(b"\x02" + ENTRY1.replace(b"\x02u\x00", b"\x02\xff\x00") + b"\x00"),
        DecodeError,
        "not UTF-8",
    ),
    (
        "tag size past the end",
        v1(b"\x02" + ENTRY1[:-1] + b"\x01\x07\x7f\x00"),
        DecodeError,
        "cut off",
    ),
    ("one byte left over", v1(b"\x02" + ENTRY1 + b"\x00\x00"), DecodeError, "1 bytes are left"),
    ("one byte left over, v0", v0(b"\x00\x00\x00\x01" + ENTRY0 + b"\x00"), DecodeError, "left"),
    ("the same entity twice", v1(b"\x03" + ENTRY1 * 2 + b"\x00"), DecodeError, "occurs twice"),
    (
        "the same type twice",
        v1(b"\x02\x03" + USER1 * 2 + b"\x02" + RATE1 + b"\x00\x00"),
        DecodeError,
        "the same type twice",
    ),
    (
        "the same key twice",
        v1(b"\x02\x02" + USER1 + b"\x03" + RATE1 * 2 + b"\x00\x00"),
        DecodeError,
        "the same key twice",
    ),
    ("no component", v1(b"\x02\x01\x02" + RATE1 + b"\x00\x00"), DecodeError, "no component"),
    ("no entries and no error", v1(b"\x00\x00"), DecodeError, "has no entries"),
    ("no entries and no error, v0", v0(b"\xff\xff\xff\xff"), DecodeError, "has no entries"),
    (
        "alter results, hostile count",
        lambda: alter_client_quotas.decode_response(1, bytes(4) + b"\xff\xff\xff\xff\x07"),
        DecodeError,
        "cannot fit",
    ),
]


@pytest.mark.parametrize(
    ("action", "error", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_malformed_input_is_refused_with_a_message(
    action: Callable[[], object], error: type[KquotaError], words: str
) -> None:
    with pytest.raises(error, match=words):
        action()


def test_the_samples_of_malformed_input_are_valid_before_their_mutation() -> None:
    expected = {("u", False, False): (0.0, None, None, None, None)}
    assert v1(b"\x02" + ENTRY1 + b"\x00")().entries == expected
    assert v0(b"\x00\x00\x00\x01" + ENTRY0)().entries == expected


def test_an_overlong_varint_is_accepted_as_by_java() -> None:
    assert len(v1(b"\x82\x80\x00" + ENTRY1 + b"\x00")().entries) == 1


def test_an_unknown_tag_is_skipped_everywhere() -> None:
    tag = b"\x01\x63\x02zz"
    user, rate = b"\x05user\x02u" + tag, RATE1[:-1] + tag
    body = b"\x02\x02" + user + b"\x02" + rate + tag + tag
    assert list(v1(body)().entries) == [("u", False, False)]


def test_an_unknown_error_code_keeps_its_number() -> None:
    body = b"\x00\x00\x00\x00\x7f\xff\x00\x00\x00"
    assert describe_client_quotas.decode_response(1, body, LAYOUT).error_code == 32767


@pytest.mark.parametrize("bits", ["7ff8000000000000", "7ff0000000000000", "fff0000000000000"])
def test_nan_and_infinities_are_decoded_unchanged(bits: str) -> None:
    entry = ENTRY1.replace(b"rate" + bytes(8), b"rate" + bytes.fromhex(bits))
    (row,) = v1(b"\x02" + entry + b"\x00")().entries.values()
    assert repr(row[0]) in ("nan", "inf", "-inf")


def tagged(entries: int, tags: int) -> bytes:
    """Entries with many unknown tags each, which one peer reads in quadratic time."""
    tag = b"\x63\x00" * tags
    body = b"".join(
        b"\x02\x05user\x07%06d\x00" % number + b"\x02" + RATE1 + encode_varint(tags) + tag
        for number in range(entries)
    )
    return V1 + encode_varint(entries + 1) + body + b"\x00"


def seconds(body: bytes) -> float:
    begin = time.process_time()
    describe_client_quotas.decode_response(1, body, LAYOUT)
    return time.process_time() - begin


def test_unknown_tags_are_skipped_in_linear_time() -> None:
    small, large = tagged(200, 20), tagged(1600, 20)
    cost = min(seconds(small) for _ in range(3)), min(seconds(large) for _ in range(3))
    assert cost[1] < cost[0] * 8 * 3


HOSTILE: list[tuple[str, bytes]] = [
    ("noise", bytes(range(256)) * 100),
    ("zeros", V1 + b"\xff\xff\x01" + bytes(33_000)),
    ("many empty values", V1 + b"\x02\x02" + USER1 + b"\xff\x7f" + bytes(170_000)),
    ("many empty parts", V1 + b"\x02\x81\x4e" + b"\x01\x01\x00" * 10_000),
    ("many values", V1 + b"\x02\x02" + USER1 + encode_varint(2_001) + RATE1 * 2_000 + b"\x00\x00"),
    ("many empty results", bytes(4) + b"\x91\x4e" + b"\x00\x00\x00\x01\x00" * 10_000 + b"\x00"),
    ("many empty alterations", b"\x91\x4e" + b"\x01\x01\x00" * 10_000 + b"\x00\x00"),
    ("many tags", tagged(200, 100)),
    ("usual", tagged(1000, 0)),
    ("huge counts", V1 + b"\xff\xff\xff\xff\x07" + b"\xff" * 30_000),
    ("long varints", V1 + b"\x02\x02" + b"\xff" * 30_000),
]


@pytest.mark.parametrize(("what", "body"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_a_body_of_n_bytes_allocates_no_more_than_a_multiple_of_n(what: str, body: bytes) -> None:
    assert len(body) > 20_000, what
    tracemalloc.start()
    try:
        for decode in (
            lambda: describe_client_quotas.decode_response(0, body, LAYOUT),
            lambda: describe_client_quotas.decode_response(1, body, LAYOUT),
            lambda: alter_client_quotas.decode_response(1, body),
            lambda: alter_client_quotas.decode_request(1, body),
        ):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(DecodeError):
                decode()
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 40 * len(body)
    finally:
        tracemalloc.stop()


def test_nothing_is_allocated_for_a_frame_that_is_too_large() -> None:
    tracemalloc.start()
    try:
        buffer = FrameBuffer(limit=1000)
        before = tracemalloc.get_traced_memory()[0]
        assert buffer.feed(b"\x7f\xff\xff\xff") == []
        assert tracemalloc.get_traced_memory()[1] - before < 100_000
    finally:
        tracemalloc.stop()
    assert isinstance(buffer.failure, FrameTooLarge)


TABLE: list[tuple[KafkaApi, int, Callable[[int, bytes], object], bytes, bytes]] = [
    (METADATA, 9, metadata.decode_response, bytes(4), b"\x00\x00\x00\x00\x01" + bytes(5) + b"\x00"),
    (
        DESCRIBE_CLUSTER,
        0,
        describe_cluster.decode_response,
        bytes(7) + b"\x02c" + bytes(4),
        bytes(12),
    ),
    (DESCRIBE_CONFIGS, 1, describe_configs.decode_response, bytes(4), bytes(11)),
    (API_VERSIONS, 0, api_versions.decode_response, bytes(2), bytes(6)),
    (SASL_HANDSHAKE, 1, sasl_handshake.decode_response, bytes(2), bytes(2)),
    (ALTER_CLIENT_QUOTAS, 1, alter_client_quotas.decode_response, bytes(4), bytes(5)),
    (
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        describe_user_scram_credentials.decode_response,
        bytes(7),
        bytes(6),
    ),
    (
        DESCRIBE_CLIENT_QUOTAS,
        1,
        partial(describe_client_quotas.decode_response, layout=LAYOUT),
        V1,
        bytes(3),
    ),
]
"""API, version, decoder, the bytes before its first array, and bytes no shorter than its smallest item."""


@pytest.mark.parametrize("row", TABLE, ids=[row[0].name for row in TABLE])
def test_a_response_with_one_item_too_many_is_refused_before_the_first_is_read(
    row: tuple[KafkaApi, int, Callable[[int, bytes], object], bytes, bytes],
) -> None:
    api, version, decode, head, item = row

    def body_of(count: int) -> bytes:
        length = encode_varint(count + 1) if api.is_flexible(version) else count.to_bytes(4, "big")
        return head + length + item * count

    with contextlib.suppress(DecodeError):
        decode(version, body_of(api.answer_items))
    body = body_of(api.answer_items + 1)
    tracemalloc.start()
    try:
        with pytest.raises(TooManyItems):
            decode(version, body)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_every_api_with_arrays_is_in_the_table_of_limits() -> None:
    assert {row[0] for row in TABLE} == {*APIS} - {SASL_AUTHENTICATE}


def test_an_entry_with_a_thousand_components_and_values_is_refused() -> None:
    values = b"".join(b"\x03%02x" % index + bytes(9) for index in range(256)) * 4
    body = V1 + b"\x02\x02" + USER1 + encode_varint(1025) + values + b"\x00\x00"
    with pytest.raises(TooManyItems, match="more than the message may hold"):
        describe_client_quotas.decode_response(1, body, LAYOUT)


def test_tags_are_counted_before_they_are_read() -> None:
    tags = encode_varint(30_000) + b"\x05\x00" * 30_000
    with pytest.raises(TooManyItems):
        api_versions.decode_response(3, bytes(2) + b"\x01" + bytes(4) + tags)


def test_the_maximum_number_of_entities_is_configurable() -> None:
    body = V1 + b"\x03" + ENTRY1 + ENTRY1 + b"\x00"
    with pytest.raises(TooManyItems, match="holds 2 entities, the limit is 1") as caught:
        describe_client_quotas.decode_response(1, body, LAYOUT, most_entities=1)
    assert "receive.max.entities" in caught.value.hint
