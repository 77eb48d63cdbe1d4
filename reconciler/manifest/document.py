"""One ClientQuota document, from a YAML manifest or from a custom resource, with a hand-written check.

The check only accepts or declines, quickly; `explanation` has the reasons and is loaded only then. A property test
requires that this check, the JSON Schema and the static rules agree.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.manifest import quantity
from reconciler.manifest.cluster_selector import (
    COMPARES_VALUES,
    ClusterLimits,
    ClusterSelector,
    LabelRequirement,
    Labels,
    SelectedClusters,
    SelectorOperator,
)
from reconciler.manifest.rules.client_quota import canonical_ip, rate, seconds_of
from reconciler.manifest.schema_names import (
    ACCEPT,
    API_VERSION,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    QUOTA,
    SERVER_FIELDS,
    TIME,
)
from reconciler.manifest.syntax.nodes import (
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    from_json,
)
from reconciler.manifest.syntax.scalars import is_text, meaning
from reconciler.quota.entity import ABSENT, DEFAULT, MAX_DECLARED_NAME_BYTES, Entity, Slot
from reconciler.quota.keys import COLUMN_OF, FIELDS, RULES, Key, key_columns
from reconciler.quota.planner.desired_state import NO_LINES, Declaration, Lines
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import NO_LIMITS, Limits

DEFAULT_NAMESPACE: Final = "default"
"""Namespace of a document without one, as in kubectl."""

MOST_CLUSTER_LIMITS: Final = 16
MOST_REQUIREMENTS: Final = 8
MOST_SELECTOR_VALUES: Final = 16
"""Bounds on one document: items of clusterLimits, requirements of each kind in a selector, values of a requirement."""

_ROOT: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_METADATA: Final = frozenset({"name", "namespace", "labels", "annotations", *SERVER_FIELDS})
_SPEC: Final = frozenset(
    {
        "clusterRef",
        "clusterSelector",
        "clusterLimits",
        "entity",
        "limits",
        "deletionPolicy",
        "suspend",
        "until",
    }
)
_SELECTOR: Final = frozenset({"matchLabels", "matchExpressions"})
_REQUIREMENT: Final = frozenset({"key", "operator", "values"})
_CLUSTER_LIMITS: Final = frozenset({"clusterRef", "clusterSelector", "limits"})
_ENTITY: Final = frozenset({"user", "clientId", "ip"})
_SLOT: Final = frozenset({"name", "default"})
_NAME: Final = frozenset({"name"})
_LIMITS: Final = frozenset(FIELDS)
_LABEL: Final = re.compile(DNS_LABEL[:-1] + r"\Z")
_TIME: Final = re.compile(TIME[:-1] + r"\Z")
_SUBDOMAIN: Final = re.compile(DNS_SUBDOMAIN[:-1] + r"\Z")
_OPERATORS: Final[Mapping[str, SelectorOperator]] = {
    operator.value: operator for operator in SelectorOperator
}
_DELETION: Final[Mapping[str, DeletionPolicy]] = {policy.value: policy for policy in DeletionPolicy}


# The schemas define documents, this module decides: docs/adr/document-definition.md.
class DocumentDeclined(Exception):
    """The document is not acceptable; `explanation` has the reasons."""


class ClientQuota(Struct, frozen=True, kw_only=True, gc=False):
    """A document that passed every static rule."""

    clusters: str | SelectedClusters  # name of the QuotaCluster, or a selection of clusters
    # Its declaration with its place; if it selects clusters, with its general limits.
    declaration: Declaration

    @property
    def cluster(self) -> str:
        """Name of the QuotaCluster; "" if clusters are selected."""
        return self.clusters if isinstance(self.clusters, str) else ""

    def declarations(self, clusters: Mapping[str, Labels]) -> Iterator[tuple[str, Declaration]]:
        """Iterate over the clusters of the document, each with its declaration there.

        Args:
            clusters: The labels for selectors, by the name of the cluster. A cluster that the document names need not
                be among them.
        """
        if isinstance(self.clusters, str):
            yield self.clusters, self.declaration
            return
        for name, labels in clusters.items():
            declaration = self.clusters.declaration(self.declaration, name, labels)
            if declaration is not None:
                yield name, declaration


def from_resource(resource: Mapping[str, object], path: str = "") -> ClientQuota:
    """Read the document in a custom resource as the API server returns it; every line is 0.

    Raises:
        DocumentDeclined: A rule is violated; :func:`reconciler.manifest.explanation.problems` has the reasons.
    """
    return from_node(from_json(resource), path)


def read_selector(value: object) -> ClusterSelector:
    """Read the selector in a custom resource.

    Raises:
        DocumentDeclined: It is not a selector.
        TypeError: It has no JSON form.
    """
    return _selector(from_json(value))


def from_node(root: Node, path: str) -> ClientQuota:
    """Read the document in a YAML tree.

    Raises:
        DocumentDeclined: A rule is violated.
    """
    fields = _fields(root, _ROOT)
    if _text(fields["apiVersion"]) != API_VERSION or _text(fields["kind"]) != QUOTA:
        raise DocumentDeclined
    metadata = _fields(fields["metadata"].value, _METADATA)
    spec = _fields(fields["spec"].value, _SPEC)
    name = _resource_name(metadata["name"])
    namespace = DEFAULT_NAMESPACE
    if "namespace" in metadata:
        namespace = _resource_name(metadata["namespace"], label=True)
    annotations: dict[str, str] = {}
    if "annotations" in metadata:
        annotations = _texts(metadata["annotations"].value, max_count=256, longest=262_144)
    labels: dict[str, str] = {}
    if "labels" in metadata:
        labels = _texts(metadata["labels"].value, max_count=64, longest=63)
    entity = _entity(spec["entity"].value)
    on_ip = entity[2] is not ABSENT
    limits, lines = _limits(spec["limits"].value, on_ip=on_ip)
    return ClientQuota(
        clusters=_clusters(spec, on_ip=on_ip),
        declaration=Declaration(
            document=f"{namespace}/{name}",
            entity=entity,
            limits=limits,
            path=path,
            line=root.line,
            lines=lines,
            deletion_policy=_deletion_policy(spec["deletionPolicy"])
            if "deletionPolicy" in spec
            else None,
            suspended=_flag(spec["suspend"].value) if "suspend" in spec else False,
            until=_time(spec["until"]) if "until" in spec else None,
            labels=tuple(sorted(labels.items())),
            accepted=tuple(
                sorted(
                    (name.removeprefix(ACCEPT), reason)
                    for name, reason in annotations.items()
                    if name.startswith(ACCEPT)
                )
            ),
            annotations=tuple(annotations.items()),
        ),
    )


class _DocumentFields(dict[str, MappingEntry]):
    """Fields of a mapping; a missing required field declines the document."""

    def __missing__(self, name: str) -> MappingEntry:
        raise DocumentDeclined


def _fields(node: Node, known_fields: frozenset[str]) -> _DocumentFields:
    if type(node) is not MappingNode or not node.entries.keys() <= known_fields:
        raise DocumentDeclined
    return _DocumentFields(node.entries)


def text_of(node: Node) -> str | None:
    """Return the string if every YAML reader reads the scalar as this string, else ``None``."""
    if type(node) is not ScalarNode or (node.plain and not is_text(node.text)):
        return None
    return node.text


def _text(entry: MappingEntry) -> str:
    text = text_of(entry.value)
    if text is None:
        raise DocumentDeclined
    return text


def _resource_name(entry: MappingEntry, *, label: bool = False) -> str:
    text = _text(entry)
    longest, pattern = (63, _LABEL) if label else (253, _SUBDOMAIN)
    if len(text) > longest or not pattern.match(text):
        raise DocumentDeclined
    return text


def _texts(node: Node, *, max_count: int, longest: int) -> dict[str, str]:
    if type(node) is not MappingNode or len(node.entries) > max_count:
        raise DocumentDeclined
    texts = {key: _text(entry) for key, entry in node.entries.items()}
    keys_are_text = all(text_of(entry.key) is not None for entry in node.entries.values())
    if not keys_are_text or any(len(text) > longest for text in texts.values()):
        raise DocumentDeclined
    return texts


# ---- clusters ---------------------------------------------------------------------------------


def _clusters(spec: _DocumentFields, *, on_ip: bool) -> str | SelectedClusters:
    if "clusterSelector" not in spec:
        if "clusterLimits" in spec:
            raise DocumentDeclined
        return _reference(spec["clusterRef"])
    if "clusterRef" in spec:
        raise DocumentDeclined
    items: tuple[ClusterLimits, ...] = ()
    if "clusterLimits" in spec:
        nodes = _nodes(spec["clusterLimits"], most=MOST_CLUSTER_LIMITS)
        items = tuple(_cluster_limits(node, on_ip=on_ip) for node in nodes)
    return SelectedClusters(selector=_selector(spec["clusterSelector"].value), cluster_limits=items)


def _reference(entry: MappingEntry) -> str:
    return _resource_name(_fields(entry.value, _NAME)["name"])


def _cluster_limits(node: Node, *, on_ip: bool) -> ClusterLimits:
    fields = _fields(node, _CLUSTER_LIMITS)
    if ("clusterRef" in fields) == ("clusterSelector" in fields):
        raise DocumentDeclined
    limits, lines = _limits(fields["limits"].value, on_ip=on_ip)
    return ClusterLimits(
        clusters=_reference(fields["clusterRef"])
        if "clusterRef" in fields
        else _selector(fields["clusterSelector"].value),
        limits=limits,
        lines=lines,
        line=node.line,
    )


def _selector(node: Node) -> ClusterSelector:
    fields = _fields(node, _SELECTOR)
    requirements: list[LabelRequirement] = []
    if "matchLabels" in fields:
        labels = _texts(fields["matchLabels"].value, max_count=MOST_REQUIREMENTS, longest=63)
        requirements.extend(
            LabelRequirement(key, SelectorOperator.IN, (value,)) for key, value in labels.items()
        )
    if "matchExpressions" in fields:
        nodes = _nodes(fields["matchExpressions"], most=MOST_REQUIREMENTS)
        requirements.extend(_requirement(node) for node in nodes)
    return ClusterSelector(tuple(requirements))


def _requirement(node: Node) -> LabelRequirement:
    fields = _fields(node, _REQUIREMENT)
    key, operator = _text(fields["key"]), _OPERATORS.get(_text(fields["operator"]))
    values: tuple[str, ...] = ()
    if "values" in fields:
        texts = [text_of(value) for value in _nodes(fields["values"], most=MOST_SELECTOR_VALUES)]
        values = tuple(text for text in texts if text is not None and len(text) <= 63)
        if len(values) < len(texts):
            raise DocumentDeclined
    if operator is None or not 0 < len(key) <= 317:
        raise DocumentDeclined
    if bool(values) != (operator in COMPARES_VALUES):
        raise DocumentDeclined
    return LabelRequirement(key, operator, values)


def _nodes(entry: MappingEntry, *, most: int) -> list[Node]:
    if type(entry.value) is not SequenceNode or len(entry.value.nodes) > most:
        raise DocumentDeclined
    return list(entry.value.nodes)


# ---- values -----------------------------------------------------------------------------------


def _flag(node: Node) -> bool:
    if type(node) is not ScalarNode or not node.plain or node.text not in {"true", "false"}:
        raise DocumentDeclined
    return node.text == "true"


def _deletion_policy(entry: MappingEntry) -> DeletionPolicy:
    policy = _DELETION.get(_text(entry))
    if policy is None:
        raise DocumentDeclined
    return policy


def _time(entry: MappingEntry) -> float:
    text = _text(entry)
    seconds = seconds_of(text)
    if seconds is None or not _TIME.match(text):
        raise DocumentDeclined
    return seconds


def _entity(node: Node) -> Entity:
    slots = _fields(node, _ENTITY)
    user = _slot(slots["user"].value) if "user" in slots else ABSENT
    client_id = _slot(slots["clientId"].value) if "clientId" in slots else ABSENT
    if "ip" not in slots:
        if not slots:
            raise DocumentDeclined
        return Entity((user, client_id, ABSENT))
    ip = _slot(slots["ip"].value)
    if len(slots) > 1 or (isinstance(ip, str) and not canonical_ip(ip)):
        raise DocumentDeclined
    return Entity((ABSENT, ABSENT, ip))


def _slot(node: Node) -> Slot:
    fields = _fields(node, _SLOT)
    if len(fields) != 1:
        raise DocumentDeclined
    if "default" in fields:
        if not _flag(fields["default"].value):
            raise DocumentDeclined
        return DEFAULT
    name = _text(fields["name"])
    longest = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
    if not name or longest > MAX_DECLARED_NAME_BYTES:
        raise DocumentDeclined
    return name


def _limits(node: Node, *, on_ip: bool) -> tuple[Limits, Lines]:
    fields = _fields(node, _LIMITS)
    values, lines = list(NO_LIMITS), list(NO_LINES)
    for name, entry in fields.items():
        key = FIELDS[name]
        if RULES[key].on_ip != on_ip or type(entry.value) is not ScalarNode:
            raise DocumentDeclined
        values[COLUMN_OF[key]] = _limit(key, entry.value)
        lines[COLUMN_OF[key]] = entry.key.line
    if not fields:
        raise DocumentDeclined
    return key_columns(values), key_columns(lines)


def _limit(key: Key, scalar: ScalarNode) -> float:
    value = meaning(scalar.text) if scalar.plain else scalar.text
    if type(value) is str:
        if not RULES[key].is_integer or len(value) > quantity.MAX_LENGTH:
            raise DocumentDeclined
    elif type(value) is not int and type(value) is not float:
        raise DocumentDeclined
    try:
        return rate(key, value)
    except QuotaValueError:
        raise DocumentDeclined from None
