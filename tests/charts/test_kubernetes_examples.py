"""The manifests of examples/kubernetes: accepted by a real API server, shown by kubectl, valid for Argo CD and Flux."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.manifest.document import from_resource
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.grants import judge
from tests.charts.chart_renderer import CHART
from tests.servers.kube.cluster import KubeCluster

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"
OURS = ("quotacluster.yaml", "tenant.yaml", "clientquotas.yaml", "fleet.yaml")
GITOPS = ("argo-cd/applications.yaml", "flux/kustomizations.yaml")
FORMS = {
    (user, client_id)
    for user in ("name", "default", None)
    for client_id in ("name", "default", None)
} - {(None, None)}
GROUP = "payments-developers"


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def of_gitops(name: str) -> list[dict[str, Any]]:
    """Objects of a file that are not Kubernetes' own."""
    return [document for document in objects(name) if document["apiVersion"] != "v1"]


def slot(entity: dict[str, Any], name: str) -> str | None:
    return next(iter(entity[name]), None) if name in entity else None


@pytest.fixture(scope="module")
def example_kube() -> Iterator[KubeCluster]:
    """A Kubernetes with the CRDs of kquota, and the examples in the order of their README."""
    with KubeCluster() as cluster:
        cluster.install_crds()
        for name in OURS:
            cluster.kubectl("apply", "--validate=strict", "-f", str(FOLDER / name))
        yield cluster


def test_every_form_of_an_entity_has_one_example() -> None:
    entities = [
        document["spec"]["entity"]
        for document in objects("clientquotas.yaml")
        if document["kind"] == "ClientQuota"
    ]
    clients = [
        (slot(entity, "user"), slot(entity, "clientId"))
        for entity in entities
        if "ip" not in entity
    ]
    addresses = [slot(entity, "ip") for entity in entities if "ip" in entity]
    assert (len(clients), set(clients)) == (len(FORMS), FORMS)
    assert sorted(map(str, addresses)) == ["default", "name"]


def test_the_grants_of_the_cluster_cover_every_document() -> None:
    (cluster,) = objects("quotacluster.yaml")
    tenants = [grant.tenant for grant in from_spec("prod", cluster["spec"]).grants]
    documents = [
        document
        for name in ("clientquotas.yaml", "tenant.yaml", "fleet.yaml")
        for document in objects(name)
        if document["kind"] == "ClientQuota"
    ]
    for document in documents:
        verdict = judge(from_resource(document).declaration, tenants)
        assert (verdict.granted, verdict.messages) == (True, ()), document["metadata"]["name"]
        elsewhere = copy.deepcopy(document)
        elsewhere["metadata"]["namespace"] = "orders"
        assert not judge(from_resource(elsewhere).declaration, tenants).granted


def test_the_readme_names_every_file_and_no_other() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml")}
    assert {name for name in files if f"]({name})" not in text} == set()


@pytest.mark.parametrize("name", GITOPS)
def test_values_for_the_chart_are_values_that_it_has(name: str) -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    texts = [
        document["spec"].get("values")
        or document["spec"].get("source", {}).get("helm", {}).get("valuesObject")
        for document in of_gitops(name)
    ]
    (values,) = [text for text in texts if text]
    assert values["image"].keys() <= defaults["image"].keys()


@pytest.mark.integration
def test_kubectl_shows_each_limit_of_each_document(example_kube: KubeCluster) -> None:
    lines = example_kube.kubectl("get", "ckq", "--all-namespaces").stdout.splitlines()
    header = lines[0].split()
    assert header == [
        "NAMESPACE",
        "NAME",
        "CLUSTER",
        "CLUSTERS",
        "ENTITY",
        "PRODUCER",
        "CONSUMER",
        "REQUEST%",
        "MUTATION",
        "CONNECTION",
        "READY",
        "REASON",
        "AGE",
    ]
    start = {name: lines[0].index(name) for name in header}

    def cells(namespace: str, name: str) -> list[str]:
        (line,) = [line for line in lines if line.split()[:2] == [namespace, name]]
        limits = ("PRODUCER", "CONSUMER", "REQUEST%", "MUTATION", "CONNECTION")
        return [
            line[start[column] :].split(maxsplit=1)[0] if line[start[column]] != " " else ""
            for column in limits
        ]

    assert cells("platform", "user") == ["20Mi", "40Mi", "200", "5", ""]
    assert cells("platform", "address") == ["", "", "", "", "50"]
    assert cells("payments", "checkout") == ["20Mi", "40Mi", "", "", ""]
    assert len(lines) == 1 + 10 + 1 + 1


@pytest.mark.integration
def test_developers_of_a_tenant_may_change_quotas_of_their_namespace_alone(
    example_kube: KubeCluster,
) -> None:
    def may(verb: str, resource: str, namespace: str) -> bool:
        who = ("--as=ann", f"--as-group={GROUP}", "--namespace", namespace)
        answer = example_kube.kubectl("auth", "can-i", verb, resource, *who, check=False)
        return answer.stdout.strip() == "yes"

    assert may("create", "clientquotas.kafka-quotas.io", "payments")
    assert not may("create", "clientquotas.kafka-quotas.io", "platform")
    assert not may("update", "quotaclusters.kafka-quotas.io", "payments")
    assert not may("get", "secrets", "payments")


@pytest.mark.integration
def test_the_nightly_job_is_accepted(example_kube: KubeCluster) -> None:
    example_kube.kubectl(
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        str(FOLDER / "evidence-cronjob.yaml"),
    )


@pytest.mark.integration
def test_a_mistyped_field_is_refused(example_kube: KubeCluster) -> None:
    text = (FOLDER / "tenant.yaml").read_text(encoding="utf-8")
    answer = example_kube.kubectl(
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        check=False,
        input=text.replace("producerByteRate", "producerBytes"),
    )
    assert answer.returncode != 0
    assert "producerBytes" in answer.stderr
