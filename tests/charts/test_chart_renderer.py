"""The rendered chart: each option renders, a real API server accepts it, and settings are in the right objects."""

import json
from typing import Any

import pytest
import yaml

from tests.charts.chart_renderer import (
    CHART,
    NAMESPACE,
    RELEASE,
    VALUES,
    Manifest,
    container,
    helm,
    is_hook,
    of_kind,
    only,
    template,
    with_values,
)
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

WRITABLE = "/tmp"  # noqa: S108 - the only writable folder of a pod
FULLNAME = f"{RELEASE}-kafka-quota-reconciler"
CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


def pod_specs(objects: list[Manifest]) -> list[Any]:
    """The pod templates of all workloads."""
    inside = [
        manifest["spec"]["template"]["spec"]
        for manifest in objects
        if manifest["kind"] in ("Deployment", "Job")
    ]
    return inside + [manifest["spec"] for manifest in of_kind(objects, "Pod")]


@pytest.mark.parametrize("name", VALUES)
def test_every_toggle_passes_lint(name: str) -> None:
    answer = helm("lint", "--strict", str(CHART), "--values", str(VALUES[name]))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def accepted() -> set[str]:
    """The objects that the API server has accepted, as JSON: most objects are equal for all values."""
    return set()


@pytest.mark.parametrize("name", VALUES)
def test_every_toggle_is_accepted_by_an_api_server(
    name: str, chart_kube: KubeCluster, accepted: set[str]
) -> None:
    new_objects = [text for obj in with_values(name) if (text := json.dumps(obj)) not in accepted]
    if new_objects:
        chart_kube.kubectl(
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            "-",
            input="\n---\n".join(new_objects),
        )
    accepted.update(new_objects)


@pytest.mark.parametrize("name", VALUES)
def test_names_fit_the_limit_and_are_unique(name: str) -> None:
    objects = with_values(name)
    named = [
        (manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
        for manifest in objects
    ]
    assert len(named) == len(set(named))
    assert [row for row in named if len(row[2]) > (253 if row[0] in CLUSTER_SCOPED else 63)] == []


@pytest.mark.parametrize("name", VALUES)
def test_every_pod_is_restricted_and_has_no_user_of_its_own(name: str) -> None:
    for spec in pod_specs(with_values(name)):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert ("runAsUser" in spec["securityContext"]) == (name == "fixed-user")
        for pod_container in spec["containers"]:
            assert pod_container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounts = {mount["name"]: mount["mountPath"] for mount in pod_container["volumeMounts"]}
            assert mounts["tmp"] == WRITABLE
            assert {volume["name"] for volume in spec["volumes"]} >= set(mounts)
            assert pod_container["resources"]["limits"]["memory"]


def test_a_namespaced_installation_creates_no_cluster_scoped_object() -> None:
    objects = with_values("namespaced-only")
    assert [manifest["kind"] for manifest in objects if manifest["kind"] in CLUSTER_SCOPED] == []
    assert {manifest["metadata"]["namespace"] for manifest in objects} == {NAMESPACE, "kqr-one"}
    arguments = container(objects)["args"]
    assert "--quota-clusters=/etc/kquota/quotaclusters/quotaclusters.yaml" in arguments
    text = only(objects, "ConfigMap")["data"]["quotaclusters.yaml"]
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(text) if document]
    assert names == ["prod", "test"]


def test_the_rules_and_the_dashboard_equal_the_files() -> None:
    rules = only(with_values("prometheusrule"), "PrometheusRule")
    file = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    assert rules["spec"]["groups"] == file["groups"]
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    board = only(with_values("dashboard"), "ConfigMap")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    document = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    assert json.loads(board["data"]["kafka-quotas.json"]) == document


def test_the_webhook_admits_everything_when_it_does_not_answer() -> None:
    for name in ("webhook-cert-manager", "webhook-issuer", "webhook-given-certificate"):
        (hook,) = only(with_values(name), "ValidatingWebhookConfiguration")["webhooks"]
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
        assert hook["timeoutSeconds"] <= 5


def test_a_webhook_is_called_for_the_watched_namespaces_only() -> None:
    (hook,) = only(with_values("webhook-issuer"), "ValidatingWebhookConfiguration")["webhooks"]
    assert hook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["kqr-one"]}
    ]
    (hook,) = only(with_values("webhook-cert-manager"), "ValidatingWebhookConfiguration")[
        "webhooks"
    ]
    assert "namespaceSelector" not in hook


def test_every_object_that_releases_documents_is_a_hook_and_is_deleted_afterwards() -> None:
    hooks = [
        manifest
        for manifest in with_values("defaults")
        if is_hook(manifest) and manifest["kind"] != "Pod"
    ]
    assert {manifest["kind"] for manifest in hooks} == {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "Job",
    }
    for hook in hooks:
        annotations = hook["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-delete"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    (job,) = pod_specs([only(hooks, "Job")])
    assert job["containers"][0]["args"] == [
        "operator",
        "release",
        f"--operator-namespace={NAMESPACE}",
        "--all",
        f"--stop-deployment={FULLNAME}",
    ]
    (narrow,) = pod_specs([only(with_values("watch-two-namespaces"), "Job")])
    assert narrow["containers"][0]["args"][3:5] == ["--namespace=kqr-one", "--namespace=kqr-two"]
    assert of_kind(with_values("no-release-hook"), "Job") == []


def test_policies_apply_to_the_watched_namespaces_only() -> None:
    bindings = of_kind(with_values("guard-rails-warn"), "ValidatingAdmissionPolicyBinding")
    assert {
        binding["metadata"]["name"].rpartition(".")[0].removeprefix(f"{FULLNAME}-"): binding[
            "spec"
        ]["validationActions"]
        for binding in bindings
    } == {
        "finalizer": ["Deny"],
        "spec": ["Deny"],
        "status": ["Deny"],
        "metadata": ["Deny"],
        "guard-rails": ["Warn"],
        "lease": ["Deny"],
    }
    for binding in bindings:
        if "-lease." in binding["metadata"]["name"]:
            (home,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"].values()
            assert home == NAMESPACE
            continue
        (expression,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert expression["values"] == ["kqr-one", "kqr-two"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--set", "replicaCount=2,leaderElection.enabled=false"), "needs leaderElection.enabled"),
        (("--set", "webhook.enabled=true"), "needs a certificate"),
        (
            ("--set", "webhook.enabled=true,webhook.certificate.existingSecret=x"),
            "needs webhook.certificate.caBundle",
        ),
        (
            (
                "--set",
                "webhook.enabled=true,webhook.certificate.existingSecret=x,webhook.certificate.certManager.enabled=true",
            ),
            "not both",
        ),
        (("--set", "quotaClusters.fromFile.enabled=true"), "needs documents or existingConfigMap"),
        (
            (
                "--values",
                str(VALUES["namespaced-only"]),
                "--set",
                "quotaClusters.fromFile.existingConfigMap=x",
            ),
            "not both",
        ),
        (
            ("--set", "podDisruptionBudget.enabled=true,podDisruptionBudget.maxUnavailable=null"),
            "needs minAvailable or maxUnavailable",
        ),
        (("--set", "replica=2"), "replica"),
        (("--set", "operator.deletionTimeout=soon"), "deletionTimeout"),
        (("--kube-version", "1.31.9"), "kubeVersion"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else None,
)
def test_values_that_cannot_work_are_refused_with_a_message(
    arguments: tuple[str, ...], why: str
) -> None:
    answer = template(*arguments)
    assert answer.returncode != 0
    assert why in answer.stderr
