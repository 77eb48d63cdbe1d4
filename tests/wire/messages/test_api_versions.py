import pytest

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.messages import api_versions
from reconciler.wire.messages.api_versions import ApiRange, ApiVersionsRequest, ApiVersionsResponse


@pytest.mark.parametrize("text", ["", "1.0+local", "1_0", "-a", "a.", "a b", "é", "1.0\n"])
def test_software_names_that_brokers_refuse_are_not_sent(text: str) -> None:
    assert not api_versions.is_valid_software(text)
    for request in (
        ApiVersionsRequest(software_name=text, software_version="1"),
        ApiVersionsRequest(software_name="a", software_version=text),
    ):
        with pytest.raises(EncodeError, match="brokers refuse"):
            api_versions.encode_request(3, request)
    assert api_versions.encode_request(0, ApiVersionsRequest(software_name=text)) == b""


@pytest.mark.parametrize("version", range(6))
def test_a_rejection_in_the_layout_of_version_0_is_decoded_in_every_version(version: int) -> None:
    refusal = ApiVersionsResponse(error_code=35, apis=(ApiRange(api_key=18, lowest=0, highest=4),))
    body = api_versions.encode_response(version, refusal)
    assert body.hex() == "002300000001001200000004"
    assert api_versions.decode_response(version, body) == refusal


def test_unknown_tags_of_the_response_are_skipped() -> None:
    body = b"\x00\x00\x01\x00\x00\x00\x00" + b"\x01\x63\x03zzz"
    assert api_versions.decode_response(3, body) == ApiVersionsResponse(error_code=0, apis=())


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x00\x02\x02a",  # a feature that is cut off
        b"\x01\x00\x02\x01\x00",  # a byte after the features
        b"\x01\x01\x02\x00\x00",  # an epoch of two bytes
        b"\x02\x01\x00\x01\x00",  # the same tag twice
        b"\x01\x03\x00",  # a flag of no byte
        b"\x01\x03\x02\x01\x00",  # a flag of two bytes
    ],
)
def test_malformed_features_are_refused(tags: bytes) -> None:
    with pytest.raises(DecodeError):
        api_versions.decode_response(3, b"\x00\x00\x01\x00\x00\x00\x00" + tags)
