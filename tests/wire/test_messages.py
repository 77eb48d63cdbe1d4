"""Laws that hold for every small API in every version: a written message reads back, a truncated one is refused."""

import contextlib
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.apis import KafkaApi
from tests.hypothesis_profiles import count_examples
from tests.wire.message_modules import MODULES, REQUESTS, RESPONSES, VERSIONS

every_version = pytest.mark.parametrize(
    ("api", "module", "version"), VERSIONS, ids=lambda value: getattr(value, "name", None)
)


@every_version
@settings(max_examples=count_examples(10))
@given(draw=st.data())
def test_a_request_is_read_back_or_refused(
    draw: st.DataObject, api: KafkaApi, module: ModuleType, version: int
) -> None:
    request = draw.draw(REQUESTS[api.name])
    with contextlib.suppress(EncodeError):
        body = module.encode_request(version, request)
        again = module.decode_request(version, body)
        if version == api.highest:
            assert again == request
        if api.name != "ApiVersions" or version >= 3:
            assert module.encode_request(version, again) == body


@every_version
@settings(max_examples=count_examples(10))
@given(draw=st.data())
def test_a_response_is_read_back(
    draw: st.DataObject, api: KafkaApi, module: ModuleType, version: int
) -> None:
    response = draw.draw(RESPONSES[api.name])
    with contextlib.suppress(EncodeError):
        body = module.encode_response(version, response)
        again = module.decode_response(version, body)
        if version == api.highest:
            assert again == response
        assert module.encode_response(version, again) == body


@every_version
@settings(max_examples=count_examples(3))
@given(draw=st.data())
def test_every_truncation_and_every_trailing_byte_is_refused(
    draw: st.DataObject, api: KafkaApi, module: ModuleType, version: int
) -> None:
    with contextlib.suppress(EncodeError):
        request = module.encode_request(version, draw.draw(REQUESTS[api.name]))
        response = module.encode_response(version, draw.draw(RESPONSES[api.name]))
        for body, decode in ((request, module.decode_request), (response, module.decode_response)):
            for size in range(len(body)):
                with pytest.raises(DecodeError):
                    decode(version, body[:size])
            with pytest.raises(DecodeError):
                decode(version, body + b"\x00")


@every_version
@settings(max_examples=count_examples(10))
@given(draw=st.data())
def test_damaged_bytes_are_decoded_or_raise_a_decode_error(
    draw: st.DataObject, api: KafkaApi, module: ModuleType, version: int
) -> None:
    with contextlib.suppress(EncodeError):
        body = bytearray(module.encode_response(version, draw.draw(RESPONSES[api.name])))
        for _ in range(3):
            at = draw.draw(st.integers(0, len(body) - 1))
            body[at] = draw.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        with contextlib.suppress(DecodeError):
            module.decode_response(version, bytes(body))


EMPTY_REQUESTS = {
    ("Metadata", 9): "01000000",
    ("Metadata", 13): "010000",
    ("ApiVersions", 3): "02610262",
    ("ApiVersions", 5): "0261026200ffffffff",
    ("DescribeConfigs", 4): "010000",
    ("SaslAuthenticate", 2): "01",
    ("DescribeUserScramCredentials", 0): "00",
    ("DescribeCluster", 0): "00",
    ("DescribeCluster", 2): "000100",
}


@pytest.mark.parametrize(("name", "version"), EMPTY_REQUESTS)
def test_unknown_tags_are_skipped(name: str, version: int) -> None:
    (module,) = (module for api, module in MODULES if api.name == name)
    body = bytes.fromhex(EMPTY_REQUESTS[name, version])
    plain = module.decode_request(version, body + b"\x00")
    assert module.decode_request(version, body + b"\x01\x63\x03zzz") == plain
