"""Loads manifests: finds the documents in texts, checks them, and lists all problems of a run.

The source of the texts is independent: ``files.read_paths`` reads a disk, ``git`` reads a revision.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.cluster_selector import Labels, SelectedClusters
from reconciler.manifest.document import ClientQuota, DocumentDeclined, from_node, text_of
from reconciler.manifest.files import FileTexts, read_paths
from reconciler.manifest.schema_names import API_VERSION, CLUSTER, GROUP, PROJECT, QUOTA
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import MappingNode, Node, SequenceNode, key_place
from reconciler.manifest.syntax.yaml_parser import MANY_PROBLEMS, MAX_PROBLEMS, DocumentText
from reconciler.quota.planner.desired_state import Declaration

LISTS: Final = {("v1", "List"), (API_VERSION, "ClientQuotaList")}
"""Kinds that contain many documents, by apiVersion and kind."""

NO_CLUSTER: Final = ""
"""Key for documents that select clusters by labels, if no labels are known."""


class LoadedManifests(Struct, frozen=True, kw_only=True, gc=False):
    """The declarations in a set of files."""

    # Name of the QuotaCluster -> its declarations, in the order of the files. `NO_CLUSTER` has those of documents
    # that select clusters, if no labels are known.
    by_cluster: Mapping[str, tuple[Declaration, ...]]
    # All errors, sorted by place. If there are any, no plan may be computed.
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]  # legal but unusual facts, such as a file without a document
    file_count: int

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """All declarations, cluster by cluster."""
        return tuple(
            declaration for declarations in self.by_cluster.values() for declaration in declarations
        )

    def of(self, cluster: str) -> tuple[Declaration, ...]:
        """Return the declarations for one cluster; empty if no document names it."""
        return self.by_cluster.get(cluster, ())

    def checked(self) -> "LoadedManifests":
        """Return itself if there are no problems.

        Raises:
            ManifestErrors: All problems.
        """
        if self.problems:
            raise ManifestErrors(self.problems)
        return self


class _LoadRun(Struct, kw_only=True):
    clusters: Mapping[str, Labels] | None
    progress: Callable[[int], None]
    by_cluster: dict[str, list[Declaration]] = field(default_factory=dict)
    places: dict[tuple[str, str], Declaration] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    documents: int = 0
    budget: yaml_parser.NodeBudget

    @property
    def has_many_problems(self) -> bool:
        """Whether problems are left that will not be listed."""
        return len(self.problems) > MAX_PROBLEMS

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is read in this run."""
        return self.has_many_problems or self.budget.is_spent

    def add(self, quota: ClientQuota) -> None:
        if not isinstance(quota.clusters, SelectedClusters):
            self._declare(quota.clusters, quota.declaration)
        elif self.clusters is None:
            self._declare(NO_CLUSTER, quota.declaration)
        else:
            self._select(quota, quota.clusters, self.clusters)

    def _select(
        self, quota: ClientQuota, selection: SelectedClusters, clusters: Mapping[str, Labels]
    ) -> None:
        """Add a document for each cluster that it selects; an item with an unknown cluster is a problem."""
        document = quota.declaration
        for index, name in selection.unknown_names(clusters):
            words = (
                f"{document.document}: spec.clusterLimits[{index}]: {_unknown_name(name, clusters)}"
            )
            line = selection.cluster_limits[index].line
            self.problems.append(Problem(document.path, line, 1, words))
        declarations = list(quota.declarations(clusters))
        if not declarations:
            words = f"{document.document}: clusterSelector {selection.selector} selects no cluster"
            self.warnings.append(Problem(document.path, document.line, 1, words))
        for name, declaration in declarations:
            self._declare(name, declaration)

    def _declare(self, cluster: str, declaration: Declaration) -> None:
        declarations = self.by_cluster.get(cluster)
        if declarations is None:
            if self.clusters is not None and cluster not in self.clusters:
                words = f"{declaration.document}: {_unknown_name(cluster, self.clusters)}"
                self.problems.append(Problem(declaration.path, declaration.line, 1, words))
                return
            declarations = self.by_cluster[cluster] = []
        first = self.places.setdefault((cluster, declaration.document), declaration)
        if first is not declaration:
            words = f"{declaration.document} is also declared at {first.path}:{first.line}"
            self.problems.append(Problem(declaration.path, declaration.line, 1, words))
        declarations.append(declaration)


def load_files(
    files: Iterable[tuple[str, str | Problem]],
    *,
    clusters: Mapping[str, Labels] | None = None,
    problems: Iterable[Problem] = (),
    budget: yaml_parser.NodeBudget | None = None,
    progress: Callable[[int], None] | None = None,
) -> LoadedManifests:
    """Load the documents in these files.

    Args:
        files: ``(path, text)`` pairs, with the problem of a file that cannot be read; the path is only for display.
        clusters: The labels for selectors, by the name of each known cluster; a document that names another cluster is
            a problem. ``None`` accepts all, and puts documents that select clusters below ``NO_CLUSTER``.
        problems: Problems of reading the files, to be listed with the rest.
        budget: Maximum number of keys and values; ``None`` = the default.
        progress: Called with the number of documents so far, after each piece of a file.
    """
    run = _LoadRun(
        progress=progress or _ignore_progress,
        clusters=clusters,
        problems=list(problems),
        budget=yaml_parser.NodeBudget() if budget is None else budget,
    )
    count = 0
    for path, text in files:
        count += 1
        if isinstance(text, Problem):
            run.problems.append(text)
        else:
            _load_file(run, path, text)
        if run.is_stopped:  # the file that spent the budget is among the problems
            break
    return LoadedManifests(
        by_cluster={name: tuple(declarations) for name, declarations in run.by_cluster.items()},
        problems=tuple(sorted(set(run.problems))),
        warnings=tuple(sorted(run.warnings)),
        file_count=count,
    )


def _ignore_progress(_documents: int) -> None:
    """Discard progress."""


def _load_file(run: _LoadRun, path: str, text: str) -> None:
    before = (run.documents, len(run.problems))
    run.budget.begin_file()
    for piece in yaml_parser.pieces(text):
        if run.budget.left_in_file <= 0 or run.is_stopped:
            break
        _load_piece(run, path, piece)
        if run.has_many_problems:
            del run.problems[MAX_PROBLEMS:]
            run.problems.append(Problem(path, 0, 0, MANY_PROBLEMS))
        run.progress(run.documents)
    if before == (run.documents, len(run.problems)):
        run.warnings.append(Problem(path, 1, 1, "the file holds no document"))


def _load_piece(run: _LoadRun, path: str, piece: DocumentText) -> None:
    for root in yaml_parser.read(piece, path, run.problems, run.budget):
        for node in _documents(run, path, root):
            run.documents += 1
            if run.has_many_problems:
                return
            try:
                quota = from_node(node, path)
            except DocumentDeclined:
                run.problems.extend(_explain(node, path))
                continue
            run.add(quota)


def _explain(node: Node, path: str) -> list[Problem]:
    from reconciler.manifest import explanation  # noqa: PLC0415 - jsonschema is loaded only when something is wrong

    found_problems = explanation.problems(QUOTA, node, path)
    return found_problems or [Problem(path, node.line, node.column, "is not a valid ClientQuota")]


def _documents(run: _LoadRun, path: str, root: Node, *, in_list: bool = False) -> Iterator[Node]:
    """Yield the ClientQuota documents in a document: itself, or the items of a list."""
    kind, api_version = _identity(root, "kind"), _identity(root, "apiVersion")
    if kind == QUOTA and (api_version == API_VERSION or in_list):
        yield root
    elif (api_version, kind) in LISTS and not in_list and isinstance(root, MappingNode):
        items = root.entries.get("items")
        if items is None or not isinstance(items.value, SequenceNode):
            run.problems.append(
                Problem(path, root.line, root.column, f"{kind}: items is missing or no list")
            )
            return
        for name, entry in root.entries.items():
            if name not in {"apiVersion", "kind", "metadata", "items"}:
                key = entry.key
                run.problems.append(
                    Problem(path, key.line, key.column, f"{kind}: unknown field {name}")
                )
        for item in items.value.nodes:
            yield from _documents(run, path, item, in_list=True)
    else:
        run.problems.append(_foreign(path, root, kind, api_version))


def _identity(root: Node, name: str) -> str | None:
    entry = root.entries.get(name) if isinstance(root, MappingNode) else None
    return None if entry is None else text_of(entry.value)


def _foreign(path: str, root: Node, kind: str | None, api_version: str | None) -> Problem:
    if not isinstance(root, MappingNode):
        return Problem(
            path, root.line, root.column, "a document must be a mapping with apiVersion and kind"
        )
    missing = [
        name for name, value in (("apiVersion", api_version), ("kind", kind)) if value is None
    ]
    if missing:
        words = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing or no text"
        line, column = key_place(root, (missing[0],))
        return Problem(path, line, column, words)
    line, column = root.entries["kind"].value.line, root.entries["kind"].value.column
    if kind in {CLUSTER, PROJECT}:
        words = f"a {kind} must be in the project file kquota.yaml, not in the manifests"
    elif kind in {QUOTA, "ClientQuotaList"}:
        line, column = (
            root.entries["apiVersion"].value.line,
            root.entries["apiVersion"].value.column,
        )
        words = (
            f"apiVersion {api_version!r} is unknown for {kind}; this version reads {API_VERSION}"
        )
    elif str(api_version).startswith(f"{GROUP}/"):
        close = difflib.get_close_matches(str(kind), [QUOTA, "ClientQuotaList"], n=1)
        advice = f"did you mean {close[0]}?" if close else f"a manifest has kind {QUOTA}"
        words = f"kind {kind!r} is unknown; {advice}"
    else:
        words = f"kind {kind!r} of {api_version} is not a manifest; only ClientQuota documents are allowed here"
    return Problem(path, line, column, words)


def _unknown_name(cluster: str, clusters: Collection[str]) -> str:
    close = difflib.get_close_matches(cluster, list(clusters), n=1)
    hint = (
        f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(clusters)) or 'none'}"
    )
    return f"no QuotaCluster has the name {cluster!r}; {hint}"


__all__ = ["FileTexts", "LoadedManifests", "load_files", "read_paths"]
