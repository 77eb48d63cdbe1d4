"""Resolves typed options to targets: the cluster's trusted configuration, and how to connect to it.

Connection, expected cluster id, guards, policy and tenants come only from options, from the project file, or with
``--config-from REV`` from the project file of that revision.
"""

import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.app.clusters.project_files import located_properties, name_in, project_path
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import TargetRequest
from reconciler.base.redaction import QuietRepr
from reconciler.base.regular_files import boundary_of, check_inside, read_regular
from reconciler.errors import ConfigError, GitError, UsageError
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.manifest.project.file import (
    MAX_FILE_SIZE,
    InventoryLocation,
    Project,
    ProjectCluster,
    parse,
)

Value = TypeVar("Value")


class SharedReads:
    """Values that were read in this run, by key. Lives as long as the targets of one command."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def once(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return the value of a key, read on first use. An error is not stored.

        Args:
            key: What is read, and from where.
        """
        if key not in self._values:
            self._values[key] = read()
        value: Value = self._values[key]
        return value


if TYPE_CHECKING:
    from reconciler.app.clusters.trusted_files import TrustedFiles
    from reconciler.client import ClientConfig


class ClusterTarget(QuietRepr, Struct, frozen=True, kw_only=True):
    """One cluster of a command."""

    # Its trusted configuration, and the places of its manifests and records.
    project_cluster: ProjectCluster
    root: Path  # base folder of the project's paths
    project: Project | None  # its project; None if addresses were typed
    options: TargetRequest
    # The files of the trusted revision, with `--config-from`; None = files of the disk.
    files: "TrustedFiles | None" = None
    # Whether addresses in the configuration may be contacted and files be used. False if the revision of
    # `--config-from` has no project file.
    is_trusted: bool = True
    # What it reads in common with the other clusters of the run.
    reads: SharedReads = field(default_factory=SharedReads)

    @property
    def name(self) -> str:
        """Its name in manifests; "" if only addresses are known."""
        return self.project_cluster.name

    @property
    def settings(self) -> QuotaCluster:
        """Its trusted configuration."""
        return self.project_cluster.cluster

    @property
    def display_name(self) -> str:
        """Its name in output."""
        return self.name or self.options.bootstrap_server or str(self.options.command_config)

    @property
    def places(self) -> dict[str, str]:
        """The options that choose this cluster for another command, in the current folder."""
        is_chosen = self.project is None or len(self.project.names) > 1
        places = {
            "--bootstrap-server": self.options.bootstrap_server,
            "--command-config": self.options.command_config,
            "--project": self.options.project,
            "--cluster": self.name if is_chosen else "",
        }
        return {flag: str(value) for flag, value in places.items() if value}

    def command(self, *words: str, chooses_cluster: bool = True) -> str:
        """Return a ``kquota`` command about this cluster, for the current folder, quoted for a POSIX shell.

        Args:
            chooses_cluster: Whether the command needs an option to choose among the clusters of the project.
        """
        options = [
            word
            for flag, value in self.places.items()
            if chooses_cluster or flag != "--cluster"
            for word in (flag, value)
        ]
        return shlex.join(["kquota", *words, *options])

    def client_config(self, notices: TextReceiver) -> "ClientConfig":
        """Return the client configuration; report warnings about the settings.

        Raises:
            ConfigError: A setting or a file is invalid, or the configuration is not trusted.
        """
        if not self.is_trusted:
            raise ConfigError(
                f"the configuration of {self.display_name} is not trusted; no cluster is contacted"
            )
        from reconciler.app.clusters.connection import client_config, overriding

        if self.project is None:
            return client_config(
                notices,
                bootstrap_server=self.options.bootstrap_server,
                command_config=self.options.command_config,
                timeout=self.options.timeout,
            )
        from reconciler.client import ANYTHING, ClientConfig, anything_in

        properties_by_name = self.project_properties() | dict(self._command_properties(notices))
        config = ClientConfig.from_mapping(
            properties_by_name | dict(overriding(None, self.options.timeout)),
            location=f"{self.project.path}, cluster {self.name}",
            allowed=ANYTHING if self.files is None else anything_in(self.files),
        )
        for warning in config.warnings:
            notices.warning(warning)
        return config

    def project_properties(self) -> dict[str, str]:
        """Return the client properties of the project with the places of their files.

        Raises:
            ConfigError: ``propertiesFile`` cannot be read, or a path leads out of a followed repository.
        """
        name = self.settings.properties_file
        in_file = {} if name is None else self._properties_in(Path(self._place(name)))
        return located_properties({**in_file, **self.settings.properties}, self._place)

    def _place(self, address: str) -> str:
        place = place_of(self.root, address)
        if self.files is not None and "://" not in address and not address.startswith("/"):
            self.files.check_inside(address, place)
        return place

    def _command_properties(self, notices: TextReceiver) -> Mapping[str, str]:
        """Return what ``--command-config`` adds to the project's settings; bootstrap servers are always the project's."""
        if self.options.command_config is None:
            return {}
        pairs = dict(self._properties_in(Path(self.options.command_config)))
        brokers = pairs.pop("bootstrap.servers", None)
        if brokers is not None and brokers != self.settings.properties.get("bootstrap.servers"):
            notices.warning(
                f"bootstrap.servers of {self.options.command_config} is not used:"
                f" the project file names the brokers of {self.name}"
            )
        return pairs

    def _properties_in(self, path: Path) -> Mapping[str, str]:
        """Read a properties file; one in the checkout is read at the trusted revision if there is one."""
        from reconciler.base import properties

        content = properties.read_bytes(path) if self.files is None else self.files.read(path)
        pairs = properties.parse(properties.decoded(content), location=str(path))
        return {pair.key: pair.value for pair in pairs}


def place_of(root: Path, address: str) -> str:
    """Resolve an address of a project file: a folder is relative to the project's base folder; "" stays empty.

    Args:
        address: A path, or an address with a scheme, which is not changed.
    """
    return str(root / address) if address and "://" not in address else address


def targets(
    cluster_options: TargetRequest, *, untrusted: bool = False
) -> tuple[ClusterTarget, ...]:
    """Return the clusters of a command line, in the order of the project file.

    Args:
        untrusted: Whether targets without a trusted configuration are allowed, because nothing is contacted.

    Raises:
        UsageError: No cluster was given, a project has several and none was chosen, or a variable names brokers beside
            a project.
        ConfigError: The chosen cluster is unknown.
        ManifestErrors: The project file is invalid.
        GitError: The revision of ``--config-from`` cannot be read.
    """
    if cluster_options.by_address or _is_without_project(cluster_options):
        _check_variable(cluster_options)
        return (_by_address(cluster_options),)
    is_trusted = True
    files: TrustedFiles | None = None
    try:
        project, root, files = read_project(cluster_options)
    except TrustedProjectMissing:
        if not untrusted:
            raise
        project, is_trusted = read_head_project(cluster_options), False
        root = project_path(cluster_options).parent
    if cluster_options.every:
        names = project.names
    elif cluster_options.cluster is not None:
        names = (project.cluster(cluster_options.cluster).name,)
    elif len(project.names) == 1:
        names = project.names
    else:
        raise UsageError(
            f"{project.path} has {len(project.names)} clusters",
            hint=f"choose with --cluster ({', '.join(project.names)})"
            + (", or use --all" if cluster_options.takes_all else ""),
        )
    reads = SharedReads()
    return tuple(
        ClusterTarget(
            project_cluster=project.cluster(name),
            reads=reads,
            root=root,
            project=project,
            options=cluster_options,
            files=files,
            is_trusted=is_trusted,
        )
        for name in names
    )


def offline_targets(
    cluster_options: TargetRequest, paths: Sequence[str], *, untrusted: bool = False
) -> tuple[ClusterTarget, ...]:
    """Like :func:`targets`; with typed files and without a project, return a target without a cluster."""
    bare = (
        cluster_options.project is None
        and not cluster_options.by_address
        and cluster_options.config_from is None
    )
    if bare and paths and not project_path(cluster_options).exists():
        return (_by_address(replace(cluster_options, bootstrap_server="offline", every=False)),)
    return targets(cluster_options, untrusted=untrusted)


def target(cluster_options: TargetRequest) -> ClusterTarget:
    """Return the only cluster of a command line.

    Raises:
        KquotaError: As :func:`targets`.
    """
    (cluster_target,) = targets(cluster_options)
    return cluster_target


class TrustedProjectMissing(GitError):
    """The trusted revision has no project file."""


def read_project(cluster_options: TargetRequest) -> tuple[Project, Path, "TrustedFiles | None"]:
    """Return the trusted project, the base folder of its paths, and the files of its revision.

    Raises:
        UsageError: There is no project file.
        ManifestErrors: It is invalid.
        TrustedProjectMissing: The revision has none.
        GitError: It cannot be read at the revision, or the repository is a submodule.
    """
    if cluster_options.config_from is None:
        path = project_path(cluster_options)
        return parse(_text(path), str(path)), path.parent, None
    from reconciler.app.clusters.trusted_files import TrustedFiles
    from reconciler.git.repository import Repository, exact_commit

    repository = Repository.around(
        (cluster_options.project or Path("kquota.yaml")).absolute().parent
    )
    if (outer := repository.superproject()) is not None:
        raise GitError(
            f"{repository.top} is a submodule of {outer}, so --config-from cannot trust it",
            hint="put the project file and its manifests into the repository that the pipeline checks out, or clone"
            f" their repository by itself, outside of {outer}, and run there",
        )
    tree = repository.tree(
        exact_commit(repository, cluster_options.config_from, option="--config-from")
    )
    path = project_path(cluster_options, tree)
    name = name_in(tree, path)
    if name not in tree.entries:
        raise TrustedProjectMissing(
            f"there is no {name} at {cluster_options.config_from}, so there is no configuration to trust",
            hint="merge the project file first, or name a revision that has it",
        )
    text = tree.read([name], max_bytes=MAX_FILE_SIZE)[name].decode("utf-8", "replace")
    files = TrustedFiles(tree=tree, revision=cluster_options.config_from)
    return parse(text, f"{path} at {cluster_options.config_from}"), path.parent, files


def read_head_project(cluster_options: TargetRequest) -> Project:
    """Return the project of the checkout, beside a trusted revision; only to be shown, or to find manifests.

    Raises:
        UsageError: There is no project file, or it is a link out of the repository.
        ManifestErrors: It is invalid.
    """
    path = project_path(cluster_options)
    try:
        check_inside(path, boundary_of(path, path.parent))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return read_project(replace(cluster_options, config_from=None))[0]


def _text(path: Path) -> str:
    try:
        return read_regular(path, max_bytes=MAX_FILE_SIZE).decode("utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no project file {path}",
            hint="pass one with --project; kquota.yaml is searched in this folder and in parent folders that you own,"
            " up to the root of the git work tree. `kquota init` writes one",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_variable(where: TargetRequest) -> None:
    """Check that brokers in an environment variable hide no project with its guards, policy and expected cluster id.

    Raises:
        UsageError: They do, and neither was typed.
    """
    if "bootstrap_server" in where.from_environment and (path := project_path(where)).exists():
        raise UsageError(
            f"KQUOTA_BOOTSTRAP_SERVERS names brokers, and {path} is a project: it is not clear which of them is meant",
            hint="--cluster NAME uses the project, --bootstrap-server HOST:PORT uses brokers without its guards and"
            " expected cluster id; or unset the variable",
        )


def _is_without_project(where: TargetRequest) -> bool:
    """Whether ``--command-config`` alone gives the bootstrap servers."""
    if where.command_config is None or where.project or where.every or where.config_from:
        return False
    return not project_path(where).exists()


def _by_address(cluster_options: TargetRequest) -> ClusterTarget:
    name = cluster_options.cluster or ""
    display_name = cluster_options.bootstrap_server or str(cluster_options.command_config)
    return ClusterTarget(
        project_cluster=ProjectCluster(
            cluster=from_spec(name, {"bootstrapServers": display_name}),
            manifests=(),
            own_manifests=False,
            project=name or "typed brokers",
            inventory=InventoryLocation(file=".kquota/inventory.json"),
            audit_log=".kquota/audit.jsonl",
            line=0,
        ),
        root=Path(),
        project=None,
        options=cluster_options,
    )
