import pytest

from reconciler.errors import DecodeError, ProtocolError
from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    SASL_HANDSHAKE,
)
from reconciler.wire.frames import (
    decode_request,
    encode_response,
    frame_size,
    response_body,
)


def test_the_response_to_api_versions_never_has_tags_in_its_header() -> None:
    frame = encode_response(API_VERSIONS, 4, correlation_id=1, body=b"x")
    assert frame == b"\x00\x00\x00\x05\x00\x00\x00\x01x"


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
