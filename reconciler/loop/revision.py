"""What a commit asks for: its project file and its manifests, read whole or refused whole."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.client import ANYTHING, ClientConfig, properties
from reconciler.errors import ConfigError, GitError, ManifestErrors, Problem
from reconciler.git.repository import Tree
from reconciler.manifest.conflict import conflict_problems
from reconciler.manifest.files import read_blobs
from reconciler.manifest.load import load_files
from reconciler.manifest.project import FILE_NAME, MAX_FILE_SIZE, Project, ProjectCluster, parse
from reconciler.manifest.selection import for_cluster
from reconciler.quota.desired import Desired, merge
from reconciler.regular_files import read_regular

_REF_INVENTORY: Final = (
    "inventory.gitRef is for pipelines, whose machines forget everything; kquota watch keeps its records in a file:"
    " name one under inventory.file, or leave it away"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things are in a commit.

    Attributes:
        folder: Folder that the project's paths start from, relative to the top; "" = the top.
        project: The project file, relative to that folder.
        trusted: A project file on this machine that is believed instead; ``None`` = the commit's own.
    """

    folder: str = ""
    project: str = FILE_NAME
    trusted: Path | None = None

    def __post_init__(self) -> None:
        for name in (self.folder, self.project):
            if name.startswith("/") or ".." in name.split("/"):
                raise ConfigError(f"{name!r} is no path inside of the repository")

    def within(self, name: str) -> str:
        """A path of the project as the commit calls it."""
        return posixpath.normpath(posixpath.join(self.folder, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One commit, understood.

    Attributes:
        commit: Its id.
        project: Clusters, guards, policies.
        desired: Cluster -> what its documents ask for.
        properties: Cluster -> client properties as written; hidden, because they may hold secrets.
        warnings: What is legal and odd.
    """

    commit: str
    project: Project = field(repr=False)
    desired: Mapping[str, Desired] = field(repr=False)
    properties: Mapping[str, Mapping[str, str]] = field(repr=False)
    warnings: tuple[Problem, ...] = field(default=(), repr=False)

    def has_settings_of(self, other: "Revision | None") -> bool:
        """Whether nothing but documents differs, so that everything that runs can go on."""
        return (
            other is not None
            and self.project.documents == other.project.documents
            and self.properties == other.properties
        )

    def client_config(self, name: str) -> ClientConfig:
        """How to reach a cluster; references to the environment and to files are followed now.

        Raises:
            ConfigError: A setting is wrong, or something that is referred to is not there.
        """
        return ClientConfig.from_mapping(
            self.properties[name], where=f"{self.project.path}, cluster {name}", allowed=ANYTHING
        )


def read_revision(tree: Tree, places: Places) -> Revision:
    """The revision that a commit holds.

    Raises:
        GitError: There is no project file, or a file cannot be read.
        ConfigError: A properties file cannot be read.
        ManifestErrors: Everything that is wrong with the files, conflicts included.
    """
    project = _project(tree, places)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    desired: dict[str, Desired] = {}
    for chosen in project.clusters:
        if chosen.inventory.git_ref is not None:
            problems.append(
                Problem(project.path, chosen.line, 1, f"{chosen.name}: {_REF_INVENTORY}")
            )
        documents, said = _documents(tree, places, project, chosen, problems)
        desired[chosen.name] = documents
        warnings.extend(said)
    if problems:
        raise ManifestErrors(sorted(set(problems)))
    return Revision(
        commit=tree.commit,
        project=project,
        desired=desired,
        properties={one.name: _properties(tree, places, one) for one in project.clusters},
        warnings=tuple(sorted(set(warnings))),
    )


def check_clients(revision: Revision) -> None:
    """Nothing, if every cluster's client settings are in order.

    Raises:
        ConfigError: Those of one are not.
    """
    for name in revision.project.names:
        _ = revision.client_config(name)


def _project(tree: Tree, places: Places) -> Project:
    if places.trusted is not None:
        return parse(_text_of(places.trusted), str(places.trusted))
    name = places.within(places.project)
    if name not in tree.entries:
        raise GitError(
            f"there is no {name} at {tree.commit[:12]}",
            hint="name the project file with --path and --project, or one on this machine with --config-from",
        )
    content = tree.read([name])[name]
    try:
        return parse(content.decode("utf-8"), name)
    except UnicodeDecodeError:
        raise ManifestErrors([Problem(name, 0, 0, "is not UTF-8")]) from None


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, most=MAX_FILE_SIZE).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _documents(
    tree: Tree,
    places: Places,
    project: Project,
    chosen: ProjectCluster,
    problems: list[Problem],
) -> tuple[Desired, tuple[Problem, ...]]:
    """What one cluster's documents ask for, and warnings; what is wrong is added to ``problems``."""
    if not chosen.manifests:
        words = f"nothing says where the manifests of {chosen.name} are (spec.manifests)"
        problems.append(Problem(project.path, chosen.line, 1, words))
        return Desired(), ()
    base = "" if places.within(".") == "." else places.within(".") + "/"
    texts = read_blobs(
        chosen.manifests,
        [name.removeprefix(base) for name in tree.under((base,)) if name.startswith(base)],
        lambda names: {
            name.removeprefix(base): content
            for name, content in tree.read([base + one for one in names]).items()
        },
        exclude=(places.project,),
        max_files=project.reading.max_files,
        max_file_bytes=project.reading.max_file_bytes,
    )
    loaded = for_cluster(
        load_files(texts.files, clusters=project.names, problems=texts.problems), chosen
    )
    problems.extend(loaded.problems)
    desired = merge(loaded.of(chosen.name))
    problems.extend(conflict_problems(desired))
    return desired, loaded.warnings


def _properties(tree: Tree, places: Places, chosen: ProjectCluster) -> Mapping[str, str]:
    """What ``propertiesFile`` holds, at the commit unless it is absolute, under what the cluster itself says."""
    name = chosen.cluster.properties_file
    if name is None:
        return chosen.cluster.properties
    if places.trusted is not None:
        pairs = properties.read(places.trusted.parent / name)
    elif name.startswith("/"):
        pairs = properties.read(Path(name))
    else:
        inside = places.within(name)
        content = tree.read([inside])[inside]
        pairs = properties.parse(
            properties.decoded(content), where=f"{inside} at {tree.commit[:12]}"
        )
    return {pair.key: pair.value for pair in pairs} | dict(chosen.cluster.properties)
