"""A request for a reconciliation: the annotation, the value in the status, the timeout, and deleted resources."""

import asyncio
from typing import Any

from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.records import overrides
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota


def request_and_wait(api: FakeKubeApi, clock: FakeClock, *, seconds: float = 60.0) -> bool:
    async def story() -> bool:
        where: Any = (api, CLIENT_QUOTAS, "payments", "alice")
        value = await overrides.request_reconciliation(*where, clock=clock)
        return await overrides.wait_until_handled(*where, value=value, seconds=seconds, clock=clock)

    return asyncio.run(story())


def test_the_wait_ends_at_its_timeout_and_the_request_counts_as_not_handled() -> None:
    api, clock = FakeKubeApi(), FakeClock()
    api.put(CLIENT_QUOTAS, quota())
    assert not request_and_wait(api, clock, seconds=10)
    assert sum(clock.slept) >= 10
