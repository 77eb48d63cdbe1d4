import pytest

from reconciler.errors import DecodeError, FrameTooLarge, ProtocolError
from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    SASL_HANDSHAKE,
)
from reconciler.wire.frames import (
    decode_request,
    encode_request,
    encode_response,
    frame_size,
    misconnect_hint,
    response_body,
)


def test_the_response_to_api_versions_never_has_tags_in_its_header() -> None:
    frame = encode_response(API_VERSIONS, 4, correlation_id=1, body=b"x")
    assert frame == b"\x00\x00\x00\x05\x00\x00\x00\x01x"


def test_the_client_id_is_encoded_classically_even_in_a_flexible_header() -> None:
    frame = encode_request(DESCRIBE_CLIENT_QUOTAS, 1, correlation_id=1, client_id="abc", body=b"")
    assert frame[12:] == b"\x00\x03abc\x00"


def test_an_unknown_api_is_refused_as_brokers_do() -> None:
    with pytest.raises(ProtocolError, match="unknown API key 12345"):
        decode_request(b"\x30\x39\x00\x00\x00\x00\x00\x01\xff\xff")


@pytest.mark.parametrize("frame", [b"", b"\x00\x11", b"\x00\x11\x00\x01\x00\x00\x00\x01\x00\x09ab"])
def test_a_truncated_request_header_is_refused(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request(frame)


def test_a_truncated_response_header_is_refused() -> None:
    with pytest.raises(DecodeError, match="too short"):
        response_body(SASL_HANDSHAKE, 1, b"\x00\x00")
    with pytest.raises(DecodeError):
        response_body(DESCRIBE_CLIENT_QUOTAS, 1, b"\x00\x00\x00\x01")


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3])
def test_an_impossible_frame_size_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes"):
        frame_size(size.to_bytes(4, "big", signed=True))


def test_a_size_above_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(FrameTooLarge) as caught:
        frame_size(b"\x00\x00\x00\x65", limit=100)
    assert (caught.value.size, caught.value.limit, caught.value.hint) == (101, 100, "")
    assert frame_size(b"\x00\x00\x00\x64", limit=100) == 100


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"HTTP", "HTTP"),
        (b"\x15\x03\x03\x00", "TLS"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"SSH-", "SSH"),
    ],
)
def test_other_protocols_are_named(head: bytes, word: str) -> None:
    assert word in misconnect_hint(head)
    with pytest.raises(FrameTooLarge) as caught:
        frame_size(head)
    assert word in caught.value.hint
