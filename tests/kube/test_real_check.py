"""The operator's table of rights against the chart's Roles: check asks for the granted rights, in each scope."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.kube.cluster import KubeCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

CHART = Path(__file__).parents[2] / "charts" / "kafka-quota-reconciler"
RIGHTS = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


def rendered(kube: KubeCluster, namespace: str, *values: str) -> list[dict[str, Any]]:
    """The chart's accounts, roles and bindings, without those of its hooks."""
    text = kube.helm("template", "kquota", str(CHART), "--namespace", namespace, *values).stdout
    as_json = kube.kubectl(
        "create", "--dry-run=client", "--validate=false", "-f", "-", "-o", "json", input=text
    ).stdout
    objects = []
    decoder = json.JSONDecoder()
    while as_json.strip():
        obj, end = decoder.raw_decode(as_json.lstrip())
        as_json = as_json.lstrip()[end:]
        objects += obj["items"] if obj["kind"] == "List" else [obj]
    return [
        item
        for item in objects
        if item["kind"] in RIGHTS and "helm.sh/hook" not in item["metadata"].get("annotations", {})
    ]


def list_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


@pytest.mark.parametrize("everywhere", [True, False])
def test_the_chart_grants_every_right_that_the_operator_uses(
    kube: KubeCluster, kube_namespace: str, everywhere: bool
) -> None:
    scope = [] if everywhere else ["--set", f"watch.namespaces={{{kube_namespace}}}"]
    objects = rendered(kube, kube_namespace, *scope)
    kube.kubectl("apply", "-f", "-", input=json.dumps(list_of(objects)))
    account = next(obj for obj in objects if obj["kind"] == "ServiceAccount")
    lease = next(
        name
        for obj in objects
        if obj["kind"] == "Role"
        for rule in obj["rules"]
        if rule["resources"] == ["leases"]
        for name in rule.get("resourceNames", ())
    )
    try:
        path = kube.kubeconfig_for(kube_namespace, account["metadata"]["name"])
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "reconciler",
                "operator",
                "check",
                "--format",
                "json",
                "--operator-namespace",
                kube_namespace,
                "--lease-name",
                lease,
                "--operator-class",
                kube_namespace,
                "--kubeconfig",
                str(path),
                *([] if everywhere else ["--namespace", kube_namespace]),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
    finally:
        kube.kubectl("delete", "-f", "-", input=json.dumps(list_of(objects)))
    (kubernetes,) = json.loads(done.stdout)["parts"]
    refused = [check for check in kubernetes["checks"] if check["health"] == "failed"]
    assert refused == []
    assert len(kubernetes["checks"]) > 15
