"""A commit's project file and manifests, accepted or refused as a whole."""

import posixpath
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.app.clusters.project_files import located_properties, read_tree
from reconciler.app.clusters.targets import place_of
from reconciler.app.clusters.trusted_files import TrustedFiles
from reconciler.base import properties
from reconciler.base.clock import SystemClock
from reconciler.base.redaction import QuietRepr
from reconciler.base.regular_files import read_regular
from reconciler.client import ANYTHING, ClientConfig, anything_in
from reconciler.client.configuration.references import AllowedReferences
from reconciler.errors import ConfigError, GitError, ManifestErrors, Problem
from reconciler.git.repository import CommitTree
from reconciler.manifest.loader import load_files
from reconciler.manifest.project.file import (
    FILE_NAME,
    MAX_FILE_SIZE,
    Project,
    ProjectCluster,
    parse,
)
from reconciler.manifest.project.selection import for_cluster
from reconciler.quota.planner.desired_state import DesiredState, conflict_problems, merge

_REF_INVENTORY: Final = (
    "inventory.gitRef is for CI jobs without a persistent disk; kquota watch stores its records in a file:"
    " set inventory.file, or remove inventory.gitRef"
)


class RevisionPaths(Struct, frozen=True, kw_only=True):
    """The paths of project and manifests in a commit."""

    folder: str = ""  # base folder of the project's paths, relative to the top; "" = the top
    project: str = FILE_NAME  # the project file, relative to that folder
    # A project file on this machine that is used instead; None = the commit's own.
    trusted: Path | None = None

    def __post_init__(self) -> None:
        for name in (self.folder, self.project):
            if name.startswith("/") or ".." in name.split("/"):
                raise ConfigError(f"{name!r} is not a path inside the repository")

    def within(self, name: str) -> str:
        """Return a path of the project as a path in the commit."""
        return posixpath.normpath(posixpath.join(self.folder, name))


class Revision(QuietRepr, Struct, frozen=True, kw_only=True):
    """The parsed content of one commit."""

    commit: str
    project: Project
    # Cluster -> desired state of its documents.
    desired: Mapping[str, DesiredState]
    # Cluster -> client properties, with the places of their files; hidden, because they may contain secrets.
    properties: Mapping[str, Mapping[str, str]]
    # What their references may read, and where their files are.
    allowed: AllowedReferences = ANYTHING
    # Path in the commit -> content of each file that client properties name.
    contents: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    warnings: tuple[Problem, ...] = ()

    def has_settings_of(self, previous: "Revision | None") -> bool:
        """Whether only documents differ, so that running loops can continue."""
        return (
            previous is not None
            and self.project.documents == previous.project.documents
            and self.properties == previous.properties
            and self.contents == previous.contents
        )

    def client_config(self, name: str) -> ClientConfig:
        """Return the client configuration of a cluster; references to the environment and to files are resolved now."""
        return ClientConfig.from_mapping(
            self.properties[name],
            location=f"{self.project.path}, cluster {name}",
            allowed=self.allowed,
        )


def read_revision(tree: CommitTree, places: RevisionPaths) -> Revision:
    """Return the revision of a commit.

    Raises:
        GitError: There is no project file, or a file cannot be read.
        ConfigError: A properties file cannot be read.
        ManifestErrors: All problems of the files, conflicts included.
    """
    tree = replace(tree, top=tree.top.absolute())
    project = _project(tree, places)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    desired: dict[str, DesiredState] = {}
    for project_cluster in project.clusters:
        if project_cluster.inventory.git_ref is not None:
            problems.append(
                Problem(
                    project.path,
                    project_cluster.line,
                    1,
                    f"{project_cluster.name}: {_REF_INVENTORY}",
                )
            )
        documents, warnings_of_cluster = _documents(
            tree, places, project, project_cluster, problems
        )
        desired[project_cluster.name] = documents
        warnings.extend(warnings_of_cluster)
    if problems:
        raise ManifestErrors(sorted(set(problems)))
    properties_by_cluster = {
        project_cluster.name: _properties(tree, places, project_cluster)
        for project_cluster in project.clusters
    }
    revision = Revision(
        commit=tree.commit,
        project=project,
        desired=desired,
        properties=properties_by_cluster,
        warnings=tuple(sorted(set(warnings))),
    )
    if places.trusted is not None:
        return revision
    files = TrustedFiles(tree=tree, revision=tree.commit[:12])
    return replace(
        revision,
        allowed=anything_in(files),
        contents=_contents(tree, properties_by_cluster),
    )


def check_clients(revision: Revision) -> None:
    """Check the client settings of every cluster."""
    for name in revision.project.names:
        _ = revision.client_config(name)


def _project(tree: CommitTree, places: RevisionPaths) -> Project:
    if places.trusted is not None:
        return parse(_text_of(places.trusted), str(places.trusted))
    name = places.within(places.project)
    if name not in tree.entries:
        raise GitError(
            f"there is no {name} at {tree.commit[:12]}",
            hint="name the project file with --path and --project, or one on this machine with --config-from",
        )
    content = tree.read([name], max_bytes=MAX_FILE_SIZE)[name]
    try:
        return parse(content.decode("utf-8"), name)
    except UnicodeDecodeError:
        raise ManifestErrors([Problem(name, 0, 0, "is not UTF-8")]) from None


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, max_bytes=MAX_FILE_SIZE).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _documents(
    tree: CommitTree,
    places: RevisionPaths,
    project: Project,
    project_cluster: ProjectCluster,
    problems: list[Problem],
) -> tuple[DesiredState, tuple[Problem, ...]]:
    """Return the desired state of one cluster, and warnings; problems are added to ``problems``."""
    if not project_cluster.manifests:
        words = f"no manifests are configured for {project_cluster.name} (spec.manifests)"
        problems.append(Problem(project.path, project_cluster.line, 1, words))
        return DesiredState(), ()
    texts = read_tree(
        tree,
        places.within("."),
        project_cluster.manifests,
        project_file=places.project,
    )
    loaded = for_cluster(
        load_files(texts, clusters=project.labels, problems=texts.problems), project_cluster
    )
    problems.extend(loaded.problems)
    desired = merge(loaded.of(project_cluster.name), now=SystemClock().now())
    problems.extend(conflict_problems(desired.conflicts))
    return desired, loaded.warnings


def _properties(
    tree: CommitTree, places: RevisionPaths, project_cluster: ProjectCluster
) -> Mapping[str, str]:
    """Return ``propertiesFile`` (at the commit unless it is absolute), overridden by the cluster's own properties."""
    place = (
        partial(_place_in_commit, tree, places)
        if places.trusted is None
        else partial(place_of, places.trusted.absolute().parent)
    )
    return located_properties(
        {**_file_properties(tree, places, project_cluster), **project_cluster.cluster.properties},
        place,
    )


def _place_in_commit(tree: CommitTree, places: RevisionPaths, name: str) -> str:
    """Return the place of a path of the project file, of which the commit has the content."""
    if not name or "://" in name or name.startswith("/"):
        return name
    path_in_commit = places.within(name)
    if path_in_commit.split("/")[0] == "..":
        raise ConfigError(
            f"{name} leads out of the repository",
            hint="name a file of the repository, or one of this machine by its absolute path",
        )
    return str(tree.top / path_in_commit)


def _contents(
    tree: CommitTree, properties_by_cluster: Mapping[str, Mapping[str, str]]
) -> Mapping[str, bytes]:
    """Return the files of the commit that client properties name; of a folder, all that are in it."""
    below = f"{tree.top}/"
    names = {
        value.removeprefix(below)
        for settings in properties_by_cluster.values()
        for value in settings.values()
        if value.startswith(below)
    }
    return tree.read(tree.under(names))


def _file_properties(
    tree: CommitTree, places: RevisionPaths, project_cluster: ProjectCluster
) -> Mapping[str, str]:
    name = project_cluster.cluster.properties_file
    if name is None:
        return {}
    if places.trusted is not None:
        pairs = properties.read(places.trusted.parent / name)
    elif name.startswith("/"):
        pairs = properties.read(Path(name))
    else:
        path_in_commit = places.within(name)
        content = tree.read([path_in_commit], max_bytes=properties.MAX_BYTES)[path_in_commit]
        pairs = properties.parse(
            properties.decoded(content), location=f"{path_in_commit} at {tree.commit[:12]}"
        )
    return {pair.key: pair.value for pair in pairs}
