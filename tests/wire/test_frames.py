import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import DecodeError, FrameTooLarge, ProtocolError
from reconciler.wire.apis import (
    API_VERSIONS,
    APIS,
    DESCRIBE_CLIENT_QUOTAS,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.frames import (
    correlation_id_of,
    decode_request,
    encode_request,
    encode_response,
    frame_size,
    misconnect_hint,
    response_body,
)

versions = st.sampled_from(
    [(api, version) for api in APIS for version in range(api.lowest, api.highest + 1)]
)
ids = st.integers(-(2**31), 2**31 - 1)


@given(versions, ids, st.one_of(st.none(), st.text(max_size=200)), st.binary(max_size=50))
def test_a_request_is_read_back(
    pair: tuple[KafkaApi, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    api, version = pair
    frame = encode_request(
        api, version, correlation_id=correlation_id, client_id=client_id, body=body
    )
    assert frame_size(frame[:4]) == len(frame) - 4
    header, again = decode_request(frame[4:])
    assert (header.api_key, header.api_version) == (api.key, version)
    assert (header.correlation_id, header.client_id, again) == (correlation_id, client_id, body)


@given(versions, ids, st.binary(max_size=50))
def test_a_response_is_read_back(
    pair: tuple[KafkaApi, int], correlation_id: int, body: bytes
) -> None:
    api, version = pair
    frame = encode_response(api, version, correlation_id=correlation_id, body=body)
    assert correlation_id_of(frame[4:]) == correlation_id
    assert response_body(api, version, frame[4:]) == body
    assert response_body(api, version, bytearray(frame[4:])) == body


def test_the_response_to_api_versions_never_has_tags_in_its_header() -> None:
    frame = encode_response(API_VERSIONS, 4, correlation_id=1, body=b"x")
    assert frame == b"\x00\x00\x00\x05\x00\x00\x00\x01x"


def test_the_client_id_is_encoded_classically_even_in_a_flexible_header() -> None:
    frame = encode_request(DESCRIBE_CLIENT_QUOTAS, 1, correlation_id=1, client_id="abc", body=b"")
    assert frame[12:] == b"\x00\x03abc\x00"


def test_unknown_tags_in_headers_are_skipped() -> None:
    request = b"\x00\x30\x00\x01\x00\x00\x00\x07\xff\xff\x01\x09\x02zzbody"
    assert decode_request(request)[1] == b"body"
    answer = b"\x00\x00\x00\x07\x01\x09\x02zzbody"
    assert response_body(DESCRIBE_CLIENT_QUOTAS, 1, answer) == b"body"


def test_the_header_of_a_future_version_of_api_versions_is_decoded() -> None:
    header, body = decode_request(b"\x00\x12\x00\x63\x00\x00\x00\x01\x00\x01a\x00rest")
    assert (header.api_version, header.client_id, body) == (99, "a", b"rest")


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
