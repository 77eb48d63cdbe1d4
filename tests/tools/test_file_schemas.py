"""The CRDs follow the rules of the project, and everything generated from them is up to date."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from reconciler.manifest import schema
from reconciler.manifest.quantity import MANIFEST_PATTERN
from reconciler.manifest.rules.client_quota import IS_QUANTITY
from reconciler.manifest.schema import SCHEMA_FILES
from reconciler.quota.keys import FIELDS, Key
from reconciler.quota.patterns import EntityForm
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy
from tools import modes
from tools.file_schemas import CRDS, closed, generate
from tools.reference import cell

ROOT = Path(__file__).parents[2]


@functools.cache
def crd(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(
        (ROOT / "crds" / CRDS[kind]).read_text(encoding="utf-8")
    )
    return loaded


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield from nodes(node[word], f"{path}[]")


def root_of(kind: str) -> dict[str, Any]:
    root: dict[str, Any] = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


@functools.cache
def fields_of(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Path and schema of every field except for the metadata, which is Kubernetes'."""
    return [(f"{kind}{path}", node) for path, node in nodes(root_of(kind)) if path != ".metadata"]


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_is_documented(kind: str) -> None:
    for path, node in fields_of(kind):
        assert len(node["description"]) > 3, path


LONGEST_LISTS = {"ClientQuota.status.clusters": 256}
"""Lists that may be longer than 64: the maximum number of clusters that one document may select."""


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_map_and_text_is_bounded(kind: str) -> None:
    for path, node in fields_of(kind):
        if node.get("type") == "string" or node.get("x-kubernetes-int-or-string"):
            assert "maxLength" in node or "enum" in node, path
        if node.get("type") == "array":
            assert node["maxItems"] <= LONGEST_LISTS.get(path, 64), path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_has_a_type_and_no_unknown_fields_or_defaults(kind: str) -> None:
    for path, node in fields_of(kind):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert "default" not in node, f"{path}: defaults would show up in live objects"


def spec_of(kind: str, *path: str) -> dict[str, Any]:
    node = root_of(kind)["properties"]["spec"]
    for step in path:
        node = node["items"] if step == "*" else node["properties"][step]
    spec_node: dict[str, Any] = node
    return spec_node


def test_enumerations_in_the_schema_equal_those_of_the_core() -> None:
    assert set(spec_of("ClientQuota", "limits")["properties"]) == set(FIELDS)
    assert spec_of("ClientQuota", "deletionPolicy")["enum"] == list(DeletionPolicy)
    assert spec_of("QuotaCluster", "policy")["enum"] == list(Policy)
    assert spec_of("QuotaCluster", "driftDetection")["enum"] == list(DriftMode)
    assert set(spec_of("QuotaCluster", "scope", "*", "forms", "*")["enum"]) == set(EntityForm)
    assert spec_of("QuotaCluster", "ignore", "*", "keys", "*")["enum"] == list(Key)
    assert spec_of("ClientQuota", "entity", "user", "default")["enum"] == [True]


def test_the_status_has_space_for_a_record_per_key() -> None:
    keys = root_of("ClientQuota")["properties"]["status"]["properties"]["keys"]
    assert keys["maxItems"] == len(Key)
    assert keys["x-kubernetes-list-map-keys"] == ["key"]
    assert {"desired", "live", "applied", "appliedAt", "cause"} <= set(keys["items"]["properties"])


# ---- generated files ------------------------------------------------------------------------


def test_the_committed_schemas_equal_those_generated_from_the_crds() -> None:
    assert modes.stale(ROOT, generate(ROOT / "crds")) == []


@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_a_schema_is_valid_json_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema.load_schema(name))


ANNOTATIONS = {"$schema", "$id", "title", "description"}
"""Keywords that a validator ignores; it also ignores a misspelt keyword."""


@pytest.mark.parametrize("name", ["ClientQuota", "QuotaCluster", "QuotaProject"])
def test_every_object_is_closed_and_every_keyword_is_known_to_json_schema(name: str) -> None:
    for path, node in nodes(schema.load_schema(name)):
        assert set(node) <= {*Draft202012Validator.VALIDATORS, *ANNOTATIONS}, path
        if node.get("type") == "object" and path != ".status":
            assert "additionalProperties" in node, path


def test_editors_get_one_schema_for_each_kind_of_file() -> None:
    assert [variant.get("$ref") for variant in schema.load_schema("manifest")["oneOf"]] == [
        "clientquota.json",
        None,
    ]
    assert [variant["$ref"] for variant in schema.load_schema("kquota")["oneOf"]] == [
        "quotaproject.json",
        "quotacluster.json",
    ]


def test_keywords_of_structural_schemas_are_converted_to_json_schema() -> None:
    assert closed(
        {
            "type": "object",
            "properties": {
                "a": {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [1],
                    "x-kubernetes-validations": [{"rule": f"x || {IS_QUANTITY}"}],
                },
                "b": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "format": "double"},
                "c": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
            },
            "x-kubernetes-validations": [{"rule": "has(self.a)"}],
        }
    ) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {
                "type": ["integer", "string"],
                "minimum": -(2**63),
                "maximum": 2**63 - 1,
                "pattern": MANIFEST_PATTERN,
            },
            "b": {"type": "number", "exclusiveMinimum": 0},
            "c": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        },
    }


def test_the_reference_names_every_field() -> None:
    page = generate(ROOT / "crds")["docs/reference.md"]
    for name in ("ClientQuota", "QuotaCluster", "QuotaProject"):
        for path, node in nodes(schema.load_schema(name)):
            for field in node.get("properties", {}):
                assert f"| `{field}` |" in page, (path, field)


def test_the_reference_names_every_field_of_custom_resources_and_every_rule() -> None:
    page = generate(ROOT / "crds")["docs/reference.md"]
    for file in CRDS.values():
        version = yaml.safe_load((ROOT / "crds" / file).read_text())["spec"]["versions"][0]
        for part in ("spec", "status"):
            part_schema = closed(version["schema"]["openAPIV3Schema"]["properties"][part])
            for path, node in nodes(part_schema):
                for field in node.get("properties", {}):
                    assert f"| `{field}` |" in page, (path, field)
        for column in version["additionalPrinterColumns"]:
            assert f"| {column['name']} |" in page
        for path, node in nodes(version["schema"]["openAPIV3Schema"]["properties"]["spec"]):
            for rule in node.get("x-kubernetes-validations", ()):
                assert cell(rule["message"]) in page, path
    for line in page.splitlines():
        if line.startswith("| "):
            assert line.replace("\\|", "").count("|") in {3, 4, 5}, line
