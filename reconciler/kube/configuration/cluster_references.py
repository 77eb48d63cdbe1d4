"""Reads QuotaClusters, also from a mounted file, and refuses their references to files and secrets of the operator.

A user who may write a QuotaCluster must not thereby read what only the operator can read: references, file paths and
token URLs are refused unless the operator was started to allow them. Secrets come through secretRef only.

Installations without permissions outside their namespaces mount a file with documents in the form of the custom
resources. A change of the file needs a restart, which the chart triggers with a checksum in the pod template.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from reconciler.base import bounded_json
from reconciler.client.configuration.keys import KEYS, ValueKind
from reconciler.client.configuration.settings import Setting, unknown_key_warning
from reconciler.errors import ConfigError, ManifestErrors, Problem
from reconciler.kube.api.custom_resources import API_VERSION, Resource, parsed
from reconciler.manifest import explanation
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
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


REFERENCE: Final = re.compile(r"\$\{(env|file|directory):")
"""References that the client would resolve (KIP-421, KIP-297)."""


MOST_PROBLEMS: Final = 8
"""Maximum number of listed faults of a document; further ones are counted."""


def cluster_problems(obj: Resource, *, allow_references: bool = False) -> tuple[str, ...]:
    """Return everything that makes a QuotaCluster unusable; empty if it is usable.

    Args:
        allow_references: Whether the operator was started with permission for references, file paths and token URLs.
    """
    problems = _problems(obj.name, json.dumps(obj.spec))
    return shortened((*problems, *refused_references(obj, allow_references=allow_references)))


def read_cluster(obj: Resource, *, allow_references: bool) -> QuotaCluster:
    """Return the parsed spec of a QuotaCluster; arguments as for :func:`cluster_problems`.

    Raises:
        ConfigError: It is unusable.
    """
    name, problems = obj.name, cluster_problems(obj, allow_references=allow_references)
    if problems:
        raise ConfigError(
            f"QuotaCluster {name} cannot be used: {'; '.join(problems)}", hint="correct its spec"
        )
    return from_spec(name, obj.spec)


def shortened(messages: Collection[str]) -> tuple[str, ...]:
    """Return the first distinct messages and the number of omitted ones."""
    unique_messages = tuple(dict.fromkeys(messages))
    if len(unique_messages) <= MOST_PROBLEMS:
        return unique_messages
    return (*unique_messages[:MOST_PROBLEMS], f"and {len(unique_messages) - MOST_PROBLEMS} more")


@lru_cache(maxsize=256)
def _problems(name: str, spec: str) -> tuple[str, ...]:
    """Return the problems of a spec given as JSON text, which each reconciliation repeats and which seldom changes."""
    bare = {
        "apiVersion": API_VERSION,
        "kind": CLUSTER,
        "metadata": {"name": name},
        "spec": bounded_json.parse(spec, most_bytes=len(spec) * 4),
    }
    problems = explanation.problems(CLUSTER, nodes.from_json(bare), "")
    return tuple(problem.message for problem in problems)


def refused_references(obj: Resource, *, allow_references: bool = False) -> tuple[str, ...]:
    """Return the refused references of a QuotaCluster, by field; values are never quoted.

    Args:
        allow_references: Whether the operator was started to allow references, file paths and token URLs.
    """
    spec = obj.spec
    faults: list[str] = []
    if "propertiesFile" in spec:
        faults.append(
            "spec.propertiesFile: a file is for project files; use properties and secretRef"
        )
    if not allow_references and REFERENCE.search(str(spec.get("bootstrapServers", ""))):
        faults.append(f"spec.bootstrapServers: {_NO_REFERENCE}")
    properties = spec.get("properties")
    if isinstance(properties, Mapping):
        faults.extend(_property_faults(properties, allow_references=allow_references))
    return tuple(faults)


def ignored_properties(obj: Resource) -> tuple[str, ...]:
    """Return a sentence for each unknown client property of a usable QuotaCluster; unknown ones of TLS make it unusable."""
    properties = obj.spec.get("properties")
    sentences: list[str] = []
    for name in sorted(properties) if isinstance(properties, Mapping) else ():
        with contextlib.suppress(ConfigError):
            if str(name) not in KEYS:
                setting = Setting(name=str(name), text="", location="spec.properties")
                sentences.extend(unknown_key_warning(setting))
    return shortened(sentences)


def _property_faults(properties: Mapping[str, object], *, allow_references: bool) -> Iterator[str]:
    for name, value in sorted(properties.items()):
        text, rule = str(value), KEYS.get(name)
        reason = ""
        refers = REFERENCE.search(text) is not None
        if not allow_references:
            reason = _refusal_text(name if rule is None else rule.name, text)
        if not reason and rule is not None and rule.kind is ValueKind.HIDDEN and not refers:
            # A proxy is a secret only if its URL contains a password.
            reason = "" if rule.name == "proxy.url" and "@" not in text else _PLACE_HINT
        if reason:
            yield f"spec.properties[{name!r}]: {reason}"


def _refusal_text(name: str, text: str) -> str:
    if REFERENCE.search(text):
        return _NO_REFERENCE
    if name.endswith(".location"):
        return "file paths are refused in a custom resource; put the PEM text into the Secret of secretRef"
    if name.endswith(".endpoint.url"):
        return "URLs of token endpoints are refused in a custom resource unless the operator allows them"
    return ""


_NO_REFERENCE: Final = (
    "references such as ${env:...} and ${file:...} are refused in a custom resource; use secretRef"
)
_PLACE_HINT: Final = "put the secret into the Secret of spec.secretRef"
