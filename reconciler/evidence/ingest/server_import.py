"""Imports recorded use from Prometheus: whole days from the end of the last run, each written once it is fetched."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest.cluster_sources import ClusterMatcher, ClusterSource
from reconciler.evidence.ingest.dialect import Dialect, DialectTable
from reconciler.evidence.ingest.http_config import HttpConfig
from reconciler.evidence.ingest.points import PointCollector, Points, seen_labels
from reconciler.evidence.ingest.prometheus import BOUNDS, PrometheusClient, PrometheusLimits
from reconciler.evidence.ingest.range_fetcher import (
    WINDOW_MS,
    DiscoveredSeries,
    FetchedChunk,
    SeriesSelector,
    chunks,
    discovered,
)
from reconciler.evidence.ingest.sample_days import (
    OVERLAP_MS,
    REFETCH_MS,
    ClusterArrivals,
    DayReading,
    SampleDays,
    cursor,
    last_dialect,
)
from reconciler.evidence.store.lake import Lake
from reconciler.render.units import instant
from reconciler.usage.samples import DAY_MS, day_of, start_of

FETCHED: Final = "minutes fetched"
"""Name of the progress in minutes of recorded time: ``minutes fetched: 120 of 20,160``."""

MINUTE_MS: Final = 60_000
FIRST_MS: Final = 14 * DAY_MS
"""How far back the first run reads: the window of evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerImportOptions:
    """How a Prometheus is read."""

    dialects: DialectTable  # the dialects to select from
    dialect: str = ""  # the name of the dialect; "" = detected
    config: HttpConfig | None = None
    bounds: PrometheusLimits = BOUNDS
    window_ms: int = WINDOW_MS
    # Clusters that read from the same address: a series that also matches one of them is rejected.
    sources_of_address: tuple[ClusterSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWindow:
    """The time range to fetch."""

    from_ms: int  # Inclusive
    to_ms: int  # Exclusive
    follows: bool  # whether there is no gap after what was fetched before

    def minutes_to(self, at_ms: int) -> tuple[int, int]:
        """Return the minutes from the start to ``at_ms``, and in total, both rounded up."""
        return -(-(at_ms - self.from_ms) // MINUTE_MS), -(-(self.to_ms - self.from_ms) // MINUTE_MS)


def stretch(
    days: SampleDays, from_ms: int | None, to_ms: int, *, rebuild: bool = False
) -> FetchWindow:
    """Return what a run must fetch: whole days, from the end of the last run and :data:`REFETCH_MS` before it.

    Starts earlier at a day of the last two weeks that must be read again (:meth:`SampleDays.first_stale`).

    Args:
        days: The days of the cluster, with the end of the last run.
        from_ms: Start to use instead.
        to_ms: End.
        rebuild: Whether to start :data:`FIRST_MS` before the end.

    Raises:
        LakeError: The lake cannot be read.
    """
    reached = cursor(days.lake, days.cluster_id)
    if from_ms is None:
        earliest = max(0, to_ms - FIRST_MS)
        begin = earliest if reached is None or rebuild else max(0, min(reached, to_ms) - REFETCH_MS)
        stale = days.first_stale(day_of(earliest))
        begin = begin if stale is None else min(begin, start_of(stale))
        return FetchWindow(from_ms=start_of(day_of(begin)), to_ms=to_ms, follows=True)
    begin = start_of(day_of(from_ms))
    return FetchWindow(from_ms=begin, to_ms=to_ms, follows=reached is None or begin <= reached)


async def fetched(
    lake: Lake,
    source: ClusterSource,
    span: FetchWindow,
    import_options: ServerImportOptions,
    *,
    days: SampleDays,
    clock: Clock,
    progress: Progress | None = None,
) -> ClusterArrivals:
    """Fetch a time range of a cluster and write each day once it is complete.

    Written days remain. If the server or the lake fails later, the result has a failure and the next run resumes there.
    If the server warns that its answers are incomplete, the next run reads again from that time, but not from earlier
    than :data:`FIRST_MS` before the end.

    Raises:
        TelemetryError: The server cannot be queried, has no known dialect, has series of several clusters that the
            matchers do not distinguish, or warns and returns no series.
        LakeError: The lake cannot be read.
    """
    arrived = ClusterArrivals()
    async with PrometheusClient(
        source.address,
        clock=clock,
        config=import_options.config,
        bounds=import_options.bounds,
        counts=arrived.counts,
    ) as server:
        discovered_series = await discovered(
            server, import_options.dialects, source.matchers, span.from_ms - OVERLAP_MS, span.to_ms
        )
        window = f"between {instant(span.from_ms / 1000)} and {instant(span.to_ms / 1000)}"
        if not discovered_series.labels and discovered_series.partial:
            raise TelemetryError(
                f"{server.shown} has no series of this cluster {window}, and warns that its answer is not complete",
                hint="read again once all its stores answer",
            )
        if not discovered_series.labels:
            arrived.remarks.append(
                f"{server.shown} has no series of this cluster {window}: the window is empty"
            )
            return arrived
        dialect = _dialect(lake, source, discovered_series, import_options, arrived)
        collector = _collector(source, discovered_series, dialect, import_options, clock)
        work = _ServerImport(
            days, collector, span, arrived, cluster_id=source.cluster_id, dialect=dialect.name
        )
        fetching = chunks(
            server,
            _selectors(source, discovered_series, dialect),
            span.from_ms - OVERLAP_MS,
            span.to_ms,
            window_ms=import_options.window_ms,
        )
        try:
            async with contextlib.aclosing(fetching):
                await _write_chunks(fetching, work, discovered_series, arrived, progress)
        except LakeError as error:
            hint = f" ({error.hint})" if error.hint else ""
            arrived.failures.append(
                f"{error.message}{hint}; what came before {instant(work.written_to / 1000)} is kept"
            )
        arrived.counts.merge(collector.counts)
    return arrived


async def _write_chunks(
    fetching: AsyncIterator[FetchedChunk],
    work: "_ServerImport",
    discovered_series: DiscoveredSeries,
    arrived: ClusterArrivals,
    progress: Progress | None,
) -> None:
    """Process all chunks and write each day once it is complete; record a failure of the server."""
    span = work.span
    try:
        async for chunk in fetching:
            # Series that were not discovered are not queried: every chunk lacks them.
            await work.add_chunk(chunk, partial=chunk.partial or discovered_series.partial)
            if progress is not None and chunk.to_ms > span.from_ms:
                progress(FETCHED, *span.minutes_to(chunk.to_ms))
    except TelemetryError as error:
        arrived.failures.append(
            f"{error.message}; what came before {instant(max(work.reached, span.from_ms) / 1000)} is kept"
        )
        await work.write_day(missing=((work.reached, span.to_ms),))
    else:
        await work.write_day()


def _dialect(
    lake: Lake,
    source: ClusterSource,
    discovered_series: DiscoveredSeries,
    import_options: ServerImportOptions,
    arrived: ClusterArrivals,
) -> Dialect:
    """Return the dialect of the series; if no client has metrics, the one of the last run."""
    if import_options.dialect:
        dialect = import_options.dialects.get(import_options.dialect)
        arrived.remarks.extend(_excluded_metrics_notes(discovered_series, dialect))
        return dialect

    def before() -> str:
        # While a store is unavailable, an idle cluster and missing data look the same.
        return "" if discovered_series.partial else last_dialect(lake, source.cluster_id)

    try:
        dialect, remark = import_options.dialects.select(discovered_series.labels, before)
    except TelemetryError as error:
        if not discovered_series.partial:
            raise
        raise TelemetryError(
            f"{error.message}; the server warns that its answer is not complete",
            hint="read again once all its stores answer",
        ) from error
    arrived.remarks.extend(
        [*([remark] if remark else []), *_excluded_metrics_notes(discovered_series, dialect)]
    )
    return dialect


def _excluded_metrics_notes(discovered_series: DiscoveredSeries, dialect: Dialect) -> list[str]:
    """Return a remark about metrics whose series all have refused labels; they are not fetched and not counted."""
    read_metrics = {series_labels.get("__name__", "") for series_labels in discovered_series.series}
    names = [
        name
        for name in sorted(discovered_series.labels)
        if dialect.is_needed(name) and name not in read_metrics
    ]
    if discovered_series.partial or not names:
        return []
    words = "; ".join(word.value for word in dict.fromkeys(dialect.refuse.values()))
    labels = ", ".join(dialect.excluded())
    return [f"all series of {', '.join(names)} have labels that are not read ({labels}): {words}"]


def _collector(
    source: ClusterSource,
    discovered_series: DiscoveredSeries,
    dialect: Dialect,
    import_options: ServerImportOptions,
    clock: Clock,
) -> PointCollector:
    neighbour_sources = [
        other_source
        for other_source in import_options.sources_of_address
        if other_source.cluster_id != source.cluster_id
        and other_source.prometheus == source.prometheus
    ]
    clusters = ClusterMatcher([source, *neighbour_sources])
    clusters.check(seen_labels(discovered_series.series, dialect))
    return PointCollector(clusters, dialect, read_ms=round(clock.now() * 1000))


def _selectors(
    source: ClusterSource, discovered_series: DiscoveredSeries, dialect: Dialect
) -> list[SeriesSelector]:
    return [
        SeriesSelector(metric=name, matchers=source.matchers, without=dialect.excluded())
        for name in sorted(discovered_series.labels)
        if dialect.is_needed(name)
    ]


class _ServerImport:
    """The fetched points of the day that is not yet written.

    Attributes:
        reached: End of the last chunk.
        written_to: End of the last written day.
    """

    def __init__(
        self,
        days: SampleDays,
        collector: PointCollector,
        span: FetchWindow,
        arrived: ClusterArrivals,
        *,
        cluster_id: str,
        dialect: str,
    ) -> None:
        self.span = span
        self.reached = span.from_ms - OVERLAP_MS
        self.written_to = span.from_ms
        self._days, self._collector, self._arrived = days, collector, arrived
        self._cluster_id, self._dialect = cluster_id, dialect
        self._before = Points.none()
        self._gap_from_ms: int | None = None
        self._missing: list[tuple[int, int]] = []

    async def add_chunk(self, chunk: FetchedChunk, *, partial: bool) -> None:
        """Collect a chunk, and write the day if it is complete."""
        for series in chunk.series:
            self._collector.add(series)
        if partial:
            self._missing.append((self.reached, chunk.to_ms))
            # Do not wait for input older than evidence; a store that never returns would cost more each day.
            if self._gap_from_ms is None and chunk.to_ms > self.span.to_ms - FIRST_MS:
                self._gap_from_ms = max(self.reached, self.span.from_ms)
        self.reached = chunk.to_ms
        if self.reached % DAY_MS == 0:
            await self.write_day()

    async def write_day(self, missing: tuple[tuple[int, int], ...] = ()) -> None:
        """Write the current day; points of the hour before the first day are only kept for assembly.

        Args:
            missing: Time ranges that could not be fetched.
        """
        points = self._collector.points().get(self._cluster_id, Points.none())
        if self.reached > self.written_to:
            day = day_of(self.written_to)
            spans = (*self._missing, *missing)
            reading = DayReading(
                points=self._before.followed_by(points),
                cursor_ms=(self.reached if self._gap_from_ms is None else self._gap_from_ms)
                if self.span.follows
                else None,
                partial=tuple(_missing_parts(spans, start_of(day))),
                dialect=self._dialect,
            )
            report = await asyncio.to_thread(self._days.write, day, reading)
            if report is not None:
                self._arrived.days[day] = report
            self.written_to = self.reached
        self._before = points.between(self.reached - OVERLAP_MS, self.reached)
        self._missing = []


def _missing_parts(spans: Iterable[tuple[int, int]], day_begin: int) -> Iterator[str]:
    """Yield a sentence per time range of a day that the server returned incompletely."""
    for span_begin, span_end in spans:
        begin, end = max(span_begin, day_begin), min(span_end, day_begin + DAY_MS)
        if begin < end:
            yield (
                f"between {instant(begin / 1000)} and {instant(end / 1000)} the server did not give all that it has"
            )
