"""kquota.yaml: the clusters of a project, their manifests, and the location of their records.

A project is parsed from a text, so that it can come from a disk or from the base revision of a pull request:
connection, cluster id, guards, policy and tenants are trusted only from there.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.base.redaction import QuietRepr
from reconciler.errors import ConfigError, ManifestErrors, Problem, QuotaValueError
from reconciler.manifest import explanation, quantity
from reconciler.manifest.cluster_selector import NAME_LABEL, Labels, selection_labels
from reconciler.manifest.document import text_of
from reconciler.manifest.project.cluster import (
    QuotaCluster,
    bounds_of,
    capacity_number,
    from_spec,
    pattern_of,
)
from reconciler.manifest.schema_names import CLUSTER, PROJECT, QUOTA
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import (
    Json,
    MappingNode,
    Node,
    find,
    key_place,
    place,
    to_json,
)
from reconciler.quota.keys import LONG_MAX
from reconciler.quota.rule_warnings import (
    DEFAULT_FETCH,
    AcceptedWarning,
    FetchSize,
    WarningKind,
    WarningSettings,
)

FILE_NAME: Final = "kquota.yaml"
"""Name of a project file."""

MAX_FILE_SIZE: Final = 8 * 1024 * 1024
"""Maximum size of a project file, in bytes."""

MAX_NODES: Final = 500_000
"""Maximum number of keys and values in a project file."""


class InventoryLocation(Struct, frozen=True, kw_only=True, gc=False):
    """Location of the records: a file or a git ref, exactly one of them."""

    file: str | None = None
    git_ref: str | None = None


class ProjectCluster(Struct, frozen=True, kw_only=True, gc=False):
    """A cluster with its settings in a project."""

    cluster: QuotaCluster
    manifests: tuple[str, ...]  # paths and globs of its manifests, relative to the project file
    # Whether these paths are only for this cluster, so that other clusters' documents are errors there.
    own_manifests: bool
    inventory: InventoryLocation
    # The name in its ownership records: that of the project, if it has one, and that of the cluster.
    project: str
    audit_log: str  # the audit log, relative to the project file
    line: int
    # The labels for selectors of documents: its own, those of its groups, and its name.
    labels: Labels = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """Name of the cluster in manifests."""
        return self.cluster.name


class Project(QuietRepr, Struct, frozen=True, kw_only=True, gc=False):
    """A project file."""

    path: str  # the file, for display, and to be excluded from the manifests
    clusters: tuple[ProjectCluster, ...]  # in the order of the file; at least one
    warnings: WarningSettings
    simulate: Mapping[str, Any]  # the what-if policy, as written
    # Each document as written, to compare revisions. Hidden: it may contain secrets.
    documents: Mapping[str, Json]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clusters."""
        return tuple(cluster.name for cluster in self.clusters)

    @property
    def labels(self) -> Mapping[str, Labels]:
        """Labels of each cluster for selectors, by its name."""
        return {cluster.name: cluster.labels for cluster in self.clusters}

    def cluster(self, name: str) -> ProjectCluster:
        """Return the cluster with this name.

        Raises:
            ConfigError: There is none; the message has the nearest name.
        """
        for project_cluster in self.clusters:
            if project_cluster.name == name:
                return project_cluster
        hint = _near(name, self.names)
        raise ConfigError(f"no QuotaCluster has the name {name!r}", location=self.path, hint=hint)


class _ProjectDocuments(NamedTuple):
    clusters: dict[str, MappingNode]
    project: MappingNode | None


def parse(text: str, path: str = FILE_NAME) -> Project:
    """Parse the project in a text, of any revision.

    Raises:
        ManifestErrors: All problems of the text.
    """
    problems: list[Problem] = []
    project_documents = _documents(text, path, problems)
    if not problems:
        problems.extend(_cross_problems(project_documents, path))
    if problems:
        raise ManifestErrors(problems)
    return _built(project_documents, path)


# ---- finding documents ----------------------------------------------------------------------


def _documents(text: str, path: str, problems: list[Problem]) -> _ProjectDocuments:
    clusters: dict[str, MappingNode] = {}
    project: MappingNode | None = None
    budget = yaml_parser.NodeBudget(file=MAX_NODES, total=MAX_NODES)
    roots = [
        root
        for piece in yaml_parser.pieces(text)
        if not budget.is_spent
        for root in yaml_parser.read(piece, path, problems, budget)
    ]
    for root in roots:
        kind = _checked_kind(root, path, problems)
        if kind is None or not isinstance(root, MappingNode):
            continue
        if kind == PROJECT:
            if project is not None:
                words = f"a second {PROJECT}; the first is on line {project.line}"
                problems.append(Problem(path, root.line, root.column, words))
            project = root
            continue
        name = str(to_json(find(root, ("metadata", "name")) or root))
        if name in clusters:
            words = f"a second {CLUSTER} {name!r}; the first is on line {clusters[name].line}"
            problems.append(Problem(path, root.line, root.column, words))
        clusters[name] = root
    if not clusters and not problems:
        problems.append(Problem(path, 1, 1, f"the project file contains no {CLUSTER}"))
    return _ProjectDocuments(clusters, project)


def _checked_kind(root: Node, path: str, problems: list[Problem]) -> str | None:
    """Return the kind of a valid document; problems are added to ``problems``."""
    entry = root.entries.get("kind") if isinstance(root, MappingNode) else None
    kind = None if entry is None else text_of(entry.value)
    if kind not in {CLUSTER, PROJECT}:
        words = (
            "ClientQuota documents must be in the manifests, not in the project file"
            if kind == QUOTA
            else f"a document here has kind {PROJECT} or {CLUSTER}{'' if kind is None else f', not {kind!r}'}"
        )
        line, column = key_place(root, ("kind",))
        problems.append(Problem(path, line, column, words))
        return None
    reasons = explanation.problems(kind, root, path)
    problems.extend(reasons)
    return None if reasons else kind


def _cross_problems(project_documents: _ProjectDocuments, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for root in project_documents.clusters.values():
        if find(root, ("spec", "secretRef")) is not None:
            line, column = key_place(root, ("spec", "secretRef"))
            words = (
                "spec.secretRef: only the operator reads Secrets; here use properties with ${env:NAME} or "
                "${file:/path:key}, or propertiesFile"
            )
            problems.append(Problem(path, line, column, words))
        problems.extend(_capacity_problems(root, path))
    problems.extend(_group_problems(project_documents, path))
    cluster_list = (
        find(project_documents.project, ("spec", "clusters"))
        if project_documents.project is not None
        else None
    )
    seen_names: set[str] = set()
    for index, entry in enumerate(_items(cluster_list)):
        name = entry["name"]
        project_root = project_documents.project or cluster_list
        line, column = place(project_root, ("spec", "clusters", index, "name"))  # type: ignore[arg-type] # a list has a project
        if name not in project_documents.clusters:
            words = f"no {CLUSTER} in this file is called {name!r}; {_near(name, tuple(project_documents.clusters))}"
            problems.append(Problem(path, line, column, words))
        elif name in seen_names:
            problems.append(Problem(path, line, column, f"cluster {name!r} is listed twice"))
        seen_names.add(name)
    simulate = (
        find(project_documents.project, ("spec", "simulate"))
        if project_documents.project is not None
        else None
    )
    if simulate is not None and project_documents.project is not None:
        words = _policy_problem(to_json(simulate))
        if words:
            line, column = key_place(project_documents.project, ("spec", "simulate"))
            problems.append(Problem(path, line, column, f"spec.simulate.{words}"))
    return problems


def _capacity_problems(root: MappingNode, path: str) -> Iterator[Problem]:
    node = find(root, ("spec", "brokerCapacity"))
    capacity: Any = {} if node is None else to_json(node)
    for name, value in capacity.items():
        try:
            _ = capacity_number(name, value)
        except QuotaValueError as wrong:
            line, column = key_place(root, ("spec", "brokerCapacity", name))
            words = f"spec.brokerCapacity.{name}: {wrong.message}"
            yield Problem(path, line, column, words)


def _group_problems(project_documents: _ProjectDocuments, path: str) -> Iterator[Problem]:
    """Yield problems of groups: unknown clusters, and labels that a cluster has with another value."""
    project = project_documents.project
    labels = {name: _own_labels(root) for name, root in project_documents.clusters.items()}
    for name, root in project_documents.clusters.items():
        if labels[name].get(NAME_LABEL, name) != name:
            line, column = key_place(root, ("metadata", "labels", NAME_LABEL))
            yield Problem(
                path,
                line,
                column,
                f"metadata.labels: {NAME_LABEL} is always the name of the cluster",
            )
    if project is None:
        return
    for index, group in enumerate(_items(find(project, ("spec", "clusterGroups")))):
        for position, name in enumerate(group["clusters"]):
            line, column = place(project, ("spec", "clusterGroups", index, "clusters", position))
            if name not in labels:
                words = (
                    f"no {CLUSTER} in this file is called {name!r}; {_near(name, tuple(labels))}"
                )
                yield Problem(path, line, column, words)
                continue
            for key, value in group["labels"].items():
                present = name if key == NAME_LABEL else labels[name].setdefault(key, value)
                if present != value:
                    words = f"group {group['name']} gives {name} the label {key}={value}, and it has {key}={present}"
                    yield Problem(path, line, column, words)


def _own_labels(root: MappingNode) -> dict[str, str]:
    node = find(root, ("metadata", "labels"))
    labels: Any = {} if node is None else to_json(node)
    return dict(labels)


def _policy_problem(simulate: Any) -> str:  # noqa: ANN401 - JSON
    from reconciler.manifest.project import simulation_policy  # noqa: PLC0415 - the models of use, only for projects with spec.simulate

    try:
        _ = simulation_policy.policy_of(simulate)
    except QuotaValueError as wrong:
        return wrong.message
    return ""


def _items(node: Node | None) -> list[Any]:
    value = None if node is None else to_json(node)
    return value if isinstance(value, list) else []


def _near(name: str, known_names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known_names, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known_names))}"


# ---- building -------------------------------------------------------------------------------


def _built(project_documents: _ProjectDocuments, path: str) -> Project:
    project_json: Any = (
        {} if project_documents.project is None else to_json(project_documents.project)
    )
    spec: Mapping[str, Any] = project_json.get("spec", {})
    project_name: str = project_json.get("metadata", {}).get("name", "")
    special = {settings["name"]: settings for settings in spec.get("clusters", ())}
    general_bounds = bounds_of(spec.get("limits", {}))
    clusters: list[ProjectCluster] = []
    documents: dict[str, Json] = {PROJECT: project_json} if project_json else {}
    for name, root in project_documents.clusters.items():
        cluster_json: Any = to_json(root)
        documents[f"{CLUSTER}/{name}"] = cluster_json
        cluster = from_spec(name, cluster_json["spec"])
        guards = replace(cluster.guards, bounds=cluster.guards.bounds + general_bounds)
        cluster_settings = special.get(name, {})
        labels = _own_labels(root)
        for group in spec.get("clusterGroups", ()):
            if name in group["clusters"]:
                labels |= group["labels"]
        clusters.append(
            ProjectCluster(
                cluster=replace(cluster, guards=guards),
                manifests=tuple(cluster_settings.get("manifests", spec.get("manifests", ()))),
                own_manifests="manifests" in cluster_settings,
                project=f"{project_name}/{name}" if project_name else name,
                inventory=_inventory(cluster_settings.get("inventory", spec.get("inventory"))),
                audit_log=cluster_settings.get(
                    "auditLog", spec.get("auditLog", ".kquota/audit.jsonl")
                ),
                line=root.line,
                labels=selection_labels(name, labels),
            )
        )
    return Project(
        path=path,
        clusters=tuple(clusters),
        warnings=_warning_settings(spec),
        simulate=spec.get("simulate", {}),
        documents=documents,
    )


def _warning_settings(spec: Mapping[str, Any]) -> WarningSettings:
    simulate: Mapping[str, Any] = spec.get("simulate", {})
    return WarningSettings(
        accepted=tuple(
            AcceptedWarning(
                kind=WarningKind(rule["warning"]), document=rule["document"], reason=rule["reason"]
            )
            for rule in spec.get("acceptedWarnings", ())
        ),
        fetch_sizes=tuple(map(_fetch_size, simulate.get("consumers", ()))),
    )


def _fetch_size(consumers: Mapping[str, Any]) -> FetchSize:
    return FetchSize(
        entities=tuple(map(pattern_of, consumers.get("entities", ()))),
        size=min(
            quantity.whole_number(consumers.get("maxPartitionFetchBytes", DEFAULT_FETCH)),
            quantity.whole_number(consumers.get("fetchMaxBytes", LONG_MAX)),
        ),
    )


def _inventory(spec: Mapping[str, str] | None) -> InventoryLocation:
    if spec is None:
        return InventoryLocation(file=".kquota/inventory.json")
    return InventoryLocation(file=spec.get("file"), git_ref=spec.get("gitRef"))
