import pytest

from reconciler.errors import EncodeError
from reconciler.wire.messages import metadata
from reconciler.wire.messages.metadata import MetadataRequest, MetadataResponse, RequestTopic, Topic


def test_an_empty_list_means_all_topics_in_version_0_and_none_later() -> None:
    assert metadata.decode_request(0, b"\x00\x00\x00\x00").topics is None
    assert metadata.decode_request(1, b"\x00\x00\x00\x00").topics == ()
    assert metadata.decode_request(1, b"\xff\xff\xff\xff").topics is None
    assert metadata.decode_request(0, b"\x00\x00\x00\x01\x00\x01t").topics == (
        RequestTopic(name="t"),
    )


@pytest.mark.parametrize("topics", [None, ()])
def test_version_0_cannot_request_no_topics(topics: tuple[RequestTopic, ...] | None) -> None:
    with pytest.raises(EncodeError, match="v0"):
        metadata.encode_request(0, MetadataRequest(topics=topics))


def test_topics_by_id_require_a_version_with_ids() -> None:
    request = MetadataRequest(topics=(RequestTopic(name=None, topic_id=bytes(16)),))
    with pytest.raises(EncodeError, match="by its id"):
        metadata.encode_request(9, request)
    assert metadata.decode_request(12, metadata.encode_request(12, request)) == request


def test_a_topic_without_a_name_cannot_be_encoded_below_version_12() -> None:
    response = MetadataResponse(topics=(Topic(name=None),))
    with pytest.raises(EncodeError, match="without a name"):
        metadata.encode_response(11, response)
    assert metadata.decode_response(12, metadata.encode_response(12, response)) == response


def test_the_metadata_request_of_the_client_requests_no_topics() -> None:
    body = metadata.encode_request(12, MetadataRequest())
    assert body == b"\x01\x00\x00\x00"
