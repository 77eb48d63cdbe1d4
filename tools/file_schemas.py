"""Generates file schemas and reference pages from ``crds/``: ``python -m tools.file_schemas --write`` or ``--check``.

The CRDs define the fields of resources; the JSON Schemas (2020-12, closed objects) are derived from them for files.
Differences: metadata has a schema, fields that the API server writes are allowed and ignored, status is ignored, and the
project file has its own kind.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from reconciler.manifest.quantity import MANIFEST_PATTERN
from reconciler.manifest.schema import SCHEMA_FILES, Schema
from reconciler.manifest.schema_names import (
    API_VERSION,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    GROUP,
    SERVER_FIELDS,
)
from tools import modes, reference
from tools.project_schema import PROJECT

_Json: TypeAlias = Any

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
LOCATION: Final = f"https://{GROUP}/schemas/v1alpha1"

CRDS: Final = {
    "ClientQuota": "kafka-quotas.io_clientquotas.yaml",
    "QuotaCluster": "kafka-quotas.io_quotaclusters.yaml",
}


def _texts(description: str, *, max_count: int, longest: int) -> Schema:
    return {
        "description": description,
        "type": "object",
        "maxProperties": max_count,
        "additionalProperties": {"type": "string", "maxLength": longest},
    }


def _metadata(*, namespaced: bool, name: str = "Name of the resource.") -> Schema:
    properties: Schema = {
        "name": {
            "description": name,
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": DNS_SUBDOMAIN,
        }
    }
    if namespaced:
        properties["namespace"] = {
            "description": "Namespace of the resource; default if unset.",
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
            "pattern": DNS_LABEL,
        }
    return {
        "description": "Who the document is. Its name ties limits in Kafka to it.",
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": properties
        | {
            "labels": _texts("Labels.", max_count=64, longest=63),
            "annotations": _texts(
                "Annotations; only kafka-quotas.io/accept-WARNING is read, whose value is the reason.",
                max_count=256,
                longest=262_144,
            ),
        }
        | {
            field: {"description": "Written by the API server; ignored."} for field in SERVER_FIELDS
        },
    }


def closed(node: Schema) -> Schema:
    """Convert a structural schema of Kubernetes to JSON Schema 2020-12 that refuses unknown fields."""
    schema: Schema = {}
    for word, value in node.items():
        schema |= _TRANSLATED.get(word, _keep_keyword)(word, value, node)
    if "object" in schema.get("type", ()) and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    return schema


def _keep_keyword(word: str, value: _Json, _: Schema) -> Schema:
    return {} if word.startswith("x-kubernetes-") else {word: value}


def _dropped(_word: str, _value: _Json, _: Schema) -> Schema:
    return {}


def _below(word: str, value: _Json, _: Schema) -> Schema:
    return {word: closed(value)}


def _quantity_pattern(_word: str, rules: _Json, _: Schema) -> Schema:
    """Return the pattern of quantities, which the CRDs have in a rule with a message, for editors and messages."""
    is_quantity = any(MANIFEST_PATTERN in rule["rule"] for rule in rules)
    return {"pattern": MANIFEST_PATTERN} if is_quantity else {}


# The API server reads larger whole numbers as float64, not as integers.
_INT64_OR_STRING: Final[Schema] = {
    "type": ["integer", "string"],
    "minimum": -(2**63),
    "maximum": 2**63 - 1,
}

# In the CRDs, anyOf is always "integer or string"; format is int64 in a spec and date-time only in status.
_TRANSLATED: Final[Mapping[str, Callable[[str, _Json, Schema], Schema]]] = {
    "properties": lambda word, value, _: {
        word: {name: closed(subschema) for name, subschema in value.items()}
    },
    "items": _below,
    "additionalProperties": _below,
    "minimum": lambda word, value, node: {} if node.get("exclusiveMinimum") else {word: value},
    "exclusiveMinimum": lambda word, _, node: {word: node["minimum"]},
    "x-kubernetes-int-or-string": lambda *_: _INT64_OR_STRING,
    "x-kubernetes-validations": _quantity_pattern,
    "x-kubernetes-list-type": lambda _, value, __: {"uniqueItems": True} if value == "set" else {},
    "anyOf": _dropped,
    "format": _dropped,
}


def of_crd(crd: Schema) -> Schema:
    """Return the file schema of a custom resource."""
    kind = crd["spec"]["names"]["kind"]
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        "$schema": DIALECT,
        "$id": f"{LOCATION}/{SCHEMA_FILES[kind]}",
        "title": kind,
        "description": root["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"description": "Always this.", "const": API_VERSION},
            "kind": {"description": "Always this.", "const": kind},
            "metadata": _metadata(namespaced=crd["spec"]["scope"] == "Namespaced"),
            "spec": closed(root["properties"]["spec"]),
            "status": {"description": "Written by the operator; ignored in files."},
        },
    }


_PROJECT_NAME: Final = (
    "Name of the project in its ownership records; those of another project are refused."
)


def _project() -> Schema:
    return {
        "$schema": DIALECT,
        "$id": f"{LOCATION}/{SCHEMA_FILES['QuotaProject']}",
        "title": "QuotaProject",
        "description": PROJECT["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"description": "Always this.", "const": API_VERSION},
            "kind": {"description": "Always this.", "const": "QuotaProject"},
            "metadata": _metadata(namespaced=False, name=_PROJECT_NAME) | {"required": []},
            "spec": closed(PROJECT),
        },
    }


def _any_of(name: str, title: str, description: str, *kinds: str) -> Schema:
    """Return the schema of one document of a file, for editors, which validate each document separately."""
    return {
        "$schema": DIALECT,
        "$id": f"{LOCATION}/{SCHEMA_FILES[name]}",
        "title": title,
        "description": description,
        "oneOf": [{"$ref": SCHEMA_FILES[kind]} for kind in kinds],
    }


def generate(crds: Path) -> dict[str, str]:
    """Return every generated file by its path from the root of the project."""
    resources_by_kind: dict[str, Schema] = {
        kind: yaml.load((crds / file).read_text(encoding="utf-8"), yaml.CSafeLoader)
        for kind, file in CRDS.items()
    }
    schemas: dict[str, Schema] = {kind: of_crd(crd) for kind, crd in resources_by_kind.items()} | {
        "QuotaProject": _project(),
        "kquota": _any_of(
            "kquota",
            "kquota.yaml",
            "One document of a project file.",
            "QuotaProject",
            "QuotaCluster",
        ),
    }
    schemas["manifest"] = _any_of(
        "manifest", "Manifest", "One document of a manifest file.", "ClientQuota"
    )
    schemas["manifest"]["oneOf"].append(
        {
            "type": "object",
            "required": ["apiVersion", "kind", "items"],
            "additionalProperties": False,
            "properties": {
                "apiVersion": {"enum": ["v1", API_VERSION]},
                "kind": {"enum": ["List", "ClientQuotaList"]},
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": {"$ref": SCHEMA_FILES["ClientQuota"]}},
            },
        }
    )
    schema_texts = {
        f"reconciler/manifest/schemas/{SCHEMA_FILES[name]}": json.dumps(
            schema, indent=1, ensure_ascii=False
        )
        + "\n"
        for name, schema in schemas.items()
    }
    schema_texts["docs/reference.md"] = reference.reference(
        *(_documented(schemas[kind], crd) for kind, crd in resources_by_kind.items()),
        reference.DocumentKind(schema=schemas["QuotaProject"]),
    )
    return schema_texts


def _documented(schema: Schema, crd: Schema) -> reference.DocumentKind:
    parts: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return reference.DocumentKind(schema=schema, crd=crd, status=closed(parts["status"]))


if __name__ == "__main__":
    sys.exit(modes.main(sys.argv[1:], modes.ROOT, lambda: generate(modes.ROOT / "crds")))
