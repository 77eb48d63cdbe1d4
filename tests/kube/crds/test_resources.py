"""Resources in a real API server: immutable fields, unknown fields, field managers, sizes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.manifest.document import from_resource
from reconciler.quota.entity import (
    ABSENT,
    MAX_DECLARED_NAME_BYTES,
    MAX_NAME_BYTES,
    Entity,
    entity_text,
)
from reconciler.quota.keys import Key
from tests.kube.crds.judging import GROUP, judge
from tests.kube.crds.resources import condition, create, full_keys, set_status
from tests.manifest.samples import cluster, quota
from tests.servers.kube.api import MERGE_PATCH, Answer
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

Change = Callable[[dict[str, Any]], Answer]


@pytest.fixture
def change(kube: KubeCluster, kube_namespace: str) -> Change:
    """Merge fields into the spec of a quota of user alice with client-id app in cluster prod."""
    document = quota(entity={"user": {"name": "alice"}, "clientId": {"name": "app"}})
    path = create(kube, document, namespace=kube_namespace)
    return lambda spec: kube.api.call("PATCH", path, {"spec": spec}, kind=MERGE_PATCH)


# ---- what cannot be changed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "entity",
    [
        {"user": {"name": "bob"}},
        {"clientId": None},
        {"user": {"name": None, "default": True}},
        {"clientId": {"name": "App"}},
        {"user": None, "clientId": None, "ip": {"name": "10.0.0.7"}},
    ],
)
def test_the_entity_cannot_be_changed(change: Change, entity: dict[str, Any]) -> None:
    answer = change({"entity": entity})
    assert answer.status == 422
    assert "entity cannot be changed; create another ClientQuota" in answer.message


def test_the_cluster_cannot_be_changed(change: Change) -> None:
    answer = change({"clusterRef": {"name": "other"}})
    assert answer.status == 422
    assert "clusterRef cannot be changed; create another ClientQuota" in answer.message
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == "spec.clusterRef"
    assert cause["reason"] == "FieldValueForbidden"


def test_a_limit_cannot_be_changed_to_one_that_the_entity_cannot_carry(change: Change) -> None:
    answer = change({"limits": {"connectionCreationRate": 5}})
    assert "an ip supports only connectionCreationRate" in answer.message


# ---- what is no field ---------------------------------------------------------------------------


def test_unknown_fields_of_an_older_client_are_dropped_and_not_stored(
    kube: KubeCluster, kube_namespace: str
) -> None:
    path = f"{GROUP}/namespaces/{kube_namespace}/clientquotas"
    document = quota(odd={"deep": 1})
    document["metadata"]["namespace"] = kube_namespace
    stored = kube.api.call("POST", path, document, query={"fieldValidation": "Ignore"}).need()
    assert "odd" not in stored["spec"]
    from_resource(stored)


# ---- who writes what ----------------------------------------------------------------------------


def test_a_spec_is_written_without_status_and_a_status_without_spec(
    kube: KubeCluster, kube_namespace: str
) -> None:
    document = quota()
    document["status"] = {"entity": "forged"}
    path = create(kube, document, namespace=kube_namespace)
    assert "status" not in kube.api.get(path).need()
    kube.api.call("PATCH", path, {"status": {"entity": "forged"}}, kind=MERGE_PATCH).need()
    assert "status" not in kube.api.get(path).need()
    both = {"status": {"entity": "user=alice"}, "spec": {"suspend": True}}
    after = kube.api.call("PATCH", f"{path}/status", both, kind=MERGE_PATCH).need()
    assert after["status"] == {"entity": "user=alice"}
    assert "suspend" not in after["spec"]
    assert after["metadata"]["generation"] == 1, "a status does not change the generation"


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [condition("Ready", "Perhaps", "A", "b")]},
        {"conditions": [condition("Ready", "True", "no reason", "b")]},
        {"conditions": [condition("Ready", "True", "A", "b")] * 2},
        {"keys": [{"key": "odd"}]},
        {"observedGeneration": -1},
    ],
)
def test_a_malformed_status_is_refused(
    kube: KubeCluster, kube_namespace: str, status: dict[str, Any]
) -> None:
    path = create(kube, quota(), namespace=kube_namespace)
    answer = kube.api.call("PATCH", f"{path}/status", {"status": status}, kind=MERGE_PATCH)
    assert answer.status == 422, answer.message


# ---- how large ----------------------------------------------------------------------------------


def test_names_of_ten_thousand_characters_are_stored_and_selected(
    kube: KubeCluster, kube_namespace: str
) -> None:
    name = "CN=" + "payments," * 56
    document = quota(entity={"user": {"name": name}})
    path = create(kube, document, namespace=kube_namespace)
    stored = from_resource(kube.api.get(path).need())
    assert stored.declaration.entity == (name, ABSENT, ABSENT)
    escaped = name.replace("=", "\\=").replace(",", "\\,")
    completed = kube.kubectl(
        "get",
        "ckq",
        "-n",
        kube_namespace,
        "-o",
        "name",
        "--field-selector",
        f"spec.entity.user.name={escaped}",
    )
    assert completed.stdout == "clientquota.kafka-quotas.io/a\n"


# One byte with an escape of six characters; one without; characters of several bytes.
@pytest.mark.parametrize("letter", ["\x01", "u", "é", "\u2028", "😀"])
def test_the_longest_declarable_names_are_stored_with_their_status(
    kube: KubeCluster, kube_namespace: str, letter: str
) -> None:
    name = letter * (MAX_DECLARED_NAME_BYTES // len(letter.encode()))
    document = quota(entity={"user": {"name": name}, "clientId": {"name": name}})
    path = create(kube, document, namespace=kube_namespace)
    text = entity_text(Entity((name, name, ABSENT)))
    stored = set_status(kube, path, {"entity": text, "keys": full_keys()})
    assert stored["status"]["entity"] == text
    assert from_resource(stored).declaration.entity == (name, name, ABSENT)


def test_a_status_has_space_for_its_largest_content(kube: KubeCluster, kube_namespace: str) -> None:
    path = create(kube, quota(), namespace=kube_namespace)
    conditions = [condition(f"Kind{i}", "True", "R" * 1024, "m" * 32768) for i in range(16)]
    stored = set_status(kube, path, {"keys": full_keys(), "conditions": conditions})
    assert len(stored["status"]["conditions"]) == 16
    assert stored["status"]["keys"] == full_keys()


def test_a_cluster_with_every_list_full_is_within_the_cost_of_its_rules(
    kube: KubeCluster, kube_namespace: str
) -> None:
    """64 tenants of 64 namespaces, paths and patterns each, 64 of everything else."""
    forms = [
        "user",
        "user+clientId",
        "user+defaultClientId",
        "defaultUser",
        "defaultUser+clientId",
        "defaultUser+defaultClientId",
        "clientId",
        "defaultClientId",
    ]
    pattern = {"forms": forms, "user": {"prefix": "u" * 10}, "clientId": {"exact": "c" * 10}}
    bounds = {"min": "1Ki", "max": "1Gi"}
    limits = {
        "producerByteRate": bounds,
        "consumerByteRate": bounds,
        "connectionCreationRate": bounds,
        "requestPercentage": {"min": 1, "max": 2},
        "controllerMutationRate": {"min": 1, "max": 2},
    }
    exception = {
        "reason": "r" * 100,
        "until": "2026-12-31T00:00:00Z",
        "keys": [str(key) for key in Key],
    }
    tenant = {
        "namespaces": [f"namespace-{i}" for i in range(64)],
        "paths": [f"path-{i}" for i in range(64)],
        "entities": [pattern] * 64,
        "bounds": limits,
        "allow": ["Delete", "Suspend"],
    }
    document = cluster(
        properties={f"key-{i}": "v" * 100 for i in range(128)},
        scope=[pattern] * 64,
        ignore=[{**pattern, **exception}] * 64,
        guards={"bounds": [{**pattern, "limits": limits}] * 64},
        tenants=[tenant] * 64,
    )
    assert len(json.dumps(document)) > 1_000_000
    assert judge(kube.api, document)
    document["metadata"]["name"] = kube_namespace
    path = create(kube, document)
    answer = kube.api.call("PATCH", path, {"spec": {"suspend": True}}, kind=MERGE_PATCH)
    assert answer.need()["metadata"]["generation"] == 2
    kube.api.call("DELETE", path).need()


def test_names_in_patterns_may_have_the_length_of_kafka_names(kube: KubeCluster) -> None:
    longest = {
        "user": {"exact": "u" * MAX_NAME_BYTES},
        "clientId": {"prefix": "c" * MAX_NAME_BYTES},
    }
    assert judge(kube.api, cluster(scope=[longest] * 8, ignore=[{**longest, "reason": "r"}] * 8))
