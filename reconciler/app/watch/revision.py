"""A commit's project file and manifests, accepted or refused as a whole."""

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.clusters.project_files import read_tree
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.clusters.trusted_files import TrustedFiles
from reconciler.app.notices import LoggedNotices
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.base.redaction import QuietRepr
from reconciler.base.regular_files import read_regular
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
    targets: Mapping[str, ClusterTarget]  # by name; their files are those of the commit
    # Cluster -> desired state of its documents.
    desired: Mapping[str, DesiredState]
    # Cluster -> client properties with the places of their files; hidden, because they may contain secrets.
    properties: Mapping[str, Mapping[str, str]]
    # Path in the commit -> content of each file that they name, such as certificates.
    contents: Mapping[str, bytes]
    warnings: tuple[Problem, ...] = ()

    def has_settings_of(self, previous: "Revision | None") -> bool:
        """Whether only documents differ, so that running loops can continue."""
        return (
            previous is not None
            and self.project.documents == previous.project.documents
            and self.properties == previous.properties
            and self.contents == previous.contents
        )


def read_revision(tree: CommitTree, places: RevisionPaths) -> Revision:
    """Return the revision of a commit.

    Raises:
        GitError: There is no project file, or a file cannot be read.
        ConfigError: A properties file cannot be read, or a path leads out of the repository.
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
    root, files = tree.top / places.folder, None
    if places.trusted is None:
        files = TrustedFiles(tree=tree, revision=tree.commit[:12], is_bare=True)
    else:
        root = places.trusted.absolute().parent
    targets = {
        cluster.name: ClusterTarget(
            project_cluster=cluster,
            root=root,
            project=project,
            options=TargetRequest(),
            files=files,
        )
        for cluster in project.clusters
    }
    properties = {name: target.project_properties() for name, target in targets.items()}
    return Revision(
        commit=tree.commit,
        project=project,
        targets=targets,
        desired=desired,
        properties=properties,
        contents={} if files is None else _contents(tree, properties),
        warnings=tuple(sorted(set(warnings))),
    )


def _contents(
    tree: CommitTree, properties_by_cluster: Mapping[str, Mapping[str, str]]
) -> Mapping[str, bytes]:
    """Return the files of the commit that client properties name; of a folder, all that are in it."""
    below = f"{tree.top}/"
    names = {
        posixpath.normpath(value).removeprefix(below)
        for settings in properties_by_cluster.values()
        for value in settings.values()
        if value.startswith(below)
    }
    return tree.read(tree.under(names))


def check_clients(revision: Revision) -> None:
    """Check the client settings of every cluster."""
    for name, target in revision.targets.items():
        _ = target.client_config(LoggedNotices(name))


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
