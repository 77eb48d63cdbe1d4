import pytest

from reconciler.errors import EncodeError
from reconciler.wire.messages import describe_configs
from reconciler.wire.messages.describe_configs import BROKER, ConfigResource, DescribeConfigsRequest


def test_documentation_requires_version_3() -> None:
    request = DescribeConfigsRequest(
        resources=(ConfigResource(resource_type=BROKER, name="1"),), include_documentation=True
    )
    with pytest.raises(EncodeError, match="v2 cannot ask for documentation"):
        describe_configs.encode_request(2, request)
    assert (
        describe_configs.decode_request(3, describe_configs.encode_request(3, request)) == request
    )
