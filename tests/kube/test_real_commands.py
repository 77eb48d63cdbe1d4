"""`kquota operator release` and `override --kubernetes` as an administrator runs them, on a real API server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from reconciler.base.clock import SystemClock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.records import record_store
from reconciler.kube.records.config_maps import config_maps, read
from reconciler.kube.records.stored_records import LoopMemory, StoredRecords
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from tests.kube.reviews import quota
from tests.servers.kube.cluster import KubeCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

FINALIZER = "kafka-quotas.io/release"
QUOTAS = "/apis/kafka-quotas.io/v1alpha1/namespaces/{}/clientquotas"


def kquota(*arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def put(kube: KubeCluster, namespace: str, name: str) -> None:
    """Create a document with the finalizer of an operator."""
    obj = quota(name)
    obj["metadata"] = {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}
    path = QUOTAS.format(namespace)
    kube.api.call("POST", path, obj).need()


def put_records(kube: KubeCluster, namespace: str, names: Sequence[str]) -> None:
    """The ConfigMaps of an operator that applied one limit of each of these documents."""
    owned = OwnershipRecords(cluster_id=f"id-{namespace}").with_changes(
        Recorded(
            entity=entity(user=name),
            key=Key.PRODUCER_BYTE_RATE,
            value=1048576.0,
            owner=Owner(document=f"{namespace}/{name}"),
        )
        for name in names
    )
    objects = config_maps(StoredRecords(owned=owned, salt="5a17"), namespace=namespace)
    for obj in objects.values():
        kube.api.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", dict(obj)).need()


def test_documents_of_a_stopped_operator_are_released(
    kube: KubeCluster, kube_namespace: str
) -> None:
    for name in ("alice", "bob"):
        put(kube, kube_namespace, name)
    put_records(kube, kube_namespace, ("alice", "bob"))
    kube.kubectl("-n", kube_namespace, "delete", "ckq", "bob", "--wait=false")
    arguments = (
        "operator",
        "release",
        "--namespace",
        kube_namespace,
        "--operator-namespace",
        kube_namespace,
        "--stop-deployment",
        "not-there",
        "--kubeconfig",
        str(kube.kubeconfig),
    )
    done = kquota(*arguments, "--format", "json")
    result = json.loads(done.stdout)
    assert result["documents"] == [f"{kube_namespace}/alice", f"{kube_namespace}/bob"]
    assert (result["orphanedPairs"], result["failed"], result["unkept"]) == (2, {}, {})
    documents = kube.api.get(QUOTAS.format(kube_namespace)).need()["items"]
    assert [document["metadata"]["name"] for document in documents] == ["alice"]
    assert "finalizers" not in documents[0]["metadata"]
    maps = kube.api.get(f"/api/v1/namespaces/{kube_namespace}/configmaps").need()["items"]
    parts = [obj for obj in maps if obj["metadata"]["name"] != "kube-root-ca.crt"]
    assert len(read(f"id-{kube_namespace}", parts).owned.orphaned) == 2
    assert kquota(*arguments).stdout == "nothing to release\n"


def test_a_missing_right_is_reported_with_the_message_of_the_server(
    kube: KubeCluster, kube_namespace: str
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
    kube.apply(account, namespace=kube_namespace)
    path = kube.kubeconfig_for(kube_namespace, "nobody")
    done = kquota(
        "operator",
        "release",
        "--all",
        "--operator-namespace",
        kube_namespace,
        "--kubeconfig",
        str(path),
        code=1,
    )
    assert "cannot list resource" in done.stderr


@pytest.fixture
def cluster(kube: KubeCluster, kube_namespace: str) -> Iterator[str]:
    """A QuotaCluster that no operator serves."""
    name = f"{kube_namespace}-fine"
    obj = {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "QuotaCluster",
        "metadata": {"name": name},
        "spec": {"bootstrapServers": "b:1", "operatorClass": kube_namespace},
    }
    kube.apply(obj)
    yield name
    kube.kubectl("delete", "quotacluster", name)


def test_an_override_is_recorded_for_the_operator_and_listed_and_ended(
    kube: KubeCluster, kube_namespace: str, cluster: str
) -> None:
    owner = Owner(document=f"{kube_namespace}/alice", since=1.0)
    applied = Recorded(
        entity=entity(user="alice"), key=Key.PRODUCER_BYTE_RATE, value=1048576.0, owner=owner
    )

    async def apply() -> None:
        async with await KubernetesApi.connect(kube.kubeconfig, clock=SystemClock()) as api:
            _ = await record_store.change(
                api,
                kube_namespace,
                f"id-{kube_namespace}",
                lambda stored: replace(
                    stored,
                    owned=stored.owned.with_changes([applied]),
                    memory=LoopMemory(manager=cluster),
                ),
            )

    asyncio.run(apply())
    where = (
        "--kubernetes",
        "--cluster",
        cluster,
        "--operator-namespace",
        kube_namespace,
        "--kubeconfig",
        str(kube.kubeconfig),
        "--timeout",
        "1s",
    )
    words = ("--for", "2h", "--reason", "INC-1", "--yes")
    done = kquota("override", "user=alice", "producer_byte_rate=50Mi", *words, *where, code=1)
    assert "override recorded" in done.stdout
    assert "did not reconcile within 1 s" in done.stderr
    (row,) = json.loads(kquota("override", "list", *where, "--format", "json").stdout)["overrides"]
    assert (row["value"], row["before"], row["declared"]) == (52428800, 1048576, 1048576)
    done = kquota("override", "end", "user=alice", "--yes", *where, "--format", "json", code=1)
    assert json.loads(done.stdout)["overrides"][0]["expired"] is True
