"""A request for a reconciliation: the annotation, the value in the status, the timeout, and deleted resources."""

import asyncio
from typing import Any

from reconciler.kube.api.custom_resources import REQUESTED_AT
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.records import overrides
from reconciler.kube.records.overrides import OverrideLedger
from reconciler.quota.planner.guards import Guards
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.worlds import quota_cluster


def request_and_wait(api: Any, clock: FakeClock, *, seconds: float = 60.0) -> bool:
    async def story() -> bool:
        ledger = OverrideLedger(
            api=api,
            namespace="kafka",
            cluster="prod",
            cluster_id="fake",
            guards=Guards(),
        )
        return await overrides.wait_until_applied(ledger, seconds=seconds, clock=clock)

    return asyncio.run(story())


def answering(api: FakeKubeApi, looks: int) -> None:
    """An operator that has handled the request at the given poll."""
    remaining_looks = looks

    def before(verb: str, *_: str) -> None:
        nonlocal remaining_looks
        if verb != "get":
            return
        remaining_looks -= 1
        if remaining_looks <= 0:
            obj = api.find(QUOTA_CLUSTERS, None, "prod")
            value = obj["metadata"]["annotations"][REQUESTED_AT]
            obj["status"] = {"lastHandledReconcileAt": value}

    api.before = before


def test_the_command_waits_until_its_own_request_was_handled() -> None:
    api, clock = FakeKubeApi(), FakeClock()
    obj = quota_cluster()
    obj["status"] = {"lastHandledReconcileAt": "an earlier one"}
    api.put(QUOTA_CLUSTERS, obj)
    answering(api, 5)
    assert request_and_wait(api, clock)
    assert len(clock.slept) == 4


def test_a_later_request_that_replaces_ours_is_handled_for_both() -> None:
    api, clock = FakeKubeApi(), FakeClock()
    obj = quota_cluster()
    obj["status"] = {"lastHandledReconcileAt": "an earlier one"}
    api.put(QUOTA_CLUSTERS, obj)

    def replace_request(value: str, *, is_handled: bool) -> None:
        def before(verb: str, *_: str) -> None:
            present = api.find(QUOTA_CLUSTERS, None, "prod")
            if verb == "get":
                present["metadata"]["annotations"][REQUESTED_AT] = value
                if is_handled:
                    present["status"] = {"lastHandledReconcileAt": value}

        api.before = before

    # An annotation from before says nothing about what was recorded since.
    replace_request("an earlier one", is_handled=False)
    assert not request_and_wait(api, clock, seconds=10)
    replace_request("a later one", is_handled=False)
    assert not request_and_wait(api, clock, seconds=10)
    replace_request("a later one", is_handled=True)
    assert request_and_wait(api, clock, seconds=10)


def test_two_simultaneous_requests_have_different_ids() -> None:
    api, values = FakeKubeApi(), set[str]()
    api.put(QUOTA_CLUSTERS, quota_cluster())
    for _ in range(20):
        _ = request_and_wait(api, FakeClock(), seconds=0.0)
        obj = api.find(QUOTA_CLUSTERS, None, "prod")
        values.add(obj["metadata"]["annotations"][REQUESTED_AT])
    assert len(values) == 20
    assert all(len(value) <= 64 for value in values)


def test_the_wait_ends_at_its_timeout_and_the_request_counts_as_not_handled() -> None:
    api, clock = FakeKubeApi(), FakeClock()
    api.put(QUOTA_CLUSTERS, quota_cluster())
    assert not request_and_wait(api, clock, seconds=10)
    assert sum(clock.slept) >= 10
