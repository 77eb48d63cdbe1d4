"""Imports recorded use from OpenMetrics text files of one or more clusters."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import KquotaError, LakeError, TelemetryError, UsageError
from reconciler.evidence.ingest.cluster_sources import (
    CLUSTER_LABELS,
    ClusterMatcher,
    ClusterSource,
)
from reconciler.evidence.ingest.dialect import Dialect, DialectTable
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.points import PointCollector, RecordedSeries
from reconciler.evidence.ingest.readers import openmetrics
from reconciler.evidence.ingest.sample_days import (
    ClusterArrivals,
    DayReading,
    SampleDays,
    last_dialect,
)
from reconciler.evidence.store.lake import Lake
from reconciler.usage.samples import DAY_MS, day_of

ALWAYS: Final = (0, 2**62)
"""The unlimited window."""

MOST_POINTS: Final = 20_000_000
"""Maximum number of points of a run, which are in memory: about 1.5 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImportRequest:
    """What to read."""

    paths: tuple[Path, ...]
    dialects: DialectTable  # the dialects to select from
    dialect: str = ""  # the name of the dialect; "" = detected
    window: tuple[int, int] = ALWAYS
    # Whether stored days are assembled again with the current scrape interval.
    rebuild: bool = False
    replace: bool = False  # whether stored days are replaced, also by fewer points


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImportResult:
    """The result of an import."""

    arrived: Mapping[str, ClusterArrivals]
    counts: DropCounts  # drop reasons of all series, also of those without a cluster
    # Files or units of the lake that could not be read or written, of no single cluster.
    failures: tuple[str, ...] = ()


def read(
    lake: Lake,
    sources: Sequence[ClusterSource],
    files: FileImportRequest,
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> FileImportResult:
    """Read files and write the days that they contain points of.

    A file that cannot be read is a failure in the result; the other files are still read. Each day that the run writes
    lists the files that were not read completely, because they may contain points of that day.

    Args:
        sources: Clusters whose series may be in the files.
        clock: Points more than :data:`~reconciler.evidence.ingest.points.AHEAD_MS` after now are dropped.
        progress: Called once per file.

    Raises:
        TelemetryError: No known dialect is found, nothing can be read, or no label distinguishes several clusters.
        UsageError: There are more points than :data:`MOST_POINTS`.
        LakeError: The lake cannot be read.
    """
    arrived = {source.cluster_id: ClusterArrivals() for source in sources}
    clusters = ClusterMatcher(sources)
    content = _FileContent(files, progress)
    dialect, idle = content.dialect(lake, clusters)
    collector = PointCollector(clusters, dialect, read_ms=round(clock.now() * 1000))
    while content.series:
        collector.add(content.series.pop())
    points_by_cluster = collector.points()
    content.counts.merge(collector.counts)
    partial = tuple(f"the file {name} was not read whole" for name in sorted(content.partial))
    try:
        for source in sources:
            points = points_by_cluster.get(source.cluster_id)
            if points is None:
                continue
            days = SampleDays(
                lake,
                source.cluster_id,
                source.cadence,
                rebuild=files.rebuild,
                replace=files.replace,
            )
            reading = DayReading(points=points, partial=partial, dialect=dialect.name)
            for number in points.days():
                report = days.write(day_of(number * DAY_MS), reading)
                if report is not None:
                    arrived[source.cluster_id].days[report.day] = report
    except LakeError as error:
        content.failures.append(f"{_text(error)}; data written to the lake before is kept")
    for cluster_arrivals in arrived.values():
        cluster_arrivals.remarks += [idle] if idle else []
        if not cluster_arrivals.days and not content.failures:
            cluster_arrivals.remarks.append("nothing in the files is of this cluster and window")
    return FileImportResult(
        arrived=arrived, counts=content.counts, failures=tuple(content.failures)
    )


def _text(error: KquotaError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


class _FileContent:
    """What was read of all files.

    Attributes:
        series: Series, possibly in parts; without points if no dialect reads the metric.
        failures: Sentences about the files that cannot be read.
        partial: Names of the files that were not read whole.
        counts: Drop reasons of lines and points.
    """

    def __init__(self, files: FileImportRequest, progress: Progress | None) -> None:
        self.series: list[RecordedSeries] = []
        self.failures: list[str] = []
        self.partial: set[str] = set()
        self.counts = DropCounts()
        self._files = files
        for number, path in enumerate(files.paths):
            if progress is not None:
                progress("reading files", number, len(files.paths))
            of_file = DropCounts()
            try:
                self._read(path, of_file)
            except TelemetryError as error:
                self.failures.append(_text(error))
                self.partial.add(path.name)
            if of_file.partial:
                self.partial.add(path.name)
            self.counts.merge(of_file)
        if not self.series and (self.failures or self.counts):
            raise TelemetryError("; ".join([*self.failures, *self.counts.lines()]))

    def _read(self, path: Path, counts: DropCounts) -> None:
        points = sum(len(series.times) for series in self.series)
        for series in openmetrics.read(path, counts):
            is_needed = self._files.dialects.is_needed(series.name)
            in_window = (
                series.within(*self._files.window)
                if is_needed
                else series._replace(times=array("q"), values=array("d"))
            )
            points += len(in_window.times)
            if points > MOST_POINTS:
                raise UsageError(
                    f"there are more than {MOST_POINTS:,} points, too many for one run",
                    hint="read the same files in several runs, each with --from and --to at midnight UTC",
                )
            self.series.append(in_window)

    def dialect(self, lake: Lake, clusters: ClusterMatcher) -> tuple[Dialect, str]:
        """Return the dialect, and a remark if it is only assumed from the last run.

        Raises:
            TelemetryError: No dialect is found, or no label distinguishes several clusters.
        """
        labels: dict[str, set[str]] = {}
        label_sets: set[tuple[tuple[str, str], ...]] = set()
        for series in self.series:
            labels.setdefault(series.name, set()).update(series.labels)
            # `up` does not count, because other jobs are scraped, too.
            if self._files.dialects.has_quota_rate(series.name, series.labels):
                label_sets.add(tuple((name, series.label(name)) for name in CLUSTER_LABELS))

        def before() -> str:
            """Return the dialect in which these clusters were last read, if it is the same for all."""
            # What could not be read may contain client metrics.
            ids = [] if self.partial else [source.cluster_id for source in clusters.sources]
            names = {last_dialect(lake, cluster_id) for cluster_id in ids} - {""}
            return names.pop() if len(names) == 1 else ""

        selected = (
            (self._files.dialects.get(self._files.dialect), "")
            if self._files.dialect
            else self._files.dialects.select(labels, before)
        )
        clusters.check(dict(label_pairs) for label_pairs in label_sets)
        return selected
