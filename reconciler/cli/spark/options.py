"""Options that the commands of ``kquota spark`` share: the lake, clusters by id, a window of time."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.options.shared import FILE, packed
from reconciler.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from reconciler.base.protocols import Clock
    from reconciler.manifest.project.cluster import QuotaCluster
    from reconciler.manifest.project.file import ProjectCluster

F = TypeVar("F", bound=Callable[..., Any])

LAKE_VARIABLE: Final = "KQUOTA_LAKE"
DAY_MS: Final = 86_400_000
WINDOW_MS: Final = 14 * DAY_MS
"""What evidence is about unless another window is asked for."""

_AGO: Final = re.compile(r"(?:[0-9]{1,6}(?:ms|s|m|h|d))+")


class InstantParameter(click.ParamType[int]):
    """``2026-11-01``, ``2026-11-01T12:00:00Z`` (UTC unless a zone is named), or ``14d``: so long ago.

    A value is milliseconds since the epoch; what is meant as "ago" is negative until a clock is asked
    (:meth:`WindowOptions.span`).
    """

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Milliseconds since the epoch, or how many before now as a negative number."""
        if isinstance(value, int):
            return value
        text = str(value)
        if _AGO.fullmatch(text):
            from reconciler.cli.options.value_types import DurationParameter

            return -round(DurationParameter().convert(text, param, ctx) * 1000)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is no moment; write 2026-11-01, 2026-11-01T12:00:00Z, or 14d for so long ago",
                param,
                ctx,
            )
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        milliseconds = round(when.timestamp() * 1000)
        if milliseconds < 0:
            self.fail(f"{text!r} lies before 1970", param, ctx)
        return milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """A span of time as it was typed; negative = so many milliseconds ago, ``None`` = not typed."""

    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything was typed."""
        return self.from_ms is not None or self.to_ms is not None

    def span(self, clock: "Clock", default_ms: int = WINDOW_MS) -> tuple[int, int]:
        """From and to (not included) in milliseconds since the epoch.

        Args:
            clock: What "ago" and "now" mean.
            default_ms: How long before its end a window begins that names no begin.

        Raises:
            UsageError: It ends before it begins.
        """
        now = round(clock.now() * 1000)
        to = _absolute(self.to_ms, now, now)
        begin = _absolute(self.from_ms, now, max(0, to - default_ms))
        if begin >= to:
            raise UsageError(
                "the window is empty: --from must lie before --to",
                hint="--from 14d, or --from 2026-11-01 --to 2026-11-15",
            )
        return begin, to


def _absolute(typed: int | None, now: int, default: int) -> int:
    if typed is None:
        return default
    return typed if typed >= 0 else now + typed


def window_options(default: str = "14d") -> Callable[[F], F]:
    """``--from`` and ``--to``, handed on as ``window``.

    Args:
        default: What the help says about where a window begins.
    """
    return packed(
        "window",
        WindowOptions,
        ["from_ms", "to_ms"],
        [
            click.option("--from", "from_ms", type=InstantParameter(), metavar="WHEN", help=f"Begin: a date, a moment, or so long ago  [default: {default}]."),
            click.option("--to", "to_ms", type=InstantParameter(), metavar="WHEN", help="End, not included  [default: now]."),
        ],
    )  # fmt: skip


def lake_option() -> Callable[[F], F]:
    """``--lake``, or ``KQUOTA_LAKE``."""
    return click.option(
        "--lake",
        envvar=LAKE_VARIABLE,
        show_envvar=True,
        required=True,
        metavar="URI",
        help="Location of the tables: a folder, s3://, gs:// or az://.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedCluster:
    """A cluster that recorded use is asked for.

    Attributes:
        id: Kafka's cluster id: what the lake calls it.
        name: What the project calls it; "" where only the id was typed.
        settings: Its trusted configuration; ``None`` where only the id was typed.
        root: Folder that paths of the project start from.
    """

    id: str
    name: str = ""
    settings: "QuotaCluster | None" = None
    root: Path = Path()

    @property
    def display_name(self) -> str:
        """How to call it in output."""
        return self.name or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSelection:
    """Which clusters a command is about, as it was typed.

    Attributes:
        project: The project file; ``None`` = ``kquota.yaml`` here.
        names: Clusters of the project.
        every: All clusters of the project.
        ids: Cluster ids, instead of a project.
    """

    project: Path | None = None
    names: tuple[str, ...] = ()
    every: bool = False
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every and self.names:
            raise UsageError("--all and --cluster contradict each other")
        if self.ids and (self.every or self.names or self.project):
            raise UsageError(
                "--cluster-id stands alone; --all, --cluster and --project are about a project file"
            )

    @property
    def is_given(self) -> bool:
        """Whether anything says which."""
        return bool(self.every or self.names or self.ids)

    def check(self, ids: Collection[str]) -> None:
        """Whether files are about the clusters that were typed; where none was typed, all are welcome.

        Args:
            ids: The clusters that files are about.

        Raises:
            UsageError: One is about another cluster, or a cluster that was named has none.
            KquotaError: As :meth:`select`.
        """
        if not self.is_given:
            return
        names_by_id = {cluster.id: cluster.display_name for cluster in self.select()}
        strange = sorted(set(ids) - set(names_by_id))
        if strange:
            raise UsageError(
                f"files are about cluster {', '.join(strange)}, and only {', '.join(names_by_id.values())} was chosen",
                hint="leave out the file, or name its cluster, too",
            )
        without = [name for cluster_id, name in names_by_id.items() if cluster_id not in ids]
        if without and not self.every:
            raise UsageError(
                f"no file is about {', '.join(without)}",
                hint="leave the cluster out, or give its --plan or --after",
            )

    def select(self) -> tuple[SelectedCluster, ...]:
        """The clusters, sorted by name or id.

        Raises:
            UsageError: Nothing says which, or there is no project file.
            ConfigError: A cluster is unknown, or the project does not say which id it has.
            ManifestErrors: The project file is wrong.
        """
        if self.ids:
            return tuple(SelectedCluster(id=cluster_id) for cluster_id in sorted(set(self.ids)))
        from reconciler.app.clusters.targets import read_project
        from reconciler.app.requests import TargetRequest

        cluster_options = TargetRequest(
            project=self.project, cluster=None, every=self.every, bootstrap_server=None,
            command_config=None, config_from=None, timeout=None,
        )  # fmt: skip
        project, root, _ = read_project(cluster_options)
        names = project.names if self.every else tuple(sorted(set(self.names)))
        if not names and len(project.names) > 1:
            raise UsageError(
                f"{project.path} has {len(project.names)} clusters",
                hint=f"choose with --cluster ({', '.join(project.names)}), or take --all",
            )
        return tuple(
            _identified(project.cluster(name), project.path, root)
            for name in names or project.names
        )


def _identified(cluster: "ProjectCluster", path: str, root: Path) -> SelectedCluster:
    """A cluster of a project with its id; a series of another cluster must never count as its own."""
    cluster_id = cluster.cluster.expected_cluster_id
    if cluster_id is None:
        raise ConfigError(
            f"the cluster {cluster.name} has no expectedClusterId, by which recorded use is kept",
            key="expectedClusterId",
            location=path,
            hint=f"kquota doctor --cluster {cluster.name} shows the id; or name it with --cluster-id",
        )
    return SelectedCluster(id=cluster_id, name=cluster.name, settings=cluster.cluster, root=root)


def clusters_options() -> Callable[[F], F]:
    """``--cluster``, ``--all``, ``--project`` and ``--cluster-id``, handed on as ``clusters``."""

    def make(**option_values: Any) -> ClusterSelection:  # noqa: ANN401 - click's values, checked by the dataclass
        return ClusterSelection(**option_values)

    return packed(
        "clusters",
        make,
        ["names", "every", "project", "ids"],
        [
            click.option("--cluster", "names", multiple=True, metavar="NAME", help="Name of a cluster in the project file; may be repeated."),
            click.option("--all", "every", is_flag=True, help="All clusters of the project file."),
            click.option("--project", type=FILE, metavar="FILE", help="Project file  [default: kquota.yaml]."),
            click.option("--cluster-id", "ids", multiple=True, metavar="ID", help="A Kafka cluster id, instead of a project file; may be repeated."),
        ],
    )  # fmt: skip


def spanned(clusters: Iterable[SelectedCluster], window: WindowOptions) -> dict[str, Any]:
    """What every job over a window is given: its ``from_ms`` and ``to_ms``, and the ids of its clusters."""
    from reconciler.base.clock import SystemClock

    from_ms, to_ms = window.span(SystemClock())
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "cluster": tuple(cluster.id for cluster in clusters),
    }
