"""Recorded use from files: saved answers of Prometheus, OpenMetrics text, Parquet and CSV exports; several clusters may be in one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest.dialects.cluster_sources import (
    CLUSTER_LABELS,
    ClusterMatcher,
    ClusterSource,
)
from reconciler.evidence.ingest.dialects.definitions import Dialect, DialectTable
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.point_rows import PointCollector
from reconciler.evidence.ingest.point_store import (
    ALWAYS,
    ClusterArrivals,
    PointSource,
    SeriesBuffer,
    last_dialect,
)
from reconciler.evidence.ingest.readers import (
    column_files,
    openmetrics,
    saved_responses,
)
from reconciler.evidence.ingest.readers.series import (
    RecordedSeries,
)
from reconciler.evidence.ingest.readers.time_units import TimeUnit
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import POINT


class FileFormat(StrEnum):
    """How a file is written."""

    AUTO = "auto"
    PROMETHEUS_JSON = "prometheus-json"
    OPENMETRICS = "openmetrics"
    PARQUET = "parquet"
    CSV = "csv"


_READERS: Final[
    dict[FileFormat, Callable[[Path, DropCounts, TimeUnit], Iterator[RecordedSeries]]]
] = {
    FileFormat.PROMETHEUS_JSON: lambda path, counts, _: saved_responses.read(path, counts),
    FileFormat.OPENMETRICS: openmetrics.read,
    FileFormat.PARQUET: column_files.parquet,
    FileFormat.CSV: column_files.csv,
}
_ENDINGS: Final = {
    ".json": FileFormat.PROMETHEUS_JSON,
    ".jsonl": FileFormat.PROMETHEUS_JSON,
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".om": FileFormat.OPENMETRICS,
    ".openmetrics": FileFormat.OPENMETRICS,
    ".prom": FileFormat.OPENMETRICS,
    ".txt": FileFormat.OPENMETRICS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImportRequest:
    """What is to be read.

    Attributes:
        paths: The files.
        form: How they are written.
        dialects: Those that may be spoken.
        dialect: The name of the one that is; "" = found out.
        window: Points outside of it are left alone.
        unit: How times are written; answers of Prometheus always count seconds.
    """

    paths: tuple[Path, ...]
    form: FileFormat = FileFormat.AUTO
    dialects: DialectTable
    dialect: str = ""
    window: tuple[int, int] = ALWAYS
    unit: TimeUnit = TimeUnit.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImportResult:
    """What came of files.

    Attributes:
        arrived: By cluster id.
        counts: What became of all series, also those of no cluster.
        failures: Which files, or parts of the lake, could not be used; of no single cluster.
    """

    arrived: Mapping[str, ClusterArrivals]
    counts: DropCounts
    failures: tuple[str, ...] = ()


def form_of(path: Path) -> FileFormat:
    """How a file is written, by its ending.

    Raises:
        TelemetryError: The ending says nothing.
    """
    name = path.name.removesuffix(".gz")
    file_format = _ENDINGS.get(Path(name).suffix.lower())
    if file_format is None:
        raise TelemetryError(
            f"its ending does not say how it is written ({', '.join(_ENDINGS)})",
            location=str(path),
            hint="say so with --input-format",
        )
    return file_format


def read(
    lake: Lake,
    sources: Sequence[ClusterSource],
    files: FileImportRequest,
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> FileImportResult:
    """Reads files into the lake.

    A file that cannot be read is a failure in the result, and the others are read all the same. Every day that the run
    brings something of says which files were not read whole: what they hold of that day is not known.

    Args:
        lake: Where to.
        sources: Whose series may be in them.
        files: What to read.
        clock: Points from later than now come from a clock that is wrong.
        progress: Called once per file.

    Raises:
        TelemetryError: They speak no dialect that we know, or have several clusters that nothing distinguishes.
        LakeError: The lake cannot be read.
    """
    arrived = {source.cluster_id: ClusterArrivals() for source in sources}
    clusters, failures = ClusterMatcher(sources), dict[Path, str]()
    dialect, idle = _dialect(files, clusters, failures, lambda: _spoken_before(lake, sources))
    collector = PointCollector(clusters, dialect, read_ms=round(clock.now() * 1000))
    broken: tuple[str, ...] = ()
    reading = _FileImport(SeriesBuffer(lake, collector, arrived, files.window), files, dialect.name)
    try:
        for number, path in enumerate(files.paths):
            if progress is not None:
                progress("reading files", number, len(files.paths))
            reading.file(path, failures)
        reading.over()
    except LakeError as error:
        hint = f" ({error.hint})" if error.hint else ""
        broken = (f"{error.message}{hint}; what the lake took before is kept",)
    reading.counts.merge(collector.counts)
    for cluster_arrivals in arrived.values():
        cluster_arrivals.tally.update(reading.tally)
        if idle:
            cluster_arrivals.remarks.append(idle)
        if not cluster_arrivals.new:
            cluster_arrivals.remarks.append("nothing in the files is of this cluster and window")
    return FileImportResult(
        arrived=arrived, counts=reading.counts, failures=(*failures.values(), *broken)
    )


class _FileImport:
    """Files, one after another, and which of them were read whole."""

    def __init__(self, gathering: SeriesBuffer, files: FileImportRequest, dialect: str) -> None:
        self.counts, self.tally = DropCounts(), DropCounts()
        self._gathering, self._files, self._dialect = gathering, files, dialect
        self._whole: set[str] = set()
        self._cut: set[str] = set()

    def file(self, path: Path, failures: dict[Path, str]) -> None:
        """Read one."""
        if path in failures:
            self._cut.add(path.name)
            return
        counts = DropCounts()
        try:
            for series in _series(path, self._files, counts):
                self._gathering.add(series, self.tally)
                if self._gathering.is_full:
                    # A process that dies here has not read it whole.
                    self._gathering.keep(self._so_far(path.name))
        except TelemetryError as error:
            failures[path] = error.message
            self._cut.add(path.name)
        else:
            (self._cut if counts.partial else self._whole).add(path.name)
        finally:
            self.counts.merge(counts)

    def over(self) -> None:
        """Keep the rest, and record the reading for all days."""
        self._gathering.keep(self._so_far(), over=True)

    def _so_far(self, *under_way: str) -> PointSource:
        cut = self._cut.union(under_way)
        return PointSource(
            read_files=frozenset(self._whole - cut),
            cut_files=frozenset(cut),
            dialect=self._dialect,
        )


def _series(path: Path, files: FileImportRequest, counts: DropCounts) -> Iterator[RecordedSeries]:
    form = form_of(path) if files.form is FileFormat.AUTO else files.form
    return _READERS[form](path, counts, files.unit)


def _spoken_before(lake: Lake, sources: Sequence[ClusterSource]) -> str:
    """The dialect in which these clusters were read last, if it is one."""
    ids = [source.cluster_id for source in sources]
    dialect_names = {last_dialect(lake.manifests(POINT, [cluster_id])) for cluster_id in ids} - {""}
    return dialect_names.pop() if len(dialect_names) == 1 else ""


def _dialect(
    files: FileImportRequest,
    clusters: ClusterMatcher,
    failures: dict[Path, str],
    before: Callable[[], str],
) -> tuple[Dialect, str]:
    """Which dialect is spoken, from a first look at the names; whether several clusters are mixed; whether there is anything.

    Returns:
        The dialect, and a remark where it is only remembered.
    """
    labels: dict[str, set[str]] = {}
    seen_label_sets: set[tuple[tuple[str, str], ...]] = set()
    counts = DropCounts()
    for path in files.paths:
        try:
            for series in _series(path, files, counts):
                if files.dialects.interesting(series.name):
                    labels.setdefault(series.name, set()).update(series.labels)
                    # Not `up`: other jobs are scraped, too.
                    if any(
                        dialect.speaks(series.name, series.labels) for dialect in files.dialects.all
                    ):
                        seen_label_sets.add(
                            tuple((name, series.label(name)) for name in CLUSTER_LABELS)
                        )
                else:
                    labels.setdefault(series.name, set())
        except TelemetryError as error:
            failures[path] = error.message
    if not labels and (failures or counts):
        raise TelemetryError("; ".join([*failures.values(), *counts.lines()]))
    if files.dialect:
        selected = files.dialects.get(files.dialect), ""
    else:
        labels_by_metric = {name: frozenset(label_names) for name, label_names in labels.items()}
        # Where something could not be read, clients may stand there.
        is_complete = not failures and not counts.partial
        selected = files.dialects.select(labels_by_metric, before if is_complete else str)
    clusters.check(dict(label_pairs) for label_pairs in seen_label_sets)
    return selected
