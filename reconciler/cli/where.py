"""From what was typed to targets: the cluster's trusted configuration, and how to connect to it.

Connection, expected cluster id, guards, policy and tenants come from here and only from here: from options,
from the project file, or with ``--config-from REV`` from the project file of that revision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.console import Console
from reconciler.cli.options import Where
from reconciler.errors import GitError, UsageError
from reconciler.manifest.cluster import QuotaCluster, from_spec
from reconciler.manifest.project import (
    FILE_NAME,
    InventoryPlace,
    Project,
    ProjectCluster,
    Reading,
    parse,
)

if TYPE_CHECKING:
    from reconciler.client import ClientConfig
    from reconciler.git.repository import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One cluster that a command is about.

    Attributes:
        chosen: Its trusted configuration, and where its manifests and records are.
        root: Folder that paths of the project start from.
        project: The project it comes from; ``None`` where addresses were typed.
        reading: How much is read of manifests.
        where: What was typed.
        tree: The trusted revision, with ``--config-from``.
    """

    chosen: ProjectCluster
    root: Path
    project: Project | None
    reading: Reading
    where: Where
    tree: "Tree | None" = None

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

    def client_config(self, console: Console) -> "ClientConfig":
        """How to reach it; warnings about the settings are said here.

        Raises:
            ConfigError: A setting or a file is wrong.
        """
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
        made = ClientConfig.from_mapping(
            given | dict(overriding(None, self.where.timeout)),
            where=f"{self.project.path}, cluster {self.name}",
            allowed=ANYTHING,
        )
        for warning in made.warnings:
            console.warning(warning)
        return made

    def _file_properties(self) -> Mapping[str, str]:
        """What ``propertiesFile`` holds, at the trusted revision if there is one."""
        from reconciler.client import properties

        name = self.settings.properties_file
        if name is None:
            return {}
        if self.tree is not None and not Path(name).is_absolute():
            content = self.tree.read([name_in(self.tree, self.root / name)])
            pairs = properties.parse(
                properties.decoded(next(iter(content.values()))), where=f"{name} at the base"
            )
        else:
            pairs = properties.read(self.root / name)
        return {pair.key: pair.value for pair in pairs}


def place_of(root: Path, address: str) -> str:
    """An address as a project file writes it: a folder starts where the project's own paths do; "" is nowhere.

    Args:
        root: Folder that paths of the project start from.
        address: A path, or anything with a scheme, which stands as it is.
    """
    return str(root / address) if address and "://" not in address else address


def name_in(tree: "Tree", path: Path) -> str:
    """A path of the disk as the tree of a revision calls it."""
    import os

    return Path(os.path.relpath(path.absolute(), tree.top)).as_posix()


def targets(where: Where) -> tuple[Target, ...]:
    """The clusters that a command line means, sorted by name.

    Raises:
        UsageError: Nothing says which cluster, or a project has several and none was chosen.
        ConfigError: The chosen cluster is unknown.
        ManifestErrors: The project file is wrong.
        GitError: The revision of ``--config-from`` cannot be read.
    """
    if where.by_address:
        return (_by_address(where),)
    project, root, tree = read_project(where)
    if where.every:
        names = project.names
    elif where.cluster is not None:
        names = (project.cluster(where.cluster).name,)
    elif len(project.names) == 1:
        names = project.names
    else:
        raise UsageError(
            f"{project.path} has {len(project.names)} clusters",
            hint=f"choose with --cluster ({', '.join(project.names)}), or take --all",
        )
    return tuple(_of_project(where, project, name, root, tree) for name in names)


def offline_targets(where: Where, paths: Sequence[str]) -> tuple[Target, ...]:
    """As :func:`targets`; where files were named and there is no project at all, a target without a cluster."""
    bare = where.project is None and not where.by_address and where.config_from is None
    if bare and paths and not Path(FILE_NAME).exists():
        return (_by_address(replace(where, bootstrap_server="offline", every=False)),)
    return targets(where)


def target(where: Where) -> Target:
    """The one cluster that a command line means; raises as :func:`targets` does."""
    (one,) = targets(where)
    return one


def read_project(where: Where) -> tuple[Project, Path, "Tree | None"]:
    """The trusted project, the folder its paths start from, and the tree of its revision.

    Raises:
        UsageError: There is no project file.
        ManifestErrors: It is wrong.
        GitError: It cannot be read at the revision.
    """
    path = where.project or Path(FILE_NAME)
    if where.config_from is not None:
        from reconciler.git.repository import Repository

        tree = Repository.around(path.absolute().parent).tree(where.config_from)
        name = name_in(tree, path)
        if name not in tree.entries:
            raise GitError(
                f"there is no {name} at {where.config_from}, so there is no configuration to trust",
                hint="merge the project file first, or name a revision that has it",
            )
        text = tree.read([name])[name].decode("utf-8", "replace")
        return parse(text, f"{path} at {where.config_from}"), path.parent, tree
    return parse(_text(path), str(path)), path.parent, None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no project file {path}",
            hint="name one with --project, or name brokers with --bootstrap-server",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _of_project(
    where: Where, project: Project, name: str, root: Path, tree: "Tree | None"
) -> Target:
    return Target(
        chosen=project.cluster(name),
        root=root,
        project=project,
        reading=project.reading,
        where=where,
        tree=tree,
    )


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
