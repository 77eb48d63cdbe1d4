"""The CRDs in an API server and in kubectl: accepted, documented, listed and selectable."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from reconciler.manifest import explanation
from tests.kube.crds.documents import schema_of
from tests.kube.crds.judging import dry_run, reasons_of
from tests.kube.crds.resources import PLURALS, create, in_default
from tests.manifest.rules.test_client_quota import BROKEN, RULES
from tests.manifest.samples import cluster, quota
from tests.servers.kube.cluster import KubeCluster
from tools.file_schemas import CRDS

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("kind", CRDS)
def test_the_api_server_accepts_the_definition_without_a_warning_condition(
    kube: KubeCluster, kind: str
) -> None:
    """CEL within its cost limit, unused names, a structural schema."""
    path = (
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURALS[kind]}.kafka-quotas.io"
    )
    crd = kube.api.get(path).need()
    assert {
        condition["type"]: condition["status"] for condition in crd["status"]["conditions"]
    } == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["storedVersions"] == ["v1alpha1"]
    (version,) = crd["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"] == schema_of(kind), "the server changes nothing"


def undocumented(node: Mapping[str, Any], at: str) -> Iterator[str]:
    if "description" not in node and "$ref" not in node and "allOf" not in node:
        yield at
    for name, child in node.get("properties", {}).items():
        yield from undocumented(child, f"{at}.{name}")
    if "items" in node:
        yield from undocumented(node["items"], f"{at}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_has_a_description_for_kubectl_explain(kube: KubeCluster, kind: str) -> None:
    def is_published() -> bool:
        """Published shortly after the definition is established, one kind after the other."""
        return kube.kubectl("explain", kind, check=False).returncode == 0

    kube.wait_until(is_published, f"explain {kind}")
    published = kube.api.get("/openapi/v3/apis/kafka-quotas.io/v1alpha1").need()
    schema = published["components"]["schemas"][f"io.kafka-quotas.v1alpha1.{kind}"]
    assert list(undocumented(schema, kind)) == []
    text = kube.kubectl("explain", f"{kind}.spec").stdout
    for name in schema["properties"]["spec"]["properties"]:
        assert f"\n  {name}\t" in text


SELECTED = {
    "spec.clusterRef.name=other": "other",
    "spec.entity.user.name=alice": "alice",
    "spec.entity.clientId.name=app": "app",
    "spec.entity.ip.name=10.0.0.7": "address",
    "spec.clusterRef.name=prod,spec.entity.user.name=": "app address",
}


def test_quotas_are_selected_by_cluster_and_by_name_in_the_entity(
    kube: KubeCluster, kube_namespace: str
) -> None:
    slots: dict[str, dict[str, Any]] = {
        "alice": {"user": {"name": "alice"}},
        "app": {"clientId": {"name": "app"}},
        "address": {"ip": {"name": "10.0.0.7"}},
        "other": {"user": {"name": "bob"}},
    }
    for name, entity in slots.items():
        limits = {"connectionCreationRate": 5} if "ip" in entity else {"producerByteRate": 5}
        where = "other" if name == "other" else "prod"
        document = quota(entity=entity, limits=limits, clusterRef={"name": where})
        document["metadata"]["name"] = name
        create(kube, document, namespace=kube_namespace)
    for selector, names in SELECTED.items():
        answer = kube.kubectl(
            "get",
            "ckq",
            "-n",
            kube_namespace,
            "--field-selector",
            selector,
            "-o",
            "jsonpath={.items[*].metadata.name}",
        )
        assert sorted(answer.stdout.split()) == sorted(names.split()), selector
    refused = kube.kubectl("get", "ckq", "--field-selector", "spec.suspend=true", check=False)
    assert "field label not supported: spec.suspend" in refused.stderr


def test_clusters_are_selected_by_class_and_policy(
    kube: KubeCluster, kube_namespace: str, own_cluster: str
) -> None:
    for selector, is_match in {
        "spec.operatorClass=blue,spec.policy=Sync": True,
        "spec.operatorClass=": False,
    }.items():
        names = kube.kubectl("get", "qcl", "--field-selector", selector, "-o", "name").stdout
        assert (f"/{kube_namespace}\n" in names) is is_match


def spoken(name: str, document: dict[str, Any]) -> bool:
    """Whether a rule, and not the schema before it, refuses the document."""
    return RULES[name].cel != "" and explanation._validator(document["kind"]).is_valid(document)


@pytest.mark.parametrize(
    ("name", "document"),
    [(name, document) for name, document, _ in BROKEN if spoken(name, document)],
)
def test_a_rejection_by_a_rule_contains_the_message_of_the_table(
    kube: KubeCluster, name: str, document: dict[str, Any]
) -> None:
    answer = dry_run(kube.api, in_default(document))
    assert RULES[name].message in answer.message


@pytest.mark.parametrize("text", ["20MB", "10 MiB/s", "1.5kb", "7mi"])
def test_a_number_with_a_unit_is_refused_in_the_words_of_validate(
    kube: KubeCluster, text: str
) -> None:
    bounds = {"producerByteRate": {"min": text, "max": "1Gi"}}
    for document in (
        quota(limits={"producerByteRate": text, "consumerByteRate": text}),
        quota(entity={"ip": {"default": True}}, limits={"connectionCreationRate": text}),
        cluster(brokerCapacity={"ingress": text}, guards={"bounds": [{"limits": bounds}]}),
    ):
        message = dry_run(kube.api, in_default(document)).message
        reasons = reasons_of(document)
        assert [reason for reason in reasons if reason.partition(": ")[2] not in message] == []
        assert message.count("Invalid value") == len(reasons), message
