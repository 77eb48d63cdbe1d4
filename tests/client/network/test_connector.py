"""A plan needs four round trips: the connection, ApiVersions, the pipelined reading requests, and the validation."""

import pytest

from reconciler.errors import RequestTimeout
from reconciler.wire.apis import (
    DESCRIBE_CLIENT_QUOTAS,
)
from tests.client.support import client, on_loop
from tests.fakes import scripted_broker as acts
from tests.fakes.scripted_broker import ScriptedBroker


@on_loop
async def test_a_describe_that_is_never_answered_ends_with_the_deadline() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.silence)
        with pytest.raises(RequestTimeout, match="DescribeClientQuotas"):
            await our.observe(timeout=5)
