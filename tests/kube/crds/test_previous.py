"""An upgrade of the CRDs from the previous release to `crds/` does not change stored objects.

`previous/` holds the CRDs of the last release. Only a release changes them: copy `crds/` there after it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.manifest.rules.client_quota import QUOTA_RULES
from tests.kube.crds import documents
from tests.kube.crds.documents import CRD_FOLDER, schema_of
from tests.kube.crds.resources import SINCE, condition, create, full_keys, set_status
from tests.manifest.rules.test_client_quota import ACCEPTED
from tests.manifest.samples import FORMS, cluster, quota
from tests.servers.kube.api import MERGE_PATCH
from tests.servers.kube.cluster import CRDS as NEW
from tests.servers.kube.cluster import KubeCluster
from tools.file_schemas import CRDS

PREVIOUS = Path(__file__).parent / "previous"
QUOTA_RULES_BY_ID = {rule.id: rule for rule in QUOTA_RULES}
ROOMIER = ("maxLength", "maxItems", "maxProperties", "maximum")
LOWER = ("minLength", "minItems", "minProperties", "minimum")
SAME = (
    "type",
    "format",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "nullable",
)


def narrowed(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[str]:
    """Changes that could make an existing valid object invalid."""
    for word in SAME:
        if before.get(word) != after.get(word):
            yield f"{at}: {word} was {before.get(word)} and is {after.get(word)}"
    for word in ROOMIER:
        if after.get(word, float("inf")) < before.get(word, float("inf")):
            yield f"{at}: {word} fell"
    for word in LOWER:
        if after.get(word, 0) > before.get(word, 0):
            yield f"{at}: {word} rose"
    if not set(after.get("required", ())) <= set(before.get("required", ())):
        yield f"{at}: more is required"
    if "enum" in after and not set(before.get("enum", ("anything",))) <= set(after["enum"]):
        yield f"{at}: a word is gone"
    if "pattern" in after and after["pattern"] != before.get("pattern"):
        yield f"{at}: another pattern"
    yield from _below(before, after, at)


def _below(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[str]:
    rules = {rule["rule"] for rule in before.get("x-kubernetes-validations", ())}
    for rule in after.get("x-kubernetes-validations", ()):
        if rule["rule"] not in rules:
            yield f"{at}: a new rule: {rule['message']}"
    for name, child in before.get("properties", {}).items():
        if name not in after.get("properties", {}):
            yield f"{at}.{name}: gone"
        else:
            yield from narrowed(child, after["properties"][name], f"{at}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(before.get(word), dict):
            yield from narrowed(before[word], after.get(word, {}), f"{at}[]")


def definition(folder: Path, kind: str) -> Any:
    return yaml.safe_load((folder / CRDS[kind]).read_text(encoding="utf-8"))["spec"]


BOUNDED = frozenset(
    f"ClientQuota.spec.entity.{slot}{fault}"
    for slot in ("user", "clientId")
    for fault in (
        ": a new rule: a name of more than 512 bytes cannot be declared",
        ".name: maxLength fell",
    )
)
"""With longer names one tenant could exhaust the operator. Stored ones stay, and their status reports it."""

SELECTION = frozenset(
    f"ClientQuota.spec: a new rule: {QUOTA_RULES_BY_ID[name].message}"
    for name in ("one-cluster", "cluster-kind-immutable", "cluster-limits")
)
"""Rules about newer fields. Each earlier document satisfies them: clusterRef was required."""


def test_a_document_of_the_previous_release_satisfies_the_rules_about_later_fields() -> None:
    assert "clusterRef" in schema_of("ClientQuota", PREVIOUS)["properties"]["spec"]["required"]
    for name in ("one-cluster", "cluster-limits"):
        broken = QUOTA_RULES_BY_ID[name].broken
        assert broken is not None
        assert broken(quota()["spec"]) is None


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_of_the_previous_release_exists_and_is_not_narrower(kind: str) -> None:
    """If a rule justifies it, list it in the changelog and here by name."""
    faults = set(narrowed(schema_of(kind, PREVIOUS), schema_of(kind), kind))
    assert faults == (BOUNDED | SELECTION if kind == "ClientQuota" else set())


@pytest.mark.parametrize("kind", CRDS)
def test_names_scope_and_selectable_fields_are_unchanged(kind: str) -> None:
    before, after = definition(PREVIOUS, kind), definition(CRD_FOLDER, kind)
    assert (before["group"], before["scope"]) == (after["group"], after["scope"])
    for word, value in before["names"].items():
        if isinstance(value, list):
            assert set(value) <= set(after["names"][word])
        else:
            assert value == after["names"][word]
    served = {entry["name"]: entry for entry in after["versions"]}
    for version in before["versions"]:
        now = served[version["name"]]
        assert now["served"]
        fields = [field["jsonPath"] for field in now["selectableFields"]]
        assert {field["jsonPath"] for field in version["selectableFields"]} <= set(fields)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"type": "number"}, "a: type was string and is number"),
        ({"maxLength": 5}, "a: maxLength fell"),
        ({"minLength": 5}, "a: minLength rose"),
        ({"enum": ["x"]}, "a: a word is gone"),
        ({"pattern": "^z$"}, "a: another pattern"),
        ({"x-kubernetes-validations": [{"rule": "false", "message": "no"}]}, "a: a new rule: no"),
    ],
)
def test_the_check_reports_narrower_fields(change: dict[str, Any], fault: str) -> None:
    before = {"type": "string", "maxLength": 10, "minLength": 1}
    assert list(narrowed(before, before | change, "a")) == [fault]


def test_the_check_reports_removed_and_newly_required_fields() -> None:
    before = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert list(narrowed(before, {"type": "object"}, "x")) == ["x.a: gone"]
    assert list(narrowed(before, before | {"required": ["a"]}, "x")) == ["x: more is required"]
    longer = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert list(narrowed(before, longer, "x")) == []


# ---- a real upgrade -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older() -> Iterator[KubeCluster]:
    """A cluster with the CRDs of the previous release."""
    with KubeCluster() as running:
        running.install_crds(PREVIOUS)
        yield running


def known_to(schema: Mapping[str, Any], document: Any) -> Any:
    """A document without fields that a schema does not have, which could not be stored."""
    if isinstance(document, list):
        return [known_to(schema.get("items", {}), item) for item in document]
    fields = schema.get("properties")
    if not isinstance(document, dict) or fields is None:
        return document
    return {
        name: known_to(fields[name], value) for name, value in document.items() if name in fields
    }


def stored_under_the_previous(kube: KubeCluster) -> list[str]:
    """Paths of resources of every form, with a full status."""
    all_documents = [
        document
        for document in ACCEPTED
        if document["kind"] in CRDS and "clusterSelector" not in document["spec"]
    ]
    all_documents += [
        quota(
            entity=form,
            limits={"connectionCreationRate": 5} if "ip" in form else {"producerByteRate": "1Gi"},
        )
        for form in FORMS
    ]
    # Longer than the current maximum: the API server accepts an unchanged value.
    all_documents.append(
        quota(entity={"user": {"name": "\x01" * 32_767}, "clientId": {"name": "é" * 16_383}})
    )
    full_cluster = cluster(**documents.FULL_CLUSTER)
    spec = schema_of("QuotaCluster", PREVIOUS)["properties"]["spec"]
    all_documents.append({**full_cluster, "spec": known_to(spec, full_cluster["spec"])})
    paths = []
    for number, document in enumerate(all_documents):
        named = {**document, "metadata": {"name": f"one-{number}"}}
        namespace = "default" if named["kind"] == "ClientQuota" else None
        paths.append(create(kube, named, namespace=namespace))
        status: dict[str, Any] = {"conditions": [condition("Ready", "True", "Applied", "It is.")]}
        if namespace:
            status["keys"] = full_keys()
        else:
            status |= {"lastSuccessfulSyncTime": SINCE, "counts": {"documents": 3}}
        set_status(kube, paths[-1], status)
    return paths


@pytest.mark.integration
def test_stored_objects_remain_readable_and_writable_after_an_upgrade(older: KubeCluster) -> None:
    paths = stored_under_the_previous(older)
    before = {path: older.api.get(path).need() for path in paths}
    older.install_crds(NEW)
    for path in paths:
        obj = older.api.get(path).need()
        assert obj == before[path]
        label = {"metadata": {"labels": {"touched": "yes"}}}
        older.api.call(
            "PATCH", path, label, kind=MERGE_PATCH, query={"fieldValidation": "Strict"}
        ).need()
        written = older.api.call(
            "PATCH", path, {"spec": {"suspend": True}}, kind=MERGE_PATCH
        ).need()
        assert written["metadata"]["generation"] == obj["metadata"]["generation"] + (
            not obj["spec"].get("suspend", False)
        )
        replaced = older.api.call("PUT", path, written).need()
        assert replaced["spec"] == {**obj["spec"], "suspend": True}
        after = set_status(older, path, {"observedGeneration": 2})
        assert after["status"] == {**obj["status"], "observedGeneration": 2}
        older.api.call("DELETE", path).need()
