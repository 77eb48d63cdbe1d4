"""A release on a real API server that enforces the restricted profile: install, test, upgrade, roll back, uninstall.

No container runs (see tests/servers/kube/pods.py): this shows that objects are admitted, rolled out, restricted,
extended and removed, in this order, by helm itself.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.charts.chart_renderer import CHART, RELEASE
from tests.charts.release import FULLNAME
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
WAIT = ("--wait", "--timeout", "240s")
OURS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "validatingwebhookconfigurations"
)
INSIDE = "deployments,jobs,pods,serviceaccounts,roles,rolebindings,services,configmaps,poddisruptionbudgets"
LABEL = f"app.kubernetes.io/instance={RELEASE}"
QUOTA = {
    "apiVersion": "kafka-quotas.io/v1alpha1",
    "kind": "ClientQuota",
    "metadata": {"name": "alice"},
    "spec": {
        "clusterRef": {"name": "prod"},
        "entity": {"user": {"name": "alice"}},
        "limits": {"producerByteRate": "10Mi"},
    },
}


@pytest.fixture(scope="module")
def fresh_kube() -> Iterator[KubeCluster]:
    """A Kubernetes without CRDs of kquota, with a substitute for the kubelet."""
    with KubeCluster() as cluster, cluster.pods_become_ready():
        yield cluster


@pytest.fixture
def home(fresh_kube: KubeCluster) -> Iterator[str]:
    """A restricted namespace for a release; the remaining objects are deleted at the end."""
    name = fresh_kube.fresh_namespace(labels=RESTRICTED)
    yield name
    fresh_kube.helm("uninstall", RELEASE, "-n", name, "--ignore-not-found", "--no-hooks", *WAIT)
    for crd in names(fresh_kube, "crds"):
        if crd.endswith(".kafka-quotas.io"):
            fresh_kube.kubectl("delete", "crd", crd, "--timeout=240s")
    fresh_kube.api.call("DELETE", f"/api/v1/namespaces/{name}")


def names(kube: KubeCluster, kinds: str, *arguments: str) -> list[str]:
    stdout = kube.kubectl("get", kinds, *arguments, "-o", "name").stdout
    return sorted(line.rpartition("/")[2] for line in stdout.split())


def release_names(kube: KubeCluster, home: str) -> list[str]:
    """All objects with the release's label, except CRDs."""
    return names(kube, OURS, "-l", LABEL) + names(kube, INSIDE, "-n", home, "-l", LABEL)


def revision(kube: KubeCluster, home: str) -> int:
    document = json.loads(kube.helm("list", "-n", home, "-o", "json").stdout)
    return int(document[0]["revision"])


def test_a_release_is_installed_upgraded_and_removed_and_only_the_objects_to_keep_remain(
    fresh_kube: KubeCluster, home: str
) -> None:
    kube = fresh_kube
    kube.helm("install", RELEASE, str(CHART), "-n", home, *WAIT)
    kube.kubectl("-n", home, "rollout", "status", f"deployment/{FULLNAME}", "--timeout=240s")
    kube.wait_established("crd/clientquotas.kafka-quotas.io")
    stdout = kube.helm("get", "notes", RELEASE, "-n", home).stdout
    assert "watches all namespaces" in stdout

    # The admission plugin for accounts and tokens is disabled here, so a pod runs with the account of the chart.
    pods = json.loads(kube.kubectl("-n", home, "get", "pods", "-o", "json").stdout)["items"]
    assert [pod["spec"]["serviceAccountName"] for pod in pods] == [FULLNAME]

    kube.apply(QUOTA)
    wide = names(kube, OURS, "-l", LABEL)
    assert f"{FULLNAME}-documents.{home}" in wide

    kube.helm(
        "upgrade",
        RELEASE,
        str(CHART),
        "-n",
        home,
        "--set",
        "watch.namespaces={default}",
        "--set",
        "replicaCount=2",
        *WAIT,
    )
    narrow = names(kube, OURS, "-l", LABEL)
    assert f"{FULLNAME}-documents.{home}" not in narrow
    assert f"{FULLNAME}-documents" in names(kube, "roles", "-n", "default", "-l", LABEL)
    assert revision(kube, home) == 2

    kube.helm("rollback", RELEASE, "1", "-n", home, *WAIT)
    assert names(kube, OURS, "-l", LABEL) == wide
    assert names(kube, "roles", "-n", "default", "-l", LABEL) == []

    kube.helm("uninstall", RELEASE, "-n", home, *WAIT)
    assert release_names(kube, home) == []
    events = json.loads(kube.kubectl("-n", home, "get", "events", "-o", "json").stdout)["items"]
    release_job = {
        event["reason"]
        for event in events
        if event["involvedObject"]["name"] == f"{FULLNAME}-release"
    }
    assert release_job == {"Completed", "SuccessfulCreate"}, "it runs before objects are deleted"
    assert names(kube, "clientquotas", "-A") == ["alice"]
    assert "clientquotas.kafka-quotas.io" in names(kube, "crds")

    # Remaining CRDs do not prevent a new installation.
    kube.helm("install", RELEASE, str(CHART), "-n", home, *WAIT)
    assert names(kube, "clientquotas", "-A") == ["alice"]


def test_pods_that_are_not_restricted_are_refused_in_that_namespace(
    fresh_kube: KubeCluster, home: str
) -> None:
    # The counter-check: the namespace enforces its profile, which a less restrictive values file shows.
    answer = fresh_kube.helm(
        "install",
        RELEASE,
        str(CHART),
        "-n",
        home,
        "--set",
        "securityContext.allowPrivilegeEscalation=true",
        "--wait",
        "--timeout",
        "3s",
        check=False,
    )
    assert answer.returncode != 0

    def refused() -> bool:
        events = fresh_kube.kubectl("-n", home, "get", "events", "-o", "json").stdout
        return "violates PodSecurity" in events

    fresh_kube.wait_until(refused, "refuse the pod", seconds=240)


def test_an_upgrade_also_upgrades_the_definitions_and_an_uninstall_removes_them_if_configured(
    fresh_kube: KubeCluster, home: str, tmp_path: Path
) -> None:
    kube = fresh_kube
    go_along = ("-n", home, "--set", "crds.keep=false", *WAIT)
    kube.helm("install", RELEASE, str(CHART), *go_along)
    kube.apply(QUOTA)
    newer = tmp_path / "chart"
    shutil.copytree(CHART, newer)
    definition = newer / "templates" / "crds" / "kafka-quotas.io_clientquotas.yaml"
    text = definition.read_text(encoding="utf-8")
    added = "      additionalPrinterColumns:\n        - name: Added\n          type: string\n          jsonPath: .spec.deletionPolicy\n"
    definition.write_text(
        text.replace("      additionalPrinterColumns:\n", added), encoding="utf-8"
    )
    kube.helm("upgrade", RELEASE, str(newer), *go_along)

    def has_column() -> bool:
        return "ADDED" in kube.kubectl("get", "clientquotas").stdout

    kube.wait_until(has_column, "show the new column", seconds=240)
    kube.helm("uninstall", RELEASE, "-n", home, *WAIT)
    assert [crd for crd in names(kube, "crds") if crd.endswith(".kafka-quotas.io")] == []
