"""All user input in a resource is bounded: texts, lists, maps, and a document as a whole."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from reconciler.quota.entity import MAX_DECLARED_NAME_BYTES
from tests.kube.crds.documents import schema_of
from tools.file_schemas import CRDS

ESCAPED = 6  # bytes in JSON of a character that must be escaped
NUMBER = 32
LABEL_NAME = 320


def unbounded(node: Mapping[str, Any], at: str) -> Iterator[str]:
    """Places of a schema without a bound."""
    text = node.get("type") == "string" or "x-kubernetes-int-or-string" in node
    if text and "maxLength" not in node and "enum" not in node:
        yield f"{at}: a text of any length"
    if node.get("type") == "array" and "maxItems" not in node:
        yield f"{at}: a list of any length"
    if "additionalProperties" in node and "maxProperties" not in node:
        yield f"{at}: a map of any size"
    if node.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{at}: anything"
    for name, child in node.get("properties", {}).items():
        yield from unbounded(child, f"{at}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield from unbounded(node[word], f"{at}[]")


def largest(node: Mapping[str, Any]) -> int:
    """The maximum number of bytes of a value that a schema accepts, as JSON."""
    if "enum" in node:
        return max(len(str(word)) for word in node["enum"]) + 3
    if "maxLength" in node:
        return ESCAPED * int(node["maxLength"]) + 3
    if node.get("type") == "array":
        return int(node["maxItems"]) * largest(node["items"]) + 2
    if isinstance(node.get("additionalProperties"), dict):
        return int(node["maxProperties"]) * (LABEL_NAME + largest(node["additionalProperties"])) + 2
    if node.get("type") == "object":
        fields = node.get("properties", {})
        return 2 + sum(len(name) + 4 + largest(child) for name, child in fields.items())
    return NUMBER


@pytest.mark.parametrize("kind", CRDS)
def test_every_string_list_and_map_has_a_bound(kind: str) -> None:
    assert list(unbounded(schema_of(kind), kind)) == []


def test_the_spec_of_a_client_quota_is_small_for_any_names() -> None:
    spec = schema_of("ClientQuota")["properties"]["spec"]
    fields = {
        name: field
        for name, field in spec["properties"].items()
        if name not in {"clusterSelector", "clusterLimits"}
    }
    assert largest({**spec, "properties": fields}) <= 12 * 1024


def test_a_document_that_selects_clusters_stays_within_the_size_limit_of_an_api_server() -> None:
    """An etcd accepts 1.5 MiB; the size of a namespace is bounded by the bytes of its documents."""
    assert largest(schema_of("ClientQuota")["properties"]["spec"]) <= 1_310_720


@pytest.mark.parametrize("slot", ["user", "clientId"])
def test_a_name_has_at_most_as_many_characters_as_bytes(slot: str) -> None:
    """Otherwise a schema could accept, in characters, what a rule in CEL and in Python refuses in bytes."""
    fields = schema_of("ClientQuota")["properties"]["spec"]["properties"]["entity"]["properties"]
    assert fields[slot]["properties"]["name"]["maxLength"] == MAX_DECLARED_NAME_BYTES
