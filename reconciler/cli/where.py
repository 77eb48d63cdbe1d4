"""From what was typed to targets: the cluster's trusted configuration, and how to connect to it.

Connection, expected cluster id, guards, policy and tenants come from here and only from here: from options,
from the project file, or with ``--config-from REV`` from the project file of that revision.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.console import Console
from reconciler.cli.options import Where
from reconciler.cli.project_files import name_in, project_path
from reconciler.errors import ConfigError, GitError, UsageError
from reconciler.manifest.cluster import QuotaCluster, from_spec
from reconciler.manifest.project import (
    MAX_FILE_SIZE,
    InventoryPlace,
    Project,
    ProjectCluster,
    Reading,
    parse,
)
from reconciler.regular_files import boundary_of, check_inside, read_regular

if TYPE_CHECKING:
    from reconciler.cli.trusted_files import TrustedFiles
    from reconciler.client import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One cluster that a command is about.

    Attributes:
        chosen: Its trusted configuration, and where its manifests and records are.
        root: Folder that paths of the project start from.
        project: The project it comes from; ``None`` where addresses were typed.
        reading: How much is read of manifests.
        where: What was typed.
        files: The files of the trusted revision, with ``--config-from``; ``None`` = files are those of the disk.
        is_trusted: Whether anything that the configuration names may be contacted or believed. Not where
            ``--config-from`` names a revision without a project file.
    """

    chosen: ProjectCluster
    root: Path
    project: Project | None
    reading: Reading
    where: Where
    files: "TrustedFiles | None" = None
    is_trusted: bool = True

    @property
    def name(self) -> str:
        """What manifests call it; "" where only addresses are known."""
        return self.chosen.name

    @property
    def settings(self) -> QuotaCluster:
        """Its trusted configuration."""
        return self.chosen.cluster

    @property
    def shown(self) -> str:
        """How to call it in output."""
        return self.name or self.where.bootstrap_server or str(self.where.command_config)

    def command(self, *words: str, chooses_cluster: bool = True) -> str:
        """A ``kquota`` command about this cluster, for the current folder, quoted for a POSIX shell.

        Args:
            words: The command with its own arguments.
            chooses_cluster: Whether the command needs an option to choose among the clusters of the project.
        """
        where, options = self.where, list[str]()
        if where.bootstrap_server is not None:
            options += ["--bootstrap-server", where.bootstrap_server]
        if where.command_config is not None:
            options += ["--command-config", where.command_config]
        if where.project is not None:
            options += ["--project", str(where.project)]
        if chooses_cluster and self.project is not None and len(self.project.names) > 1:
            options += ["--cluster", self.name]
        return shlex.join(["kquota", *words, *options])

    def client_config(self, console: Console) -> "ClientConfig":
        """How to reach it; warnings about the settings are said here.

        Raises:
            ConfigError: A setting or a file is wrong, or the configuration is not trusted.
        """
        if not self.is_trusted:
            raise ConfigError(
                f"the configuration of {self.shown} is not trusted; no cluster is asked"
            )
        from reconciler.cli.connection import client_config, overriding

        if self.project is None:
            return client_config(
                console,
                bootstrap_server=self.where.bootstrap_server,
                command_config=self.where.command_config,
                timeout=self.where.timeout,
            )
        from reconciler.client import ANYTHING, ClientConfig

        given = dict(self._file_properties()) | dict(self.settings.properties)
        given |= self._command_properties(console)
        made = ClientConfig.from_mapping(
            given | dict(overriding(None, self.where.timeout)),
            where=f"{self.project.path}, cluster {self.name}",
            allowed=ANYTHING if self.files is None else replace(ANYTHING, files=self.files),
        )
        for warning in made.warnings:
            console.warning(warning)
        return made

    def _file_properties(self) -> Mapping[str, str]:
        """What ``propertiesFile`` holds, at the trusted revision if there is one."""
        name = self.settings.properties_file
        return {} if name is None else self._properties_in(self.root / name)

    def _command_properties(self, console: Console) -> Mapping[str, str]:
        """What ``--command-config`` adds to the project's settings; the brokers are always the project's."""
        if self.where.command_config is None:
            return {}
        pairs = dict(self._properties_in(Path(self.where.command_config)))
        brokers = pairs.pop("bootstrap.servers", None)
        if brokers is not None and brokers != self.settings.properties.get("bootstrap.servers"):
            console.warning(
                f"bootstrap.servers of {self.where.command_config} is not used:"
                f" the project file names the brokers of {self.name}"
            )
        return pairs

    def _properties_in(self, path: Path) -> Mapping[str, str]:
        """A properties file; one of the checkout is read at the trusted revision if there is one."""
        from reconciler.client import properties

        content = properties.read_bytes(path) if self.files is None else self.files.read(path)
        pairs = properties.parse(properties.decoded(content), where=str(path))
        return {pair.key: pair.value for pair in pairs}


def place_of(root: Path, address: str) -> str:
    """An address as a project file writes it: a folder starts where the project's own paths do; "" is nowhere.

    Args:
        root: Folder that paths of the project start from.
        address: A path, or anything with a scheme, which stands as it is.
    """
    return str(root / address) if address and "://" not in address else address


def targets(where: Where, *, untrusted: bool = False) -> tuple[Target, ...]:
    """The clusters that a command line means, sorted by name.

    Args:
        where: What was typed.
        untrusted: Whether targets without a trusted configuration make sense, because nothing is contacted.

    Raises:
        UsageError: Nothing says which cluster, or a project has several and none was chosen.
        ConfigError: The chosen cluster is unknown.
        ManifestErrors: The project file is wrong.
        GitError: The revision of ``--config-from`` cannot be read.
    """
    if where.by_address or _is_without_project(where):
        return (_by_address(where),)
    is_trusted = True
    files: TrustedFiles | None = None
    try:
        project, root, files = read_project(where)
    except NoTrustedProject:
        if not untrusted:
            raise
        project, is_trusted = read_head_project(where), False
        root = project_path(where).parent
    if where.every:
        names = project.names
    elif where.cluster is not None:
        names = (project.cluster(where.cluster).name,)
    elif len(project.names) == 1:
        names = project.names
    else:
        raise UsageError(
            f"{project.path} has {len(project.names)} clusters",
            hint=f"choose with --cluster ({', '.join(project.names)})"
            + (", or use --all" if where.takes_all else ""),
        )
    return tuple(
        Target(
            chosen=project.cluster(name),
            root=root,
            project=project,
            reading=project.reading,
            where=where,
            files=files,
            is_trusted=is_trusted,
        )
        for name in names
    )


def offline_targets(
    where: Where, paths: Sequence[str], *, untrusted: bool = False
) -> tuple[Target, ...]:
    """As :func:`targets`; where files were named and there is no project at all, a target without a cluster."""
    bare = where.project is None and not where.by_address and where.config_from is None
    if bare and paths and not project_path(where).exists():
        return (_by_address(replace(where, bootstrap_server="offline", every=False)),)
    return targets(where, untrusted=untrusted)


def target(where: Where) -> Target:
    """The one cluster that a command line means; raises as :func:`targets` does."""
    (one,) = targets(where)
    return one


class NoTrustedProject(GitError):
    """The trusted revision has no project file."""


def read_project(where: Where) -> tuple[Project, Path, "TrustedFiles | None"]:
    """The trusted project, the folder its paths start from, and the files of its revision.

    Raises:
        UsageError: There is no project file.
        ManifestErrors: It is wrong.
        NoTrustedProject: The revision has none.
        GitError: It cannot be read at the revision, or the repository is a submodule.
    """
    if where.config_from is None:
        path = project_path(where)
        return parse(_text(path), str(path)), path.parent, None
    from reconciler.cli.trusted_files import TrustedFiles
    from reconciler.git.exact_revision import exact_commit
    from reconciler.git.repository import Repository

    repository = Repository.around((where.project or Path("kquota.yaml")).absolute().parent)
    if (outer := repository.superproject()) is not None:
        raise GitError(
            f"{repository.top} is a submodule of {outer}: a commit there decides which repository it is, so"
            " --config-from cannot trust it",
            hint="put the project file and its manifests into the repository that the pipeline checks out, or clone"
            f" their repository by itself, outside of {outer}, and run there",
        )
    tree = repository.tree(exact_commit(repository, where.config_from, option="--config-from"))
    path = project_path(where, tree)
    name = name_in(tree, path)
    if name not in tree.entries:
        raise NoTrustedProject(
            f"there is no {name} at {where.config_from}, so there is no configuration to trust",
            hint="merge the project file first, or name a revision that has it",
        )
    text = tree.read([name])[name].decode("utf-8", "replace")
    files = TrustedFiles(tree=tree, revision=where.config_from)
    return parse(text, f"{path} at {where.config_from}"), path.parent, files


def read_head_project(where: Where) -> Project:
    """The project of the checkout itself, beside a trusted revision; only to be shown, or to find manifests.

    Raises:
        UsageError: There is no project file, or it leads out of the repository.
        ManifestErrors: It is wrong.
    """
    path = project_path(where)
    try:
        check_inside(path, boundary_of(path, path.parent))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return read_project(replace(where, config_from=None))[0]


def _text(path: Path) -> str:
    try:
        return read_regular(path, most=MAX_FILE_SIZE).decode("utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no project file {path}",
            hint="name one with --project, or name brokers with --bootstrap-server; kquota.yaml is searched here and in"
            " the folders above that are yours, up to the root of the git work tree",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_without_project(where: Where) -> bool:
    """Whether ``--command-config`` alone says where the brokers are."""
    if where.command_config is None or where.project or where.every or where.config_from:
        return False
    return not project_path(where).exists()


def _by_address(where: Where) -> Target:
    name = where.cluster or ""
    shown = where.bootstrap_server or str(where.command_config)
    return Target(
        chosen=ProjectCluster(
            cluster=from_spec(name, {"bootstrapServers": shown}),
            manifests=(),
            own_manifests=False,
            inventory=InventoryPlace(file=".kquota/inventory.json"),
            audit_log=".kquota/audit.jsonl",
            line=0,
        ),
        root=Path(),
        project=None,
        reading=Reading(),
        where=where,
    )
