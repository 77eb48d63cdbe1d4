"""The translator against a real API server: what a fake cannot be trusted to do."""

import asyncio
import base64
from typing import Any

import pytest

from reconciler.base.clock import SystemClock
from reconciler.errors import Forbidden, KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api import resource_paths
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.leadership.election import ElectionSettings, Leader
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

MANAGER = "kquota-operator"


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


def test_objects_go_in_and_come_out(kube: KubeCluster, kube_namespace: str) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            for name in ("a", "b", "c"):
                await api.create(
                    resource_paths.CLIENT_QUOTAS, kube_namespace, quota(name, kube_namespace)
                )
            listing = await api.list(resource_paths.CLIENT_QUOTAS, kube_namespace, limit=2)
            assert [obj["metadata"]["name"] for obj in listing.items] == ["a", "b", "c"]
            with pytest.raises(KubernetesConflict) as caught:
                await api.create(
                    resource_paths.CLIENT_QUOTAS, kube_namespace, quota("a", kube_namespace)
                )
            assert caught.value.reason == "AlreadyExists"
            body = status_of("a", kube_namespace, "one")
            first = await api.apply_status(
                resource_paths.CLIENT_QUOTAS, kube_namespace, "a", body, field_manager=MANAGER
            )
            again = await api.apply_status(
                resource_paths.CLIENT_QUOTAS, kube_namespace, "a", body, field_manager=MANAGER
            )
            assert first["status"]["conditions"][0]["message"] == "one"
            assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
            await api.delete(resource_paths.CLIENT_QUOTAS, kube_namespace, "a")
            with pytest.raises(NotFound):
                await api.get(resource_paths.CLIENT_QUOTAS, kube_namespace, "a")

    asyncio.run(story())


def test_a_status_for_a_version_that_is_past_is_a_conflict(
    kube: KubeCluster, kube_namespace: str
) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            obj = await api.create(
                resource_paths.CLIENT_QUOTAS, kube_namespace, quota("a", kube_namespace)
            )
            version = obj["metadata"]["resourceVersion"]
            await api.patch_merge(
                resource_paths.CLIENT_QUOTAS,
                kube_namespace,
                "a",
                {"metadata": {"labels": {"x": "y"}}},
            )
            body = status_of("a", kube_namespace, "one", resourceVersion=version)
            with pytest.raises(KubernetesConflict):
                await api.apply_status(
                    resource_paths.CLIENT_QUOTAS, kube_namespace, "a", body, field_manager=MANAGER
                )

    asyncio.run(story())


def test_a_status_without_its_object_makes_none(kube: KubeCluster, kube_namespace: str) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            body = status_of("gone", kube_namespace, "one")
            with pytest.raises(NotFound):
                await api.apply_status(
                    resource_paths.CLIENT_QUOTAS,
                    kube_namespace,
                    "gone",
                    body,
                    field_manager=MANAGER,
                )

    asyncio.run(story())


def test_a_finalizer_comes_and_goes_by_a_patch_that_tests_the_version(
    kube: KubeCluster, kube_namespace: str
) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            obj = await api.create(
                resource_paths.CLIENT_QUOTAS, kube_namespace, quota("a", kube_namespace)
            )
            version = obj["metadata"]["resourceVersion"]
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            add = {
                "op": "add",
                "path": "/metadata/finalizers",
                "value": ["kafka-quotas.io/release"],
            }
            patched = await api.patch_json(
                resource_paths.CLIENT_QUOTAS, kube_namespace, "a", [test, add]
            )
            assert patched["metadata"]["finalizers"] == ["kafka-quotas.io/release"]
            with pytest.raises(KubernetesError) as caught:
                await api.patch_json(resource_paths.CLIENT_QUOTAS, kube_namespace, "a", [test, add])
            assert caught.value.status in {409, 422}
            remove = {"metadata": {"finalizers": None}}
            await api.patch_merge(resource_paths.CLIENT_QUOTAS, kube_namespace, "a", remove)

    asyncio.run(story())


def test_a_replacement_of_what_somebody_changed_is_a_conflict(
    kube: KubeCluster, kube_namespace: str
) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
            obj = await api.create(resource_paths.CONFIG_MAPS, kube_namespace, body)
            obj["binaryData"] = {"x": base64.b64encode(b"\x00\xff").decode()}
            await api.replace(resource_paths.CONFIG_MAPS, kube_namespace, "m", obj)
            with pytest.raises(KubernetesConflict):
                await api.replace(resource_paths.CONFIG_MAPS, kube_namespace, "m", obj)

    asyncio.run(story())


def test_an_event_arrives(kube: KubeCluster, kube_namespace: str) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            obj = await api.create(
                resource_paths.CLIENT_QUOTAS, kube_namespace, quota("a", kube_namespace)
            )
            await api.create_event(
                obj,
                kind="Warning",
                reason="DriftDetected",
                action="Compare",
                note="x" * 3000,
                at="2026-01-01T00:00:00.000000Z",
                controller="kafka-quotas.io/operator",
                instance="pod-1",
            )

    asyncio.run(story())
    text = kube.kubectl("events", "-n", kube_namespace, "--for", "clientquota/a").stdout
    assert "DriftDetected" in text


def test_rights_are_told_and_a_missing_one_is_forbidden(
    kube: KubeCluster, kube_namespace: str
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
    kube.apply(account, namespace=kube_namespace)
    path = kube.kubeconfig_for(kube_namespace, "nobody")

    async def story() -> None:
        async with await KubernetesApi.connect(path, clock=SystemClock()) as api:
            assert api.namespace == kube_namespace
            assert not (await api.review(resource_paths.CLIENT_QUOTAS, "list")).allowed
            with pytest.raises(Forbidden) as caught:
                await api.list(resource_paths.CLIENT_QUOTAS, kube_namespace)
            assert "cannot list resource" in str(caught.value)
        async with await connected(kube) as api:
            assert (
                await api.review(resource_paths.CLIENT_QUOTAS, "patch", subresource="status")
            ).allowed

    asyncio.run(story())


def test_an_outage_is_ridden_out(kube: KubeCluster, kube_namespace: str) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            await api.list(resource_paths.CLIENT_QUOTAS, kube_namespace)
            await asyncio.to_thread(kube.restart_apiserver)
            # The old connections are dead; a repeatable request does not tell.
            await api.list(resource_paths.CLIENT_QUOTAS, kube_namespace)

    asyncio.run(story())


def test_a_lease_goes_from_hand_to_hand(kube: KubeCluster, kube_namespace: str) -> None:
    async def story() -> None:
        async with await connected(kube) as api:
            times = {"duration": 3.0, "deadline": 2.0, "renew": 0.2}
            both = [
                Leader(
                    api,
                    ElectionSettings(namespace=kube_namespace, name="l", identity=name, **times),
                    clock=SystemClock(),
                )
                for name in ("pod-1", "pod-2")
            ]
            resigns = [asyncio.Event(), asyncio.Event()]
            first = asyncio.create_task(both[0].run(resigns[0]))
            await asyncio.wait_for(both[0].elected.wait(), 10)
            second = asyncio.create_task(both[1].run(resigns[1]))
            await asyncio.sleep(1)
            assert both[0].leading
            assert not both[1].leading
            resigns[0].set()
            await first
            await asyncio.wait_for(both[1].elected.wait(), 2)
            assert both[1].fenced
            resigns[1].set()
            await second

    asyncio.run(story())
    lease = kube.api.get(
        f"/apis/coordination.k8s.io/v1/namespaces/{kube_namespace}/leases/l"
    ).need()
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["metadata"]["annotations"]["kafka-quotas.io/released-by"] == "pod-2"
