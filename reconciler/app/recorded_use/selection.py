"""What a command about recorded use selects: lake, clusters, time window, and engine (this machine, or Spark)."""

import contextlib
import uuid
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.app.notices import TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.errors import ConfigError, UsageError
from reconciler.evidence.spark.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.base.protocols import Clock
    from reconciler.evidence.analysis.engine import Engine
    from reconciler.evidence.analysis.results import TimeWindow
    from reconciler.evidence.store.lake import Lake
    from reconciler.manifest.project.cluster import QuotaCluster
    from reconciler.manifest.project.file import ProjectCluster
    from reconciler.usage.capacity import CapacityOfCluster


DAY_MS: Final = 86_400_000
WINDOW_MS: Final = 14 * DAY_MS
"""Default window of evidence."""


class WindowOptions(Struct, frozen=True, kw_only=True):
    """A window from the command line; negative = milliseconds ago, ``None`` = not given."""

    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether begin or end was given."""
        return self.from_ms is not None or self.to_ms is not None

    def span(self, clock: "Clock", default_ms: int = WINDOW_MS) -> tuple[int, int]:
        """Return from and to (exclusive) in milliseconds since the epoch.

        Args:
            default_ms: Length of a window without a begin.

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


class SelectedCluster(Struct, frozen=True, kw_only=True):
    """A selected cluster."""

    id: str  # Kafka's cluster id, which the lake uses
    name: str = ""  # its name in the project; "" if only the id was given
    # Its trusted configuration; None if only the id was given.
    settings: "QuotaCluster | None" = None
    root: Path = Path()  # base folder of the project's paths

    @property
    def display_name(self) -> str:
        """Its name in output."""
        return self.name or self.id

    @property
    def capacity(self) -> "CapacityOfCluster | None":
        """The capacity of its brokers by ``spec.brokerCapacity``, if that is configured."""
        from reconciler.manifest.project.cluster import capacity_number
        from reconciler.usage.capacity import HEADROOM_PPM, CapacityOfCluster

        spec = self.settings.broker_capacity if self.settings is not None else {}
        if not spec:
            return None
        numbers = {name: capacity_number(name, value) for name, value in spec.items()}
        headroom_ppm = numbers.pop("headroom", HEADROOM_PPM)
        return CapacityOfCluster(cluster_id=self.id, headroom_ppm=headroom_ppm, **numbers)


class ClusterSelection(Struct, frozen=True, kw_only=True):
    """The clusters of a command line."""

    project: Path | None = None  # the project file; None = `kquota.yaml` here
    names: tuple[str, ...] = ()
    every: bool = False
    ids: tuple[str, ...] = ()  # cluster ids, instead of a project

    def __post_init__(self) -> None:
        if self.every and self.names:
            raise UsageError("--all and --cluster contradict each other")
        if self.ids and (self.every or self.names or self.project):
            raise UsageError("--cluster-id cannot be combined with --all, --cluster or --project")

    @property
    def is_given(self) -> bool:
        """Whether any cluster was given."""
        return bool(self.every or self.names or self.ids)

    def check(self, ids: Collection[str]) -> None:
        """Check that files belong to the given clusters; without given clusters all are accepted.

        Raises:
            UsageError: A file belongs to another cluster, or a given cluster has no file.
            KquotaError: As :meth:`select`.
        """
        if not self.is_given:
            return
        names_by_id = {cluster.id: cluster.display_name for cluster in self.select()}
        unselected_ids = sorted(set(ids) - set(names_by_id))
        if unselected_ids:
            raise UsageError(
                f"the files are for cluster {', '.join(unselected_ids)}, but only {', '.join(names_by_id.values())} is selected",
                hint="remove the file, or select its cluster, too",
            )
        without = [name for cluster_id, name in names_by_id.items() if cluster_id not in ids]
        if without and not self.every:
            raise UsageError(
                f"no file is for {', '.join(without)}",
                hint="remove the cluster, or pass its --plan or --after",
            )

    def select(self) -> tuple[SelectedCluster, ...]:
        """Return the clusters, sorted by name or id.

        Raises:
            UsageError: No cluster was given, or there is no project file.
            ConfigError: A cluster is unknown, or the project does not contain its id.
            ManifestErrors: The project file is invalid.
        """
        if self.ids:
            return tuple(SelectedCluster(id=cluster_id) for cluster_id in sorted(set(self.ids)))
        from reconciler.app.clusters.targets import read_project
        from reconciler.app.requests import TargetRequest

        project, root, _ = read_project(TargetRequest(project=self.project, every=self.every))
        names = project.names if self.every else tuple(sorted(set(self.names)))
        if not names and len(project.names) > 1:
            raise UsageError(
                f"{project.path} has {len(project.names)} clusters",
                hint=f"choose with --cluster ({', '.join(project.names)}), or pass --all",
            )
        return tuple(
            _identified(project.cluster(name), project.path, root)
            for name in names or project.names
        )


def _identified(cluster: "ProjectCluster", path: str, root: Path) -> SelectedCluster:
    """Return a cluster of a project with its id; series of another cluster must never count as its own."""
    cluster_id = cluster.cluster.expected_cluster_id
    if cluster_id is None:
        raise ConfigError(
            f"the cluster {cluster.name} has no expectedClusterId, which identifies recorded use",
            key="expectedClusterId",
            location=path,
            hint=f"kquota doctor --cluster {cluster.name} shows the id; or pass it with --cluster-id",
        )
    return SelectedCluster(id=cluster_id, name=cluster.name, settings=cluster.cluster, root=root)


EVIDENCE: Final = "telemetry.evidenceUri"
"""Value of ``--previews`` without a URI."""


class IngestOptions(Struct, frozen=True, kw_only=True):
    """The options of an ingest; ``None`` = as the project says. Times in seconds."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    prometheus: str | None = None
    http_config: Path | None = None
    files: tuple[Path, ...] = ()
    dialect: str | None = None
    snapshots: tuple[Path, ...] = ()
    matchers: str | None = None
    broker_id: str | None = None
    step: float | None = None
    previews: str | None = None  # None = no copy; :data:`EVIDENCE` = where the project says
    rebuild: bool = False
    replace: bool = False


def opened_lake(address: str, *, create: bool = False) -> "Lake":
    """Open the lake.

    Args:
        create: Whether to create a missing folder.

    Raises:
        LakeError: There is no lake.
    """
    from reconciler.evidence.store.files import table_store
    from reconciler.evidence.store.lake import Lake

    return Lake(
        table_store.opened(address, create=create), clock=SystemClock(), run_id=uuid.uuid4().hex
    )


AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"

MOST_LOCAL: Final = 200_000_000
"""Maximum number of samples for which ``--engine auto`` stays on this machine: some minutes on two cores.

Memory does not decide: processes read the samples in parts of a million.
"""


class EngineOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    engine: str = AUTO
    running: SessionSettings = SessionSettings()

    @contextlib.contextmanager
    def opened(
        self, notices: TextReceiver, lake: "Lake", clusters: Iterable[str], window: "TimeWindow"
    ) -> "Iterator[Engine]":
        """Open the engine while the block runs.

        Args:
            clusters: Cluster ids.
            window: The window whose samples are read.

        Raises:
            UsageError: Spark is not installed.
            LakeError: The lake cannot be read.
            KquotaError: No session of Spark can be started.
        """
        from reconciler.evidence.analysis.engine import LocalEngine
        from reconciler.usage.tables import USAGE_SAMPLE

        is_placed = self.running != SessionSettings()
        engine = SPARK if self.engine == AUTO and is_placed else self.engine
        if engine == AUTO:
            days = lake.days(USAGE_SAMPLE, set(clusters), window.first_day, window.last_day)
            rows = sum(day.rows for day in days)
            is_installed = find_spec("pyspark") is not None
            engine = SPARK if rows > MOST_LOCAL and is_installed else LOCAL
            if engine == SPARK:
                notices.note(f"{rows:,} samples: Spark reads them (--engine local would, too)")
        if engine == LOCAL:
            yield LocalEngine()
            return
        needs("spark", "--engine spark")
        from reconciler.evidence.spark import engine as spark_engine

        with spark_engine.opened(self.running) as opened:
            yield opened
