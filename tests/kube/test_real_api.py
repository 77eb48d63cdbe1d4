"""The API client against a real API server: behaviour that a fake may get wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconciler.base.clock import SystemClock
from reconciler.errors import Forbidden, KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.leadership.election import ElectionSettings, Leader
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.quota.entity import ABSENT, entity
from tests.kube.leadership.test_election import connected_to
from tests.servers.kube.cluster import KubeCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration


def quota(name: str, namespace: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "clusterRef": {"name": "prod"},
            "entity": {"user": {"name": name}},
            "limits": {"producerByteRate": 1048576},
        },
    }


def status_of(name: str, namespace: str, message: str, **metadata: Any) -> dict[str, Any]:
    document = quota(name, namespace, **metadata)
    del document["spec"]
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "InSync",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {**document, "status": {"observedGeneration": 1, "conditions": [condition]}}


def connected(kube: KubeCluster) -> Any:
    return KubernetesApi.connect(kube.kubeconfig, clock=SystemClock())


def with_api(
    test: Callable[[KubernetesApi, KubeCluster, str], Awaitable[None]],
) -> Callable[[KubeCluster, str], None]:
    """Run a test with a client of the API server, its cluster and a separate namespace."""

    def run(kube: KubeCluster, kube_namespace: str) -> None:
        async def run_test() -> None:
            async with await connected(kube) as api:
                await test(api, kube, kube_namespace)

        asyncio.run(run_test())

    return run


@with_api
async def test_objects_are_created_and_read_back(api, kube, namespace):
    for name in ("a", "b", "c"):
        await api.create(CLIENT_QUOTAS, namespace, quota(name, namespace))
    listing = await api.list(CLIENT_QUOTAS, namespace, limit=2)
    assert [obj["metadata"]["name"] for obj in listing.items] == ["a", "b", "c"]
    with pytest.raises(KubernetesConflict) as caught:
        await api.create(CLIENT_QUOTAS, namespace, quota("a", namespace))
    assert caught.value.reason == "AlreadyExists"
    body = status_of("a", namespace, "one")
    first = await api.apply_status(CLIENT_QUOTAS, namespace, "a", body)
    again = await api.apply_status(CLIENT_QUOTAS, namespace, "a", body)
    assert first["status"]["conditions"][0]["message"] == "one"
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    _ = await asyncio.to_thread(
        kube.api.call, "DELETE", CLIENT_QUOTAS.path(namespace=namespace, name="a")
    )
    with pytest.raises(NotFound):
        await api.get(CLIENT_QUOTAS, namespace, "a")


@with_api
async def test_the_documents_of_an_entity_are_listed_as_soon_as_they_were_written(
    api, kube, namespace
):
    user, default, both = (
        entity(user="CN=a, O=b\\c"),
        entity(user=None),
        entity(user="a", client_id=None),
    )
    entities = {"user": user, "default": default, "both": both, "address": entity(ip="10.0.0.1")}
    cache = ResourceCache()
    listing = FullListing(
        api,
        cache,
        namespaces=(namespace,),
        from_file=[],
        enqueue=lambda names, key: None,
        on_listed=lambda: None,
    )
    for name, subject in entities.items():
        document = quota(name, namespace)
        document["spec"]["entity"] = {
            slot: {"default": True} if value is None else {"name": value}
            for slot, value in zip(("user", "clientId", "ip"), subject, strict=True)
            if value is not ABSENT
        }
        if name == "address":
            document["spec"]["limits"] = {"connectionCreationRate": 10}
        obj = await api.create(CLIENT_QUOTAS, namespace, document)
        _ = cache.observe(parsed(obj))
        declaring = await listing.declaring([subject])
        assert [obj.name for obj in declaring or ()] == [name]


@with_api
async def test_a_status_for_an_older_resource_version_is_a_conflict(api, kube, namespace):
    obj = await api.create(CLIENT_QUOTAS, namespace, quota("a", namespace))
    version = obj["metadata"]["resourceVersion"]
    await api.patch_merge(CLIENT_QUOTAS, namespace, "a", {"metadata": {"labels": {"x": "y"}}})
    body = status_of("a", namespace, "one", resourceVersion=version)
    with pytest.raises(KubernetesConflict):
        await api.apply_status(CLIENT_QUOTAS, namespace, "a", body)


@with_api
async def test_a_finalizer_is_added_and_removed_by_a_patch_that_tests_the_version(
    api, kube, namespace
):
    obj = await api.create(CLIENT_QUOTAS, namespace, quota("a", namespace))
    version = obj["metadata"]["resourceVersion"]
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    add = {"op": "add", "path": "/metadata/finalizers", "value": ["kafka-quotas.io/release"]}
    patched = await api.patch_json(CLIENT_QUOTAS, namespace, "a", [test, add])
    assert patched["metadata"]["finalizers"] == ["kafka-quotas.io/release"]
    with pytest.raises(KubernetesError) as caught:
        await api.patch_json(CLIENT_QUOTAS, namespace, "a", [test, add])
    assert caught.value.status in {409, 422}
    remove = {"metadata": {"finalizers": None}}
    await api.patch_merge(CLIENT_QUOTAS, namespace, "a", remove)


def test_a_missing_right_is_forbidden(kube: KubeCluster, kube_namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
    kube.apply(account, namespace=kube_namespace)
    path = kube.kubeconfig_for(kube_namespace, "nobody")

    async def story() -> None:
        async with await KubernetesApi.connect(path, clock=SystemClock()) as api:
            with pytest.raises(Forbidden) as caught:
                await api.list(CLIENT_QUOTAS, kube_namespace)
            assert "cannot list resource" in str(caught.value)

    asyncio.run(story())


@with_api
async def test_requests_are_retried_during_an_outage(api, kube, namespace):
    await api.list(CLIENT_QUOTAS, namespace)
    await asyncio.to_thread(kube.restart_apiserver)
    # The old connections are dead; a repeatable request succeeds nevertheless.
    await api.list(CLIENT_QUOTAS, namespace)


@with_api
async def test_a_lease_passes_from_one_holder_to_the_next(api, kube, namespace):
    lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l"
    times = {"duration": 3.0, "deadline": 2.0, "renew": 0.2}
    both = [
        Leader(
            connected_to(api),
            ElectionSettings(namespace=namespace, name="l", identity=name, **times),
            clock=SystemClock(),
        )
        for name in ("pod-1", "pod-2")
    ]
    resigns = [asyncio.Event(), asyncio.Event()]
    first = asyncio.create_task(both[0].run(resigns[0]))
    await asyncio.wait_for(both[0].elected.wait(), HANG_SECONDS)
    second = asyncio.create_task(both[1].run(resigns[1]))
    renewals: set[str] = set()
    while len(renewals) < 4:  # the second candidate reads the Lease as often as the first renews it
        answer = await asyncio.to_thread(kube.api.get, lease_path)
        renewals.add(answer.need()["spec"]["renewTime"])
    assert both[0].leading
    assert not both[1].leading
    resigns[0].set()
    await first
    await asyncio.wait_for(both[1].elected.wait(), HANG_SECONDS)
    assert both[1].fence_seconds
    resigns[1].set()
    await second
    lease = kube.api.get(lease_path).need()
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["metadata"]["annotations"]["kafka-quotas.io/released-by"] == "pod-2"
