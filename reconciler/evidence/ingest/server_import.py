"""Imports recorded use from Prometheus: whole days from the end of the last run, each written once it is fetched.

A day is fetched in windows, with parallel queries; a query that is too much for the server is split by time. Raw samples
have from <= time < to, whichever bound the server's version includes.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest.cluster_sources import (
    ClusterMatcher,
    ClusterSource,
    LabelMatcher,
    selector,
)
from reconciler.evidence.ingest.dialect import Dialect, DialectTable
from reconciler.evidence.ingest.drop_reasons import PARTIAL, DropReason
from reconciler.evidence.ingest.points import PointCollector, Points, RecordedSeries
from reconciler.evidence.ingest.readers.http_config import HttpConfig
from reconciler.evidence.ingest.readers.prometheus import (
    BOUNDS,
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
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
from reconciler.render.units import instant
from reconciler.usage.samples import DAY_MS, day_of, start_of

FETCHED: Final = "minutes fetched"
"""Name of the progress in minutes of recorded time: ``minutes fetched: 120 of 20,160``."""

MINUTE_MS: Final = 60_000
FIRST_MS: Final = 14 * DAY_MS
"""How far back the first run reads: the window of evidence."""

WINDOW_MS: Final = 7_200_000
"""Time of the queries that are sent together: a block of Prometheus' storage."""

PARALLEL: Final = 4
"""Maximum number of concurrent queries; Prometheus allows 20 in total by default."""


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

    from_ms: int  # begin of a day
    to_ms: int  # Exclusive
    follows: bool  # whether there is no gap after what was fetched before


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
    if from_ms is not None:
        begin = start_of(day_of(from_ms))
        return FetchWindow(from_ms=begin, to_ms=to_ms, follows=reached is None or begin <= reached)
    earliest = max(0, to_ms - FIRST_MS)
    begin = earliest if reached is None or rebuild else max(0, min(reached, to_ms) - REFETCH_MS)
    stale = days.first_stale(day_of(earliest))
    begin = begin if stale is None else min(begin, start_of(stale))
    return FetchWindow(from_ms=start_of(day_of(begin)), to_ms=to_ms, follows=True)


async def fetched(
    days: SampleDays,
    source: ClusterSource,
    span: FetchWindow,
    options: ServerImportOptions,
    *,
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
        config=options.config,
        bounds=options.bounds,
        counts=arrived.counts,
    ) as server:
        discovered_series = await discovered(
            server, options.dialects, source.matchers, span.from_ms - OVERLAP_MS, span.to_ms
        )
        if not discovered_series.labels:
            window = f"between {instant(span.from_ms / 1000)} and {instant(span.to_ms / 1000)}"
            nothing = f"{server.shown} has no series of this cluster {window}"
            if discovered_series.partial:
                raise TelemetryError(
                    f"{nothing}, and warns that its answer is not complete", hint=_ONCE_ALL_ANSWER
                )
            arrived.remarks.append(f"{nothing}: the window is empty")
            return arrived
        dialect = _dialect(days, discovered_series, options, arrived)
        neighbours = [
            neighbour
            for neighbour in options.sources_of_address
            if neighbour.cluster_id != source.cluster_id
            and neighbour.prometheus == source.prometheus
        ]
        clusters = ClusterMatcher([source, *neighbours])
        clusters.check(
            labels
            for labels in discovered_series.series
            if options.dialects.has_quota_rate(labels.get("__name__", ""), labels)
        )
        selectors = [
            _selector(name, source.matchers, dialect.excluded())
            for name in sorted(discovered_series.labels)
            if dialect.is_needed(name)
        ]
        fetch = _DayFetch(server, selectors, span, options.window_ms, progress)
        fetch.is_partial = discovered_series.partial
        for begin in range(span.from_ms, span.to_ms, DAY_MS):
            collector = PointCollector(clusters, dialect, read_ms=round(clock.now() * 1000))
            try:
                await fetch.day(begin, collector)
            except TelemetryError as error:
                stored_to = instant(max(fetch.reached, span.from_ms) / 1000)
                arrived.failures.append(f"{error.message}; what came before {stored_to} is kept")
                fetch.missing.append((fetch.reached, span.to_ms))
            points = collector.points().get(source.cluster_id, Points.none())
            arrived.counts.merge(collector.counts)
            if fetch.reached > begin:
                reading = DayReading(
                    points=points,
                    cursor_ms=fetch.cursor_ms if span.follows else None,
                    partial=tuple(_missing_parts(fetch.missing, begin)),
                    dialect=dialect.name,
                )
                try:
                    report = await asyncio.to_thread(days.write, day_of(begin), reading)
                except LakeError as error:
                    hint = f" ({error.hint})" if error.hint else ""
                    note = f"what came before {instant(begin / 1000)} is kept"
                    arrived.failures.append(f"{error.message}{hint}; {note}")
                    return arrived
                if report is not None:
                    arrived.days[report.day] = report
            if arrived.failures:
                break
    return arrived


_ONCE_ALL_ANSWER: Final = "read again once all its stores answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSeries:
    """The metrics of a source, and their series where a dialect knows them."""

    # Label names by metric name; none for metrics that no dialect reads.
    labels: dict[str, frozenset[str]]
    # Labels of each series with `__name__`, except series with labels that no dialect reads.
    series: tuple[dict[str, str], ...]
    partial: bool = False  # whether the server warned that series are missing


async def discovered(
    server: PrometheusClient,
    dialects: DialectTable,
    matchers: tuple[LabelMatcher, ...],
    from_ms: int,
    to_ms: int,
) -> DiscoveredSeries:
    """Return the metrics of a server and the labels of those that are known.

    Raises:
        TelemetryError: The server rejects the request or does not answer.
    """
    warned = server.counts[DropReason.WARNINGS]
    fitting = selector("", matchers) if matchers else '{__name__!=""}'
    labels: dict[str, frozenset[str]] = {}
    series: list[dict[str, str]] = []
    for name in await server.names([fitting], from_ms, to_ms):
        of_metric: list[dict[str, str]] = []
        if dialects.is_needed(name):
            expression = _selector(name, matchers, dialects.excluded(name))
            of_metric = await _series_of(server, expression, from_ms, to_ms)
        series += {frozenset(labels.items()): labels for labels in of_metric}.values()
        labels[name] = frozenset[str]().union(*of_metric) - {"__name__"}
    return DiscoveredSeries(
        labels=labels,
        series=tuple(series),
        partial=server.counts[DropReason.WARNINGS] > warned,
    )


async def _series_of(
    server: PrometheusClient, expression: str, from_ms: int, to_ms: int
) -> list[dict[str, str]]:
    """Return labels of series, possibly with duplicates; splits the time if it is too much."""
    try:
        return list(await server.series([expression], from_ms, to_ms))
    except ResponseTooLarge:
        if to_ms - from_ms < 2 * MINUTE_MS:
            raise
    server.counts.add(DropReason.SPLITS)
    middle = (from_ms + to_ms) // 2
    earlier = await _series_of(server, expression, from_ms, middle)
    return earlier + await _series_of(server, expression, middle, to_ms)


def _selector(metric: str, matchers: tuple[LabelMatcher, ...], without: Iterable[str]) -> str:
    """Return the PromQL selector of a metric; its name is a label matcher, so that any name is possible.

    Args:
        without: Labels that the series must not have; excludes per-topic series, of which only totals are read.
    """
    name = LabelMatcher(label="__name__", operator="=", value=metric)
    absent = (LabelMatcher(label=label, operator="=", value="") for label in without)
    return selector("", (name, *matchers, *absent))


def _dialect(
    days: SampleDays,
    discovered_series: DiscoveredSeries,
    options: ServerImportOptions,
    arrived: ClusterArrivals,
) -> Dialect:
    """Return the dialect of the series; if no client has metrics, the one of the last run."""
    if options.dialect:
        return options.dialects.get(options.dialect)

    def before() -> str:
        # While a store is unavailable, an idle cluster and missing data look the same.
        return "" if discovered_series.partial else last_dialect(days.lake, days.cluster_id)

    try:
        dialect, remark = options.dialects.select(discovered_series.labels, before)
    except TelemetryError as error:
        if not discovered_series.partial:
            raise
        raise TelemetryError(
            f"{error.message}; the server warns that its answer is not complete",
            hint=_ONCE_ALL_ANSWER,
        ) from error
    arrived.remarks += [remark] if remark else []
    return dialect


class _DayFetch:
    """Fetches the days of a span, window by window.

    Attributes:
        reached: End of the last window.
        cursor_ms: Where the next run must resume.
        missing: Time ranges of the day that the server did not return whole.
        is_partial: Whether no window is whole, because series were not discovered.
    """

    def __init__(
        self,
        server: PrometheusClient,
        selectors: Sequence[str],
        span: FetchWindow,
        window_ms: int,
        progress: Progress | None,
    ) -> None:
        self.reached = span.from_ms
        self.missing: list[tuple[int, int]] = []
        self.is_partial = False
        self._server, self._selectors, self._span = server, selectors, span
        self._window_ms, self._progress = window_ms, progress
        self._gap_from_ms: int | None = None
        self._places = asyncio.Semaphore(PARALLEL)

    @property
    def cursor_ms(self) -> int:
        return self.reached if self._gap_from_ms is None else self._gap_from_ms

    async def day(self, begin: int, collector: PointCollector) -> None:
        """Collect the points of a day and of the hour before it.

        Raises:
            TelemetryError: The server rejects a request, or does not answer.
        """
        span, counts = self._span, self._server.counts
        end = min(begin + DAY_MS, span.to_ms)
        self.missing, self.reached = [], begin - OVERLAP_MS
        while self.reached < end:
            to_ms = min(end, (self.reached // self._window_ms + 1) * self._window_ms)
            before = sum(counts[word] for word in PARTIAL)
            for series in await self._window(self.reached, to_ms):
                collector.add(series)
            if self.is_partial or sum(counts[word] for word in PARTIAL) > before:
                self.missing.append((self.reached, to_ms))
                # Do not wait for input older than evidence; a store that never returns would cost more each day.
                if self._gap_from_ms is None and to_ms > span.to_ms - FIRST_MS:
                    self._gap_from_ms = max(self.reached, span.from_ms)
            self.reached = to_ms
            if self._progress is not None and to_ms > begin:
                total = -(-(span.to_ms - span.from_ms) // MINUTE_MS)
                self._progress(FETCHED, -(-(to_ms - span.from_ms) // MINUTE_MS), total)

    async def _window(self, from_ms: int, to_ms: int) -> list[RecordedSeries]:
        tasks = [
            asyncio.create_task(self._series(selector, from_ms, to_ms))
            for selector in self._selectors
        ]
        try:
            return [series for part in await asyncio.gather(*tasks) for series in part]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _series(self, selector: str, from_ms: int, to_ms: int) -> list[RecordedSeries]:
        """Return the series of one selector; splits the time if the response is too large or too late."""
        try:
            async with self._places:
                return list(await self._server.raw(selector, from_ms, to_ms))
        except ResponseTooLarge as large:
            if to_ms - from_ms < 2 * MINUTE_MS:
                raise TelemetryError(
                    f"{selector} over {(to_ms - from_ms) // 1000} s is more than the server gives ({large.message})",
                    location=self._server.shown,
                    status=large.status,
                    hint=large.hint,
                ) from large
        self._server.counts.add(DropReason.SPLITS)
        middle = (from_ms + to_ms) // 2
        earlier = await self._series(selector, from_ms, middle)
        return earlier + await self._series(selector, middle, to_ms)


def _missing_parts(spans: Iterable[tuple[int, int]], day_begin: int) -> Iterator[str]:
    """Yield a sentence per time range of a day that the server returned incompletely."""
    for span_begin, span_end in spans:
        begin, end = max(span_begin, day_begin), min(span_end, day_begin + DAY_MS)
        if begin < end:
            yield (
                f"between {instant(begin / 1000)} and {instant(end / 1000)} the server did not give all that it has"
            )
