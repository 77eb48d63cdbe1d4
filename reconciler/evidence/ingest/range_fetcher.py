"""Fetches a time range from Prometheus by window, with parallel queries that are split if too large; resumable.

A query is split by `=~` and `!~` on the same label values, so that every series is in exactly one part. Raw samples
have from <= time < to, whichever bound the server's version includes.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.dialect import DialectTable
from reconciler.evidence.ingest.drop_reasons import PARTIAL, DropCounts, DropReason
from reconciler.evidence.ingest.label_matchers import LabelMatcher, selector
from reconciler.evidence.ingest.prometheus import (
    PrometheusClient,
    ResponseTooLarge,
    ResponseTooSlow,
)
from reconciler.evidence.ingest.recorded_series import RecordedSeries

WINDOW_MS: Final = 7_200_000
"""Length of one chunk: a block of Prometheus' storage."""

LEAST_WINDOW_MS: Final = 60_000
"""Minimum length of a time range; shorter queries are split by a label instead."""

PARALLEL: Final = 4
"""Maximum number of concurrent queries; Prometheus allows 20 in total by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSelector:
    """Series that are queried together."""

    metric: str
    matchers: tuple[LabelMatcher, ...] = ()
    # Labels that the series must not have; excludes per-topic series, of which only totals are read.
    without: tuple[str, ...] = ()

    @property
    def selector(self) -> str:
        """The PromQL selector; the metric name is a label matcher, so that any name is possible."""
        name = LabelMatcher(label="__name__", operator="=", value=self.metric)
        absent = (LabelMatcher(label=label, operator="=", value="") for label in self.without)
        return selector("", (name, *self.matchers, *absent))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedChunk:
    """All series of one window."""

    from_ms: int  # Inclusive
    to_ms: int  # exclusive; the start to resume from once this chunk is stored
    series: tuple[RecordedSeries, ...]  # one series may occur several times, with different times
    # Whether input is missing: the server warned, or a part of its response cannot be read.
    partial: bool


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
    names = await server.names([fitting], from_ms, to_ms)
    labels: dict[str, set[str]] = {name: set() for name in names}
    series_by_labels: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
    for name in names:
        if dialects.is_needed(name):
            of_metric = SeriesSelector(
                metric=name, matchers=matchers, without=dialects.excluded(name)
            )
            for series_labels in await _series_of(server, of_metric.selector, from_ms, to_ms):
                series_by_labels[frozenset(series_labels.items())] = series_labels
                labels[name].update(series_labels.keys() - {"__name__"})
    return DiscoveredSeries(
        labels={name: frozenset(label_names) for name, label_names in labels.items()},
        series=tuple(series_by_labels.values()),
        partial=server.counts[DropReason.WARNINGS] > warned,
    )


async def _series_of(
    server: PrometheusClient, expression: str, from_ms: int, to_ms: int
) -> list[dict[str, str]]:
    """Return labels of series, possibly with duplicates; splits the time if it is too much."""
    try:
        return list(await server.series([expression], from_ms, to_ms))
    except ResponseTooLarge:
        if to_ms - from_ms < 2 * LEAST_WINDOW_MS:
            raise
    server.counts.add(DropReason.SPLITS)
    middle = (from_ms + to_ms) // 2
    earlier = await _series_of(server, expression, from_ms, middle)
    return earlier + await _series_of(server, expression, middle, to_ms)


async def chunks(
    server: PrometheusClient,
    selectors: Sequence[SeriesSelector],
    from_ms: int,
    to_ms: int,
    *,
    window_ms: int = WINDOW_MS,
    parallel: int = PARALLEL,
) -> AsyncGenerator[FetchedChunk, None]:
    """Yield all samples of a time range in chunks by time.

    To resume, start at the ``to_ms`` of the last stored chunk: windows start at multiples of ``window_ms``, so the
    following chunks are the same.

    Raises:
        TelemetryError: The server rejects a request, or a single series is too large for it.
        TelemetryUnavailable: The server no longer answers.
    """
    fetch = _RangeFetch(server, asyncio.Semaphore(parallel))
    while from_ms < to_ms:
        end_ms = min(to_ms, (from_ms // window_ms + 1) * window_ms)
        yield await fetch.window(selectors, from_ms, end_ms)
        from_ms = end_ms


class _RangeFetch:
    def __init__(self, server: PrometheusClient, places: asyncio.Semaphore) -> None:
        self._server = server
        self._places = places

    async def window(
        self, selectors: Sequence[SeriesSelector], from_ms: int, to_ms: int
    ) -> FetchedChunk:
        before = _count_missing(self._server.counts)
        tasks = [
            asyncio.create_task(self._series(selector, from_ms, to_ms)) for selector in selectors
        ]
        try:
            series_lists = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return FetchedChunk(
            from_ms=from_ms,
            to_ms=to_ms,
            series=tuple(series for part in series_lists for series in part),
            partial=_count_missing(self._server.counts) > before,
        )

    async def _series(
        self, selector: SeriesSelector, from_ms: int, to_ms: int
    ) -> list[RecordedSeries]:
        """Return the series of one selector; splits time, then the values of a label, if the response is too large."""
        try:
            async with self._places:
                return list(await self._server.raw(selector.selector, from_ms, to_ms))
        except ResponseTooLarge as large:
            halved = to_ms - from_ms >= 2 * LEAST_WINDOW_MS
            if isinstance(large, ResponseTooSlow) and not halved:
                raise  # a server that cannot return one minute is unavailable
            self._server.counts.add(DropReason.SPLITS)
            if halved:
                middle = (from_ms + to_ms) // 2
                parts = [(selector, from_ms, middle), (selector, middle, to_ms)]
            else:
                parts = [
                    (part_selector, from_ms, to_ms)
                    for part_selector in await self._halves(selector, from_ms, to_ms, large)
                ]
        fetched_series: list[RecordedSeries] = []
        for part_selector, start, end in parts:
            fetched_series += await self._series(part_selector, start, end)
        return fetched_series

    async def _halves(
        self, selector: SeriesSelector, from_ms: int, to_ms: int, large: ResponseTooLarge
    ) -> list[SeriesSelector]:
        """Split a selector into two: series with some values of a label, and all others.

        Raises:
            TelemetryError: There is only one series.
        """
        async with self._places:
            labels = await self._server.series([selector.selector], from_ms, to_ms)
        values = {
            name: {series_labels.get(name, "") for series_labels in labels}
            for name in set[str]().union(*labels)
        }
        name = max(sorted(values), key=lambda label_name: len(values[label_name]), default="")
        if not name or len(values[name]) < 2:
            raise TelemetryError(
                f"a single series of {selector.metric} over {(to_ms - from_ms) // 1000} s is more than the server gives"
                f" ({large.message})",
                location=self._server.shown,
                status=large.status,
                hint=large.hint,
            ) from large
        several_values = sorted(values[name])
        first = several_values[: len(several_values) // 2]
        expression = "|".join(_literal(label_value) for label_value in first)
        both = (LabelMatcher(label=name, operator=word, value=expression) for word in ("=~", "!~"))
        return [replace(selector, matchers=(*selector.matchers, matcher)) for matcher in both]


def _count_missing(counts: DropCounts) -> int:
    """Return how often existing input could not be read."""
    return sum(counts[word] for word in PARTIAL)


def _literal(text: str) -> str:
    """Return an RE2 expression that matches exactly a text; ``re.escape`` escapes more than RE2 accepts."""
    return "".join(
        f"\\{character}" if character in r"\.+*?()|[]{}^$" else character for character in text
    )
