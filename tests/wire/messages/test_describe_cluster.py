import pytest

from reconciler.errors import EncodeError
from reconciler.wire.messages import describe_cluster
from reconciler.wire.messages.describe_cluster import (
    CONTROLLERS,
    OPERATIONS_NOT_ASKED,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def test_a_request_that_an_old_version_cannot_encode_is_refused() -> None:
    with pytest.raises(EncodeError, match="v0 cannot ask for controllers"):
        describe_cluster.encode_request(0, DescribeClusterRequest(endpoint_type=CONTROLLERS))
    with pytest.raises(EncodeError, match="v1 cannot ask for fenced brokers"):
        describe_cluster.encode_request(1, DescribeClusterRequest(include_fenced=True))


def test_operations_that_were_not_requested_are_not_decoded_as_rights() -> None:
    body = describe_cluster.encode_response(2, DescribeClusterResponse(cluster_id="c"))
    assert describe_cluster.decode_response(2, body).operations == OPERATIONS_NOT_ASKED
