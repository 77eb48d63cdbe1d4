"""Which errors are retriable."""

import pytest

from reconciler.client.network.requests import (
    can_retry,
)
from reconciler.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    RequestTimeout,
    TlsError,
)
from reconciler.wire.error_codes import NOT_CONTROLLER


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectError("no connection"), True),
        (RequestTimeout("late", phase="request"), True),
        (RequestTimeout("a new connection would dodge the quota", phase="throttled"), False),
        (TlsError("certificate"), False),
        (AuthenticationError("password"), False),
        (BrokerError("elsewhere", code=NOT_CONTROLLER), True),
    ],
)
def test_transient_errors_are_retried(error: ClientError, expected: bool) -> None:
    assert can_retry(error, 0) is expected
