"""Reads QuotaClusters from a mounted file, for installations without permissions outside their namespaces.

The documents have the form of the custom resources, without a status. A change of the file needs a restart, which the
chart triggers with a checksum in the pod template.
"""

import hashlib
import json
from pathlib import Path

from reconciler.errors import ConfigError, ManifestErrors, Problem
from reconciler.kube.api.custom_resources import API_VERSION, Resource, parsed
from reconciler.manifest import explanation
from reconciler.manifest.schema_names import CLUSTER
from reconciler.manifest.syntax import nodes, yaml_parser


def read_clusters(path: Path) -> tuple[Resource, ...]:
    """Return the QuotaClusters of a file, as values.

    Raises:
        ConfigError: The file cannot be read, or contains none.
        ManifestErrors: A document is of another kind, or breaks a rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", hint="mount the QuotaClusters there"
        ) from error
    problems: list[Problem] = []
    clusters: dict[str, Resource] = {}
    for piece in yaml_parser.pieces(text):
        for root in yaml_parser.read(piece, str(path), problems):
            problems.extend(_add_document(root, str(path), clusters))
    if problems:
        raise ManifestErrors(problems)
    if not clusters:
        raise ConfigError(f"{path} holds no {CLUSTER}")
    return tuple(clusters.values())


def _add_document(root: nodes.Node, path: str, clusters: dict[str, Resource]) -> list[Problem]:
    """Add a document; return its problems."""
    document = nodes.to_json(root)
    if (
        not isinstance(document, dict)
        or document.get("apiVersion") != API_VERSION
        or document.get("kind") != CLUSTER
    ):
        words = f"this file may contain only {CLUSTER} documents of {API_VERSION}"
        return [Problem(path, root.line, 1, words)]
    if problems := explanation.problems(CLUSTER, root, path):
        return problems
    cluster = parsed(document)
    if cluster.name in clusters:
        return [Problem(path, root.line, 1, f"{CLUSTER} {cluster.name} is defined twice")]
    digest = hashlib.sha256(json.dumps(cluster.spec, sort_keys=True).encode()).hexdigest()
    clusters[cluster.name] = Resource(
        kind=CLUSTER,
        name=cluster.name,
        uid=digest,
        generation=int(digest[:12], 16),
        spec=cluster.spec,
        is_stored=False,
    )
    return []
