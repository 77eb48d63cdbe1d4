"""The schema of a ``kind: QuotaProject`` document, as a structural schema like those in ``crds/``. Data only.

It is not a custom resource, because the operator reads no project files; so it is defined here and not in ``crds/``.
"""

from typing import Any, Final

from reconciler.quota.rule_warnings import WarningKind
from tools.simulation_schema import SIMULATE, bounds

_MANIFESTS: Final[dict[str, Any]] = {
    "description": (
        "Files, folders (read with everything below that ends in .yaml or .yml) and globs (** included), "
        "relative to the project file. One that matches no file is an error."
    ),
    "type": "array",
    "minItems": 1,
    "maxItems": 256,
    "x-kubernetes-list-type": "set",
    "items": {
        "description": "A path or glob.",
        "type": "string",
        "minLength": 1,
        "maxLength": 1024,
    },
}
_INVENTORY: Final[dict[str, Any]] = {
    "description": "Where the records of what we own are kept; by default a file below .kquota.",
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "properties": {
        "file": {
            "description": "A file, relative to the project file.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
        },
        "gitRef": {
            "description": "A git ref, such as refs/kquota/inventory.",
            "type": "string",
            "pattern": r"^refs/[^\s~^:?*\[\\]+$",
            "maxLength": 1024,
        },
    },
}
_AUDIT: Final[dict[str, Any]] = {
    "description": "Where every apply is recorded, as JSON lines; relative to the project file.",
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
}


PROJECT: Final[dict[str, Any]] = {
    "description": "A project: which manifests belong to which cluster, and where records are kept.",
    "type": "object",
    "properties": {
        "manifests": _MANIFESTS,
        "inventory": _INVENTORY,
        "auditLog": _AUDIT,
        "clusters": {
            "description": "What differs for single clusters.",
            "type": "array",
            "maxItems": 64,
            "items": {
                "description": "One cluster.",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {
                        "description": "Name of a QuotaCluster in this file.",
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 253,
                    },
                    "manifests": _MANIFESTS,
                    "inventory": _INVENTORY,
                    "auditLog": _AUDIT,
                },
            },
        },
        "clusterGroups": {
            "description": "Groups of clusters that have labels in common, for the clusterSelector of documents.",
            "type": "array",
            "maxItems": 64,
            "items": {
                "description": "One group.",
                "type": "object",
                "required": ["name", "clusters", "labels"],
                "properties": {
                    "name": {
                        "description": "What messages call the group.",
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 253,
                    },
                    "clusters": {
                        "description": "The clusters of the group; a cluster may be in several.",
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 10_000,
                        "x-kubernetes-list-type": "set",
                        "items": {
                            "description": "Name of a QuotaCluster in this file.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 253,
                        },
                    },
                    "labels": {
                        "description": "Labels that each of them has besides those in its own metadata.labels.",
                        "type": "object",
                        "minProperties": 1,
                        "maxProperties": 64,
                        "additionalProperties": {
                            "description": "Value of the label.",
                            "type": "string",
                            "maxLength": 63,
                        },
                    },
                },
            },
        },
        "limits": bounds(
            "Smallest and largest values that any manifest of this project may declare."
        ),
        "acceptedWarnings": {
            "description": "Warnings that are accepted; they are counted instead of shown.",
            "type": "array",
            "maxItems": 1024,
            "items": {
                "description": "One kind of warning about a document or about a namespace.",
                "type": "object",
                "required": ["warning", "document", "reason"],
                "properties": {
                    "warning": {
                        "description": "Which warning.",
                        "type": "string",
                        "enum": [str(kind) for kind in WarningKind],
                    },
                    "document": {
                        "description": "namespace/name, or namespace/* for all documents of a namespace.",
                        "type": "string",
                        "pattern": r"^[a-z0-9][-a-z0-9]{0,62}/(\*|[a-z0-9][-.a-z0-9]{0,252})$",
                        "maxLength": 320,
                    },
                    "reason": {
                        "description": "Why it is accepted.",
                        "type": "string",
                        "pattern": r"\S",
                        "maxLength": 1024,
                    },
                },
            },
        },
        "simulate": SIMULATE,
    },
}
"""``spec`` of a QuotaProject."""
