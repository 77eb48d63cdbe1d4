import pytest

from reconciler.errors import EncodeError
from reconciler.wire import describe_configs
from reconciler.wire.describe_configs import BROKER, Request, Resource


def test_documentation_needs_version_3() -> None:
    request = Request(
        resources=(Resource(resource_type=BROKER, name="1"),), include_documentation=True
    )
    with pytest.raises(EncodeError, match="v2 cannot ask for documentation"):
        describe_configs.encode_request(2, request)
    assert (
        describe_configs.decode_request(3, describe_configs.encode_request(3, request)) == request
    )
