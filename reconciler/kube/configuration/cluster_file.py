"""QuotaClusters from a mounted file, for installs that may read nothing outside their namespaces.

The documents are the same as the custom resources; they only have no status. A change of the file takes a restart,
which the chart brings about by a checksum in the pod template.
"""

import hashlib
import json
from pathlib import Path

from reconciler.errors import ConfigError, ManifestErrors, Problem
from reconciler.kube.api.custom_resources import API_VERSION, Obj, name_of
from reconciler.kube.configuration.cluster_references import schema_problems
from reconciler.manifest.schema_names import CLUSTER
from reconciler.manifest.syntax import nodes, yaml_parser


def read_clusters(path: Path) -> tuple[Obj, ...]:
    """The QuotaClusters of a file, as the API server would give them.

    Raises:
        ConfigError: The file cannot be read, or holds none.
        ManifestErrors: A document is something else, or breaks a rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", hint="mount the QuotaClusters there"
        ) from error
    problems: list[Problem] = []
    clusters: dict[str, Obj] = {}
    for piece in yaml_parser.pieces(text):
        for root in yaml_parser.read(piece, str(path), problems):
            problems.extend(_add_document(nodes.to_json(root), str(path), root.line, clusters))
    if problems:
        raise ManifestErrors(problems)
    if not clusters:
        raise ConfigError(f"{path} holds no {CLUSTER}")
    return tuple(clusters.values())


def _add_document(
    document: nodes.Json, path: str, line: int, clusters: dict[str, Obj]
) -> list[Problem]:
    """A document among the others, or what is wrong with it."""
    if (
        not isinstance(document, dict)
        or document.get("apiVersion") != API_VERSION
        or document.get("kind") != CLUSTER
    ):
        return [Problem(path, line, 1, f"only {CLUSTER} documents of {API_VERSION} belong here")]
    faults = schema_problems(document)
    if faults:
        return [Problem(path, line, 1, fault) for fault in faults]
    name = name_of(document)
    if name in clusters:
        return [Problem(path, line, 1, f"{CLUSTER} {name} is there twice")]
    digest = hashlib.sha256(json.dumps(document["spec"], sort_keys=True).encode()).hexdigest()
    clusters[name] = {
        "kind": CLUSTER,
        "metadata": {"name": name, "uid": digest, "generation": int(digest[:12], 16)},
        "spec": document["spec"],
    }
    return []
