"""An operator is stopped from outside before its finalizers are removed."""

import asyncio
from typing import Any

import pytest

from reconciler.base.clock import SystemClock
from reconciler.errors import Forbidden, KubernetesUnavailable
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.records.release import LONGEST_STOP, stop_deployment
from tests.fakes.clock import FakeClock
from tests.kube.answering import ReceivedRequest, Server, status
from tests.servers.kube.cluster import KubeCluster

DEPLOYMENT = {
    "metadata": {"name": "quotas"},
    "spec": {"selector": {"matchLabels": {"b": "2", "a": "1"}}},
}


def pods(*phases: str) -> dict[str, Any]:
    items = [
        {"metadata": {"name": f"quotas-{number}"}, "status": {"phase": phase}}
        for number, phase in enumerate(phases)
    ]
    return {"metadata": {"resourceVersion": "1"}, "items": items}


class Deployment:
    """An API server with one Deployment whose pods end after some polls."""

    def __init__(self, *, looks: int) -> None:
        self.looks = looks

    def __call__(self, request: ReceivedRequest) -> Any:
        if request.method == "PATCH":
            return {"spec": request.json["spec"]}
        if request.path.endswith("/pods"):
            self.looks -= 1
            return pods("Running", "Succeeded") if self.looks >= 0 else pods("Failed", "Succeeded")
        return DEPLOYMENT


def stopped(answers: Any) -> tuple[bool, list[ReceivedRequest], FakeClock]:
    async def story() -> tuple[bool, list[ReceivedRequest], FakeClock]:
        clock = FakeClock()
        async with Server(answers) as server, KubernetesApi(server.access(), clock=clock) as api:
            return await stop_deployment(api, "ops", "quotas", clock=clock), server.requests, clock

    return asyncio.run(story())


def test_the_deployment_is_scaled_to_zero_through_its_scale_subresource() -> None:
    was_stopped, requests, _ = stopped(Deployment(looks=0))
    assert was_stopped
    (patch,) = [request for request in requests if request.method == "PATCH"]
    assert patch.path == "/apis/apps/v1/namespaces/ops/deployments/quotas/scale"
    assert patch.json == {"spec": {"replicas": 0}}


def test_the_deployment_is_stopped_when_its_last_pod_has_ended() -> None:
    _, requests, clock = stopped(Deployment(looks=3))
    looks = [request for request in requests if request.path == "/api/v1/namespaces/ops/pods"]
    assert len(looks) == 4
    assert looks[0].query["labelSelector"] == "a=1,b=2"
    assert clock.slept == [1.0] * 3


def test_pods_that_do_not_end_are_named() -> None:
    with pytest.raises(
        KubernetesUnavailable, match=r"after 150 s these pods still run: quotas-0$"
    ) as caught:
        stopped(Deployment(looks=1000))
    assert caught.value.hint == "delete them, then release again"
    assert LONGEST_STOP > 2 * 65


def test_without_a_deployment_nothing_is_stopped() -> None:
    was_stopped, requests, _ = stopped(lambda _: status(404, "NotFound", "no such deployment"))
    assert not was_stopped
    assert [request.method for request in requests] == ["GET"]


def test_a_missing_right_is_reported() -> None:
    with pytest.raises(Forbidden):
        stopped(
            lambda request: (
                DEPLOYMENT if request.method == "GET" else status(403, "Forbidden", "no")
            )
        )


@pytest.mark.integration
def test_a_real_deployment_loses_its_pods(kube: KubeCluster, kube_namespace: str) -> None:
    inside = ("-n", kube_namespace)

    async def story() -> bool:
        clock = SystemClock()
        async with await KubernetesApi.connect(kube.kubeconfig, clock=clock) as api:
            return await stop_deployment(api, kube_namespace, "web", clock=clock)

    with kube.pods_become_ready():
        kube.kubectl("create", "deployment", "web", "--image=none", "--replicas=2", *inside)
        kube.kubectl("rollout", "status", "deployment/web", "--timeout=240s", *inside)
        assert asyncio.run(story())
    assert kube.kubectl("get", "pods", *inside, "-o", "name").stdout == ""
