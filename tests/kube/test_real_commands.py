"""`kquota operator release`, `operator check` and `reconcile` as an administrator runs them, on a real API server."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.base.clock import SystemClock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.records import record_store
from reconciler.kube.records.config_map_reader import read
from reconciler.kube.records.config_maps import config_maps
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from tests.cli.brokers import SandboxThread
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
    done = kquota(
        "operator",
        "check",
        "--namespace",
        kube_namespace,
        "--operator-namespace",
        kube_namespace,
        "--kubeconfig",
        str(path),
        "--format",
        "json",
        code=1,
    )
    (kubernetes, *_) = json.loads(done.stdout)["parts"]
    failed = [check["name"] for check in kubernetes["checks"] if check["health"] == "failed"]
    assert f"patch clientquotas/status in {kube_namespace}" in failed


@pytest.fixture
def clusters(kube: KubeCluster, kube_namespace: str) -> Iterator[SandboxThread]:
    """A valid QuotaCluster, one without its Secret, and an unusable one."""
    with SandboxThread() as sandbox:
        names = [f"{kube_namespace}-{end}" for end in ("fine", "secretless", "sly")]
        specs: list[dict[str, Any]] = [
            {"bootstrapServers": sandbox.bootstrap},
            {"bootstrapServers": sandbox.bootstrap, "secretRef": {"name": "missing"}},
            {"bootstrapServers": "${env:HOME}:1"},
        ]
        kube.apply(
            *(
                {
                    "apiVersion": "kafka-quotas.io/v1alpha1",
                    "kind": "QuotaCluster",
                    "metadata": {"name": name},
                    "spec": {**spec, "operatorClass": kube_namespace},
                }
                for name, spec in zip(names, specs, strict=True)
            )
        )
        try:
            yield sandbox
        finally:
            kube.kubectl("delete", "quotacluster", *names)


@pytest.mark.usefixtures("clusters")
def test_check_tests_the_rights_and_examines_every_cluster(
    kube: KubeCluster, kube_namespace: str
) -> None:
    arguments = (
        "operator",
        "check",
        "--operator-namespace",
        kube_namespace,
        "--operator-class",
        kube_namespace,
        "--kubeconfig",
        str(kube.kubeconfig),
    )
    result = json.loads(kquota(*arguments, "--format", "json", code=1).stdout)
    kubernetes, fine, secretless, sly = result["parts"]
    assert {check["health"] for check in kubernetes["checks"]} == {"ok"}
    assert all(check["health"] != "failed" for check in fine["checks"])
    assert len(fine["clusterId"]) == 22
    assert "there is no Secret" in secretless["checks"][0]["found"]
    assert "references such as" in sly["checks"][0]["found"]
    text = kquota(*arguments, code=1).stdout
    assert f"QuotaCluster {kube_namespace}-fine" in text


def answer(kube: KubeCluster, namespace: str, ready: str, reason: str) -> threading.Thread:
    """Handle the next request like an operator, from another thread."""
    api = kube.connect()
    path = f"{QUOTAS.format(namespace)}/alice"
    deadline = time.monotonic() + 240
    before = api.get(path).need()["metadata"].get("annotations", {})

    def work() -> None:
        while time.monotonic() < deadline:
            now = api.get(path).need()["metadata"].get("annotations", {})
            requested_at = now.get("kafka-quotas.io/requestedAt")
            if requested_at and now != before:
                condition = {
                    "type": "Ready",
                    "status": ready,
                    "reason": reason,
                    "message": "planted",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                status = {"lastHandledReconcileAt": requested_at, "conditions": [condition]}
                patch = "application/merge-patch+json"
                api.call("PATCH", f"{path}/status", {"status": status}, kind=patch).need()
                break
        api.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("ready", "reason", "code"),
    [("True", "Synced", 0), ("False", "BrokerRejected", 1), ("False", "GuardRefused", 3)],
)
def test_reconcile_waits_for_its_own_request_and_exits_by_the_condition(
    kube: KubeCluster, kube_namespace: str, ready: str, reason: str, code: int
) -> None:
    put(kube, kube_namespace, "alice")
    thread = answer(kube, kube_namespace, ready, reason)
    where = ("-n", kube_namespace, "--kubeconfig", str(kube.kubeconfig))
    done = kquota("reconcile", "alice", *where, "--wait", "--timeout", "60s", code=code)
    thread.join()
    assert reason in done.stdout
    patch = json.dumps({"metadata": {"finalizers": None}})
    kube.kubectl("-n", kube_namespace, "patch", "ckq", "alice", "--type=merge", "-p", patch)


def test_reconcile_without_an_operator_reports_a_timeout(
    kube: KubeCluster, kube_namespace: str
) -> None:
    put(kube, kube_namespace, "alice")
    where = ("-n", kube_namespace, "--kubeconfig", str(kube.kubeconfig))
    done = kquota("reconcile", "alice", *where, "--wait", "--timeout", "1s", code=1)
    assert "did not handle the request within 1 s" in done.stderr
    assert "reconciliation requested" in kquota("reconcile", "alice", *where).stderr
    assert "not found" in kquota("reconcile", "nobody", *where, code=1).stderr
    patch = json.dumps({"metadata": {"finalizers": None}})
    kube.kubectl("-n", kube_namespace, "patch", "ckq", "alice", "--type=merge", "-p", patch)


@pytest.mark.usefixtures("clusters")
def test_an_override_is_recorded_for_the_operator_and_listed_and_ended(
    kube: KubeCluster, kube_namespace: str
) -> None:
    cluster = f"{kube_namespace}-fine"
    status = {"status": {"clusterId": f"id-{kube_namespace}"}}
    patch = "application/merge-patch+json"
    path = f"/apis/kafka-quotas.io/v1alpha1/quotaclusters/{cluster}/status"
    kube.api.call("PATCH", path, status, kind=patch).need()
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
                lambda stored: replace(stored, owned=stored.owned.with_changes([applied])),
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
