"""Imports recorded use from OpenMetrics text files of one or more clusters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import KquotaError, LakeError, TelemetryError
from reconciler.evidence.ingest import openmetrics
from reconciler.evidence.ingest.cluster_sources import (
    CLUSTER_LABELS,
    ClusterMatcher,
    ClusterSource,
)
from reconciler.evidence.ingest.dialect import Dialect, DialectTable
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import PointCollector
from reconciler.evidence.ingest.recorded_series import RecordedSeries
from reconciler.evidence.ingest.sample_days import (
    OVERLAP_MS,
    ClusterArrivals,
    DayReading,
    SampleDays,
    last_dialect,
)
from reconciler.evidence.store.lake import Lake
from reconciler.usage.samples import DAY_MS, day_of

ALWAYS: Final = (0, 2**62)
"""The unlimited window."""

MOST_POINTS: Final = 4_000_000
"""Maximum number of points in memory, about 300 MB; files with points of more days are read several times."""

_OF_POINTS: Final = frozenset(
    {
        DropReason.POINTS,
        DropReason.DUPLICATES,
        DropReason.CONTRADICTIONS,
        DropReason.CLOCK_AHEAD,
        DropReason.NOT_A_TIME,
        DropReason.TIME_BACKWARDS,
    }
)
"""Reasons counted per point. If files are read several times, other reasons are counted only the first time."""


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
        LakeError: The lake cannot be read.
    """
    arrived = {source.cluster_id: ClusterArrivals() for source in sources}
    clusters, failures = ClusterMatcher(sources), dict[Path, str]()
    names = _NamesInFiles(files, failures)
    dialect, idle = names.dialect(clusters, lambda: _spoken_before(lake, sources))
    reading = _FileImport(lake, sources, files, clusters=clusters, dialect=dialect, clock=clock)
    broken: tuple[str, ...] = ()
    try:
        for span in day_groups(names.points_by_day):
            reading.read_span(span, arrived, failures, progress)
    except LakeError as error:
        broken = (f"{_text(error)}; data written to the lake before is kept",)
    for cluster_arrivals in arrived.values():
        if idle:
            cluster_arrivals.remarks.append(idle)
        if not cluster_arrivals.days and not failures and not broken:
            cluster_arrivals.remarks.append("nothing in the files is of this cluster and window")
    return FileImportResult(
        arrived=arrived, counts=reading.counts, failures=(*failures.values(), *broken)
    )


def day_groups(points_by_day: Mapping[int, int]) -> list[tuple[int, int]]:
    """Split days into time ranges to read at once, with at most :data:`MOST_POINTS` points or a single day each.

    The first range has no lower bound and the last no upper bound, so that points with wrong times are counted.

    Args:
        points_by_day: Number of points by day since the epoch.
    """
    begins: list[int] = []
    gathered = 0
    for day, count in sorted(points_by_day.items()):
        if begins and gathered + count > MOST_POINTS:
            begins.append(day * DAY_MS)
            gathered = 0
        elif not begins:
            begins.append(ALWAYS[0] - 2**62)
        gathered += count
    return list(pairwise([*begins, ALWAYS[1]]))


class _FileImport:
    """Reads time ranges of all files one after another."""

    def __init__(
        self,
        lake: Lake,
        sources: Sequence[ClusterSource],
        files: FileImportRequest,
        *,
        clusters: ClusterMatcher,
        dialect: Dialect,
        clock: Clock,
    ) -> None:
        self.counts = DropCounts()
        self._files, self._clusters, self._dialect, self._clock = files, clusters, dialect, clock
        self._days = {
            source.cluster_id: SampleDays(
                lake,
                source.cluster_id,
                source.cadence,
                rebuild=files.rebuild,
                replace=files.replace,
            )
            for source in sources
        }
        self._is_first = True

    def read_span(
        self,
        span: tuple[int, int],
        arrived: Mapping[str, ClusterArrivals],
        failures: dict[Path, str],
        progress: Progress | None,
    ) -> None:
        collector = PointCollector(
            self._clusters, self._dialect, read_ms=round(self._clock.now() * 1000)
        )
        begin, end = (
            max(span[0] - OVERLAP_MS, self._files.window[0]),
            min(span[1], self._files.window[1]),
        )
        counts = DropCounts()
        partial_names = {path.name for path in failures}
        for number, path in enumerate(self._files.paths):
            if progress is not None:
                progress("reading files", number, len(self._files.paths))
            if path not in failures:
                of_file = DropCounts()
                try:
                    for series in openmetrics.read(path, of_file):
                        collector.add(series.within(begin, end))
                except TelemetryError as error:
                    failures[path] = _text(error)
                    partial_names.add(path.name)
                if of_file.partial:
                    partial_names.add(path.name)
                counts.merge(of_file)
        points_by_cluster = collector.points()
        counts.merge(collector.counts)
        self.counts.merge(counts if self._is_first else counts.only(_OF_POINTS))
        self._is_first = False
        partial = tuple(f"the file {name} was not read whole" for name in sorted(partial_names))
        for cluster_id, points in points_by_cluster.items():
            for number in points.between(*span).days():
                day = day_of(number * DAY_MS)
                reading = DayReading(points=points, partial=partial, dialect=self._dialect.name)
                report = self._days[cluster_id].write(day, reading)
                if report is not None:
                    arrived[cluster_id].days[day] = report


def _text(error: KquotaError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _spoken_before(lake: Lake, sources: Sequence[ClusterSource]) -> str:
    """Return the dialect in which these clusters were last read, if it is the same for all."""
    dialect_names = {last_dialect(lake, source.cluster_id) for source in sources} - {""}
    return dialect_names.pop() if len(dialect_names) == 1 else ""


class _NamesInFiles:
    """Reads all files once to collect metric names, labels, cluster labels, and the number of points per day."""

    def __init__(self, files: FileImportRequest, failures: dict[Path, str]) -> None:
        self.points_by_day: Counter[int] = Counter()
        self._files, self._failures = files, failures
        self._labels: dict[str, set[str]] = {}
        self._label_sets: set[tuple[tuple[str, str], ...]] = set()
        self._counts = DropCounts()
        for path in files.paths:
            try:
                for series in openmetrics.read(path, self._counts):
                    self._inspect(series)
            except TelemetryError as error:
                failures[path] = _text(error)
        if not self._labels and (failures or self._counts):
            raise TelemetryError("; ".join([*failures.values(), *self._counts.lines()]))

    def _inspect(self, series: RecordedSeries) -> None:
        labels = self._labels.setdefault(series.name, set())
        days = pc.divide(pa.array(series.times, pa.int64()), DAY_MS)
        for pair in pc.value_counts(days).to_pylist():
            self.points_by_day[pair["values"]] += pair["counts"]
        if self._files.dialects.is_needed(series.name):
            labels.update(series.labels)
            # `up` does not count, because other jobs are scraped, too.
            if any(
                dialect.has_quota_rate(series.name, series.labels)
                for dialect in self._files.dialects.all
            ):
                self._label_sets.add(tuple((name, series.label(name)) for name in CLUSTER_LABELS))

    def dialect(self, clusters: ClusterMatcher, before: Callable[[], str]) -> tuple[Dialect, str]:
        """Return the dialect, and a remark if it is only assumed from the last run.

        Raises:
            TelemetryError: No dialect is found, or no label distinguishes several clusters.
        """
        if self._files.dialect:
            selected = self._files.dialects.get(self._files.dialect), ""
        else:
            names = {name: frozenset(labels) for name, labels in self._labels.items()}
            # What could not be read may contain client metrics.
            is_complete = not self._failures and not self._counts.partial
            selected = self._files.dialects.select(names, before if is_complete else str)
        clusters.check(dict(label_pairs) for label_pairs in self._label_sets)
        return selected
