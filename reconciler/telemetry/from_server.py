"""Recorded use from a Prometheus: from where the last run ended, chunk by chunk, kept as it comes."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.lake.lake import Lake
from reconciler.ports import Clock, Progress
from reconciler.render.units import instant
from reconciler.telemetry.arriving import Arrived, Gathering
from reconciler.telemetry.assembly import day_of
from reconciler.telemetry.dialects import Dialects
from reconciler.telemetry.fetching import WINDOW_MS, Discovered, Wanted, chunks, discovered
from reconciler.telemetry.http_config import HttpConfig
from reconciler.telemetry.keeping import REFETCH_MS, Reading, cursor
from reconciler.telemetry.points import Collector, seen_labels
from reconciler.telemetry.prometheus import BOUNDS, Bounds, Prometheus
from reconciler.telemetry.settings import Clusters, Source
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import POINT

FETCHED: Final = "minutes fetched"
"""How far a run is goes in minutes of recorded time: ``minutes fetched: 120 of 20,160``."""

MINUTE_MS: Final = 60_000
FIRST_MS: Final = 14 * DAY_MS
"""How far back the first run reads: what evidence is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a Prometheus is asked.

    Attributes:
        dialects: Those that may be spoken.
        dialect: The name of the one that is; "" = found out.
        config: Authorization, TLS and headers.
        bounds: What it may cost.
        window_ms: What one chunk covers.
        neighbours: Clusters that read from the same address: a series that is also one of theirs is nobody's.
    """

    dialects: Dialects
    dialect: str = ""
    config: HttpConfig | None = None
    bounds: Bounds = BOUNDS
    window_ms: int = WINDOW_MS
    neighbours: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
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


def stretch(lake: Lake, cluster_id: str, from_ms: int | None, to_ms: int) -> Stretch:
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
        return Stretch(from_ms=max(0, begin), to_ms=to_ms, follows=True)
    return Stretch(from_ms=from_ms, to_ms=to_ms, follows=reached is None or from_ms <= reached)


async def fetched(
    lake: Lake,
    source: Source,
    span: Stretch,
    asking: Asking,
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> Arrived:
    """Fetches a span of a cluster into the lake.

    What came is kept, whatever happens later; a server that fails half-way is a failure in the result, and the next run
    goes on behind the last chunk.

    Raises:
        TelemetryError: The server cannot be asked at all, speaks no dialect that we know, or has series of several
            clusters without matchers that tell them apart.
        LakeError: The lake cannot be read or written.
    """
    arrived = Arrived()
    async with Prometheus(
        source.address,
        clock=clock,
        config=asking.config,
        bounds=asking.bounds,
        counts=arrived.counts,
    ) as server:
        found = await discovered(server, asking.dialects, source.matchers, span.from_ms, span.to_ms)
        if not found.labels:
            arrived.remarks.append(
                f"{server.shown} has no series of this cluster between {instant(span.from_ms / 1000)}"
                f" and {instant(span.to_ms / 1000)}: the window is empty"
            )
            return arrived
        collector, wanted = _collector(source, found, asking, clock)
        work = _Fetching(Gathering(lake, collector, {source.cluster_id: arrived}), arrived, span)
        try:
            fetching = chunks(server, wanted, span.from_ms, span.to_ms, window_ms=asking.window_ms)
            async with contextlib.aclosing(fetching):
                async for chunk in fetching:
                    for series in chunk.series:
                        work.gathering.add(series, arrived.tally)
                    await work.done(chunk.to_ms, partial=chunk.partial)
                    if progress is not None:
                        progress(FETCHED, *span.minutes_to(chunk.to_ms))
        except TelemetryError as error:
            arrived.failures.append(
                f"{error.message}; what came before {instant(work.reached / 1000)} is kept"
            )
            await work.keep(missing=((work.reached, span.to_ms),))
        else:
            await work.keep()
        arrived.counts.merge(collector.counts)
    return arrived


def _collector(
    source: Source, found: Discovered, asking: Asking, clock: Clock
) -> tuple[Collector, Sequence[Wanted]]:
    dialect = (
        asking.dialects.named(asking.dialect)
        if asking.dialect
        else asking.dialects.detected(found.labels)
    )
    beside = [
        one
        for one in asking.neighbours
        if one.cluster_id != source.cluster_id and one.prometheus == source.prometheus
    ]
    clusters = Clusters([source, *beside])
    clusters.check(seen_labels(found.series, dialect))
    wanted = [
        Wanted(metric=name, matchers=source.matchers)
        for name in sorted(found.labels)
        if dialect.wanted(name)
    ]
    return Collector(clusters, dialect, read_ms=round(clock.now() * 1000)), wanted


class _Fetching:
    """What was fetched and not yet kept; a day is kept when it is over."""

    def __init__(self, gathering: Gathering, arrived: Arrived, span: Stretch) -> None:
        self.gathering = gathering
        self.reached = span.from_ms
        self._arrived, self._follows = arrived, span.follows
        self._begin = span.from_ms
        self._missing: list[tuple[int, int]] = []

    async def done(self, to_ms: int, *, partial: bool) -> None:
        """A chunk is there."""
        if partial:
            self._missing.append((self.reached, to_ms))
        self.reached = to_ms
        if self.gathering.is_full or day_of(to_ms) != day_of(self._begin):
            await self.keep()

    async def keep(self, missing: tuple[tuple[int, int], ...] = ()) -> None:
        reading = Reading(
            cursor_ms=self.reached if self._follows else None,
            whole=(self._begin, self.reached),
            missing=(*self._missing, *missing),
        )
        await asyncio.to_thread(self.gathering.keep, reading)
        self._begin, self._missing = self.reached, []
