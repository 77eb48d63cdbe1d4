"""The schemas of documents, and whether one accepts a document. Why it does not is in `explanation`."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import jsonschema_rs

from reconciler.manifest.rules.client_quota import Json
from reconciler.manifest.syntax.scalars import AmbiguousScalar

Schema: TypeAlias = dict[str, Any]

SCHEMA_FILES: Final = {
    "ClientQuota": "clientquota.json",
    "QuotaCluster": "quotacluster.json",
    "manifest": "manifest.json",
    "QuotaProject": "quotaproject.json",
    "kquota": "kquota.json",
}
"""Name of each schema -> file in ``reconciler/manifest/schemas``. ``manifest`` and ``kquota`` are for editors."""


def load_schema(name: str) -> Schema:
    """Load a schema from the installed package."""
    file = Path(__file__).with_name("schemas") / SCHEMA_FILES[name]
    return cast("Schema", json.loads(file.read_text(encoding="utf-8")))


@cache
def _judge(kind: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(load_schema(kind))


def is_accepted(kind: str, document: Json) -> bool:
    """Whether the schema of a kind certainly accepts a document."""
    return not _has_unusual(document) and _judge(kind).is_valid(document)


def _has_unusual(value: Json) -> bool:
    """Whether a document has an ambiguous scalar, or a whole float, which JSON Schema takes for an integer."""
    if isinstance(value, dict | list):
        return any(map(_has_unusual, value.values() if isinstance(value, dict) else value))
    return isinstance(value, AmbiguousScalar) or (isinstance(value, float) and value.is_integer())
