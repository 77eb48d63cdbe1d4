"""KIP-219 on every target: a throttled client is answered at once, and its next request is read after the delay.

Real brokers throttle because of a tiny request quota on the client id; the sandbox enforces no quota, so a
fault replaces it. Compared are the observations of a client: the field, and the time of the next response.
"""

import time

import pytest

from reconciler.sandbox.faults import Fault, Throttle
from reconciler.wire.apis import DESCRIBE_CLIENT_QUOTAS
from reconciler.wire.messages import describe_client_quotas
from tests.contract.expectations import REQUEST
from tests.contract.raw import RawConnection, described
from tests.contract.targets import Target

CLIENT = (("client-id", "throttled"),)
MILLISECONDS = 300
TINY = 1e-6  # percent of one thread: any request is more
ATTEMPTS = 20  # a describe shows the quota a moment before it is in effect


def throttle_ms(connection: RawConnection) -> int:
    """A describe by the client that is throttled."""
    body = describe_client_quotas.encode_request(
        1, describe_client_quotas.DescribeClientQuotasRequest(components=(), strict=False)
    )
    answer = connection.ask(DESCRIBE_CLIENT_QUOTAS, 1, body, client_id="throttled")
    return described(1, answer).throttle_time_ms


def throttle(target: Target, throttled: RawConnection) -> float:
    """Have a connection throttled; return the seconds that its last answer states."""
    if target.sandbox is not None:
        effect = Throttle(milliseconds=MILLISECONDS)
        target.sandbox.fail(Fault(effect=effect, api=DESCRIBE_CLIENT_QUOTAS.key))
    return next(filter(None, (throttle_ms(throttled) for _ in range(ATTEMPTS)))) / 1000


def test_a_throttled_response_arrives_immediately_and_the_next_one_late(empty: Target) -> None:
    with empty.connect() as connection, empty.connect() as throttled:
        if empty.sandbox is None:
            connection.verdicts((CLIENT, ((REQUEST, TINY),)))
            connection.settled({CLIENT: {REQUEST: TINY}})
        for _ in range(ATTEMPTS):
            wait = throttle(empty, throttled)
            assert 0 < wait <= 1
            started = time.monotonic()
            connection.quotas()
            seconds_of_others = time.monotonic() - started
            throttle_ms(throttled)
            assert time.monotonic() - started > wait / 2
            if seconds_of_others < wait:
                break  # on a busy machine it may take several attempts
        else:
            pytest.fail("another connection waited too")
