"""kquota.yaml: the clusters of a project, which manifests belong to which, and where records are kept.

A project is parsed from a text, so that it can come from a disk or from the base revision of a pull request:
connection, cluster id, guards, policy and tenants are trusted only from there.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from reconciler.errors import ConfigError, ManifestErrors, Problem, QuotaValueError
from reconciler.manifest import yaml_files
from reconciler.manifest.cluster import QuotaCluster, bounds_of, from_spec
from reconciler.manifest.document import text_of
from reconciler.manifest.files import MAX_FILE_BYTES, MAX_FILES
from reconciler.manifest.nodes import Block, Json, Node, find, key_place, place, to_json
from reconciler.manifest.schema_names import CLUSTER, PROJECT, QUOTA
from reconciler.quota.advice import AcceptedWarning, WarningKind

FILE_NAME: Final = "kquota.yaml"
"""What a project file is called."""

MAX_FILE_SIZE: Final = 8 * 1024 * 1024
"""Largest project file, in bytes."""

MAX_NODES: Final = 500_000
"""Most keys and values of a project file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryPlace:
    """Where records are kept: a file or a git ref, exactly one of them."""

    file: str | None = None
    git_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How much is read before it is refused."""

    max_files: int = MAX_FILES
    max_file_bytes: int = MAX_FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCluster:
    """A cluster as a project uses it.

    Attributes:
        cluster: Its configuration.
        manifests: Paths and globs of its manifests, relative to the project file.
        own_manifests: Whether these paths are its alone, so that a document for another cluster is a mistake there.
        inventory: Where its records are kept.
        audit_log: Where applies are recorded, relative to the project file.
        line: Line of its document.
    """

    cluster: QuotaCluster
    manifests: tuple[str, ...]
    own_manifests: bool
    inventory: InventoryPlace
    audit_log: str
    line: int

    @property
    def name(self) -> str:
        """What manifests call the cluster."""
        return self.cluster.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project file.

    Attributes:
        path: The file, to be shown and to be left out of the manifests.
        clusters: Sorted by name; at least one.
        reading: How much is read.
        accepted_warnings: Warnings that the project accepts.
        simulate: The what-if policy, as written.
        documents: What was written, per document; for comparing revisions. Hidden: it may hold secrets.
    """

    path: str
    clusters: tuple[ProjectCluster, ...]
    reading: Reading
    accepted_warnings: tuple[AcceptedWarning, ...]
    simulate: Mapping[str, Any]
    documents: Mapping[str, Json] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clusters."""
        return tuple(one.name for one in self.clusters)

    def cluster(self, name: str) -> ProjectCluster:
        """The cluster of this name.

        Raises:
            ConfigError: There is none; the message has the nearest.
        """
        for one in self.clusters:
            if one.name == name:
                return one
        hint = _near(name, self.names)
        raise ConfigError(f"no QuotaCluster is called {name!r}", where=self.path, hint=hint)


class _Documents(NamedTuple):
    clusters: dict[str, Block]
    project: Block | None


def parse(text: str, path: str = FILE_NAME) -> Project:
    """The project in a text, of whatever revision.

    Raises:
        ManifestErrors: Everything that is wrong with it.
    """
    problems: list[Problem] = []
    found = _documents(text, path, problems)
    if not problems:
        problems.extend(_cross_problems(found, path))
    if problems:
        raise ManifestErrors(problems)
    return _built(found, path)


# ---- finding documents ----------------------------------------------------------------------


def _documents(text: str, path: str, problems: list[Problem]) -> _Documents:
    clusters: dict[str, Block] = {}
    project: Block | None = None
    budget = yaml_files.NodeBudget(file=MAX_NODES, total=MAX_NODES)
    roots = [
        root
        for piece in yaml_files.pieces(text)
        if not budget.is_spent
        for root in yaml_files.read(piece, path, problems, budget)
    ]
    for root in roots:
        kind = _checked_kind(root, path, problems)
        if kind is None or not isinstance(root, Block):
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
        problems.append(Problem(path, 1, 1, f"the project file holds no {CLUSTER}"))
    return _Documents(clusters, project)


def _checked_kind(root: Node, path: str, problems: list[Problem]) -> str | None:
    """The kind of a document that is in order; what is wrong is added to ``problems``."""
    entry = root.entries.get("kind") if isinstance(root, Block) else None
    kind = None if entry is None else text_of(entry.value)
    if kind not in {CLUSTER, PROJECT}:
        words = (
            "ClientQuota documents belong into the manifests, not into the project file"
            if kind == QUOTA
            else f"a document here has kind {PROJECT} or {CLUSTER}{'' if kind is None else f', not {kind!r}'}"
        )
        line, column = key_place(root, ("kind",))
        problems.append(Problem(path, line, column, words))
        return None
    from reconciler.manifest import verdict  # noqa: PLC0415 - needed by project files only, not by manifests

    if not verdict.accepted(kind, to_json(root)) or any(verdict.ambiguous_keys(root)):
        from reconciler.manifest import explain  # noqa: PLC0415 - loads jsonschema, only when something is wrong

        problems.extend(explain.problems(kind, root, path))
        return None
    return kind


def _cross_problems(found: _Documents, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for root in found.clusters.values():
        if find(root, ("spec", "secretRef")) is not None:
            line, column = key_place(root, ("spec", "secretRef"))
            words = (
                "spec.secretRef: only the operator reads Secrets; here use properties with ${env:NAME} or "
                "${file:/path:key}, or propertiesFile"
            )
            problems.append(Problem(path, line, column, words))
    listed = find(found.project, ("spec", "clusters")) if found.project is not None else None
    seen: set[str] = set()
    for index, one in enumerate(_items(listed)):
        name = one["name"]
        line, column = place(found.project or listed, ("spec", "clusters", index, "name"))  # type: ignore[arg-type] # a list has a project
        if name not in found.clusters:
            words = f"no {CLUSTER} in this file is called {name!r}; {_near(name, tuple(found.clusters))}"
            problems.append(Problem(path, line, column, words))
        elif name in seen:
            problems.append(Problem(path, line, column, f"cluster {name!r} is listed twice"))
        seen.add(name)
    simulate = find(found.project, ("spec", "simulate")) if found.project is not None else None
    if simulate is not None and found.project is not None:
        words = _policy_problem(to_json(simulate))
        if words:
            line, column = key_place(found.project, ("spec", "simulate"))
            problems.append(Problem(path, line, column, f"spec.simulate.{words}"))
    return problems


def _policy_problem(simulate: Any) -> str:  # noqa: ANN401 - JSON
    from reconciler.manifest import whatif_policy  # noqa: PLC0415 - the models of use, only where they are asked for

    try:
        _ = whatif_policy.policy_of(simulate)
    except QuotaValueError as wrong:
        return wrong.message
    return ""


def _items(node: Node | None) -> list[Any]:
    found = None if node is None else to_json(node)
    return found if isinstance(found, list) else []


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"


# ---- building -------------------------------------------------------------------------------


def _built(found: _Documents, path: str) -> Project:
    written: Any = {} if found.project is None else to_json(found.project)
    spec: Mapping[str, Any] = written.get("spec", {})
    special = {one["name"]: one for one in spec.get("clusters", ())}
    general_bounds = bounds_of(spec.get("limits", {}))
    clusters: list[ProjectCluster] = []
    documents: dict[str, Json] = {PROJECT: written} if written else {}
    for name in sorted(found.clusters):
        root = found.clusters[name]
        whole: Any = to_json(root)
        documents[f"{CLUSTER}/{name}"] = whole
        cluster = from_spec(name, whole["spec"])
        guards = replace(cluster.guards, bounds=cluster.guards.bounds + general_bounds)
        own = special.get(name, {})
        clusters.append(
            ProjectCluster(
                cluster=replace(cluster, guards=guards),
                manifests=tuple(own.get("manifests", spec.get("manifests", ()))),
                own_manifests="manifests" in own,
                inventory=_inventory(own.get("inventory", spec.get("inventory"))),
                audit_log=own.get("auditLog", spec.get("auditLog", ".kquota/audit.jsonl")),
                line=root.line,
            )
        )
    reading = spec.get("reading", {})
    return Project(
        path=path,
        clusters=tuple(clusters),
        reading=Reading(
            max_files=reading.get("maxFiles", MAX_FILES),
            max_file_bytes=reading.get("maxFileBytes", MAX_FILE_BYTES),
        ),
        accepted_warnings=tuple(
            AcceptedWarning(
                kind=WarningKind(rule["warning"]), document=rule["document"], reason=rule["reason"]
            )
            for rule in spec.get("acceptedWarnings", ())
        ),
        simulate=spec.get("simulate", {}),
        documents=documents,
    )


def _inventory(spec: Mapping[str, str] | None) -> InventoryPlace:
    if spec is None:
        return InventoryPlace(file=".kquota/inventory.json")
    return InventoryPlace(file=spec.get("file"), git_ref=spec.get("gitRef"))
