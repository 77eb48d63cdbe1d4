import pytest

from reconciler.errors import EncodeError
from reconciler.wire.messages import metadata
from reconciler.wire.messages.metadata import MetadataRequest, MetadataResponse, RequestTopic, Topic


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
