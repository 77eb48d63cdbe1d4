"""Recorded use from a Prometheus: from where the last run ended, chunk by chunk, kept as it comes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest.assembly.day_tables import day_of
from reconciler.evidence.ingest.dialects.cluster_sources import (
    ClusterMatcher,
    ClusterSource,
)
from reconciler.evidence.ingest.dialects.definitions import Dialect, DialectTable
from reconciler.evidence.ingest.drop_reasons import SENTENCES
from reconciler.evidence.ingest.point_rows import PointCollector, seen_labels
from reconciler.evidence.ingest.point_store import (
    REFETCH_MS,
    ClusterArrivals,
    PointSource,
    SeriesBuffer,
    cursor,
    last_dialect,
)
from reconciler.evidence.ingest.range_fetcher import (
    WINDOW_MS,
    DiscoveredSeries,
    FetchedChunk,
    SeriesSelector,
    chunks,
    discovered,
)
from reconciler.evidence.ingest.readers.http_config import HttpConfig
from reconciler.evidence.ingest.readers.prometheus import (
    BOUNDS,
    PrometheusClient,
    PrometheusLimits,
)
from reconciler.evidence.store.lake import Lake
from reconciler.render.units import instant
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import POINT

FETCHED: Final = "minutes fetched"
"""How far a run is goes in minutes of recorded time: ``minutes fetched: 120 of 20,160``."""

MINUTE_MS: Final = 60_000
FIRST_MS: Final = 14 * DAY_MS
"""How far back the first run reads: what evidence is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerImportOptions:
    """How a Prometheus is asked.

    Attributes:
        dialects: Those that may be spoken.
        dialect: The name of the one that is; "" = found out.
        config: Authorization, TLS and headers.
        bounds: What it may cost.
        window_ms: What one chunk covers.
        neighbours: Clusters that read from the same address: a series that is also one of theirs is rejected.
    """

    dialects: DialectTable
    dialect: str = ""
    config: HttpConfig | None = None
    bounds: PrometheusLimits = BOUNDS
    window_ms: int = WINDOW_MS
    neighbours: tuple[ClusterSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWindow:
    """What is to be fetched.

    Attributes:
        from_ms: Inclusive.
        to_ms: Exclusive.
        follows: Whether there is no hole between what was fetched before and this.
    """

    from_ms: int
    to_ms: int
    follows: bool

    def minutes_to(self, at_ms: int) -> tuple[int, int]:
        """How many minutes lie before a moment, and how many there are; parts of one count as one."""
        return -(-(at_ms - self.from_ms) // MINUTE_MS), -(-(self.to_ms - self.from_ms) // MINUTE_MS)


def stretch(lake: Lake, cluster_id: str, from_ms: int | None, to_ms: int) -> FetchWindow:
    """What a run has to fetch: from where the last one ended, and what may have come late.

    Args:
        lake: Says where the last run ended.
        cluster_id: Of which cluster.
        from_ms: Where to begin instead.
        to_ms: Where to end.

    Raises:
        LakeError: The lake cannot be read.
    """
    reached = cursor(lake.manifests(POINT, [cluster_id]))
    if from_ms is None:
        begin = to_ms - FIRST_MS if reached is None else min(reached, to_ms) - REFETCH_MS
        return FetchWindow(from_ms=max(0, begin), to_ms=to_ms, follows=True)
    return FetchWindow(from_ms=from_ms, to_ms=to_ms, follows=reached is None or from_ms <= reached)


async def fetched(
    lake: Lake,
    source: ClusterSource,
    span: FetchWindow,
    asking: ServerImportOptions,
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> ClusterArrivals:
    """Fetches a span of a cluster into the lake.

    What came is kept, whatever happens later; a server that fails half-way, or a lake, is a failure in the result, and
    the next run goes on behind the last chunk that was kept. Where the server warns that something is missing the next
    run begins again, for as long as it may be evidence.

    Raises:
        TelemetryError: The server cannot be asked at all, speaks no dialect that we know, has series of several
            clusters without matchers that distinguish them, or warns and has nothing.
        LakeError: The lake cannot be read.
    """
    arrived = ClusterArrivals()
    async with PrometheusClient(
        source.address,
        clock=clock,
        config=asking.config,
        bounds=asking.bounds,
        counts=arrived.counts,
    ) as server:
        discovered_series = await discovered(
            server, asking.dialects, source.matchers, span.from_ms, span.to_ms
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
        dialect = _dialect(lake, source, discovered_series, asking, arrived)
        collector = _collector(source, discovered_series, dialect, asking, clock)
        gathering = SeriesBuffer(lake, collector, {source.cluster_id: arrived})
        work = _ServerImport(gathering, span, dialect.name)
        fetching = chunks(
            server,
            _selectors(source, discovered_series, dialect),
            span.from_ms,
            span.to_ms,
            window_ms=asking.window_ms,
        )
        try:
            async with contextlib.aclosing(fetching):
                await _store_chunks(fetching, work, discovered_series, arrived, progress)
        except LakeError as error:
            hint = f" ({error.hint})" if error.hint else ""
            arrived.failures.append(
                f"{error.message}{hint}; what came before {instant(work.kept_to / 1000)} is kept"
            )
        arrived.counts.merge(collector.counts)
    return arrived


async def _store_chunks(
    fetching: AsyncIterator[FetchedChunk],
    work: "_ServerImport",
    discovered_series: DiscoveredSeries,
    arrived: ClusterArrivals,
    progress: Progress | None,
) -> None:
    """Takes chunk after chunk into the lake, until there are no more or the server fails."""
    span = work.span
    try:
        async for chunk in fetching:
            for series in chunk.series:
                work.gathering.add(series, arrived.tally)
            # Series that were not discovered are not asked for: then every chunk lacks them.
            await work.add_window(chunk.to_ms, partial=chunk.partial or discovered_series.partial)
            if progress is not None:
                progress(FETCHED, *span.minutes_to(chunk.to_ms))
    except TelemetryError as error:
        arrived.failures.append(
            f"{error.message}; what came before {instant(work.reached / 1000)} is kept"
        )
        await work.keep(missing=((work.reached, span.to_ms),))
    else:
        await work.keep()


def _dialect(
    lake: Lake,
    source: ClusterSource,
    discovered_series: DiscoveredSeries,
    asking: ServerImportOptions,
    arrived: ClusterArrivals,
) -> Dialect:
    """The dialect that is spoken; where brokers name no client, the one of the last time."""
    if asking.dialect:
        dialect = asking.dialects.get(asking.dialect)
        arrived.remarks.extend(_excluded_metrics_notes(discovered_series, dialect))
        return dialect

    def before() -> str:
        # While a store is away, a cluster at rest and missing data look the same.
        return (
            ""
            if discovered_series.partial
            else last_dialect(lake.manifests(POINT, [source.cluster_id]))
        )

    try:
        dialect, remark = asking.dialects.select(discovered_series.labels, before)
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
    """Which metrics have no series that is read. Those that are refused by a label are never fetched, nor counted."""
    read_metrics = {series_labels.get("__name__", "") for series_labels in discovered_series.series}
    names = [
        name
        for name in sorted(discovered_series.labels)
        if dialect.is_needed(name) and name not in read_metrics
    ]
    if discovered_series.partial or not names:
        return []
    words = "; ".join(SENTENCES[word] for word in dict.fromkeys(dialect.refuse.values()))
    labels = ", ".join(dialect.excluded())
    return [f"all series of {', '.join(names)} have labels that are not read ({labels}): {words}"]


def _collector(
    source: ClusterSource,
    discovered_series: DiscoveredSeries,
    dialect: Dialect,
    asking: ServerImportOptions,
    clock: Clock,
) -> PointCollector:
    neighbour_sources = [
        neighbour
        for neighbour in asking.neighbours
        if neighbour.cluster_id != source.cluster_id and neighbour.prometheus == source.prometheus
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
    """What was fetched and not yet kept; a day is kept when it is over.

    Attributes:
        reached: Up to where chunks are here.
        kept_to: Up to where they are in the lake.
    """

    def __init__(self, gathering: SeriesBuffer, span: FetchWindow, dialect: str) -> None:
        self.gathering, self.span = gathering, span
        self.reached = self.kept_to = span.from_ms
        self._dialect = dialect
        self._hole: int | None = None
        self._missing: list[tuple[int, int]] = []

    async def add_window(self, to_ms: int, *, partial: bool) -> None:
        """A chunk is there."""
        if partial:
            self._missing.append((self.reached, to_ms))
            # What is older than evidence is not waited for; else a store that never comes back would cost more each day.
            if self._hole is None and to_ms > self.span.to_ms - FIRST_MS:
                self._hole = self.reached
        self.reached = to_ms
        if self.gathering.is_full or day_of(to_ms) != day_of(self.kept_to):
            await self.keep()

    async def keep(self, missing: tuple[tuple[int, int], ...] = ()) -> None:
        """Commit what is there.

        Args:
            missing: What is known not to come any more.
        """
        whole_to = self.reached if self._hole is None else self._hole
        reading = PointSource(
            cursor_ms=whole_to if self.span.follows else None,
            complete_span=(self.kept_to, self.reached),
            missing_spans=(*self._missing, *missing),
            days=_days(self.kept_to, self.reached),
            dialect=self._dialect,
        )
        await asyncio.to_thread(self.gathering.keep, reading)
        self.kept_to, self._missing = self.reached, []


def _days(begin: int, end: int) -> frozenset[date]:
    """The days of a span of time."""
    return frozenset(day_of(at) for at in (*range(begin, end, DAY_MS), end - 1) if begin < end)
