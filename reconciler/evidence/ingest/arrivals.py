"""What arrives, on its way into the lake: gathered for a while, then kept; counted as it comes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly.day_tables import split
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.point_rows import PointCollector
from reconciler.evidence.ingest.point_store import PointSource, keep
from reconciler.evidence.ingest.readers.series import (
    PointArray,
    RecordedSeries,
)
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import POINT

MOST_POINTS: Final = 4_000_000
"""So many are gathered before they are kept: some 300 MB."""

ALWAYS: Final = (0, 2**62)
"""The window of everything."""


@dataclass(slots=True, kw_only=True)
class ClusterArrivals:
    """What arrived for one cluster; grows while a run goes on.

    Attributes:
        counts: What became of series and points, readers' words.
        tally: The same, our own.
        new: Points by day that the lake did not have.
        failures: Why the run did not get all that it wanted; empty = it did.
        remarks: What else people should know.
    """

    counts: DropCounts = field(default_factory=DropCounts)
    tally: DropCounts = field(default_factory=DropCounts)
    new: dict[date, int] = field(default_factory=dict[date, int])
    failures: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])


class SeriesBuffer:
    """Series that wait to be kept.

    Args:
        lake: Where they go.
        collector: Makes points of them.
        arrived: By cluster id: where their points are counted.
        window: Points outside of it are left alone.
    """

    def __init__(
        self,
        lake: Lake,
        collector: PointCollector,
        arrived: Mapping[str, ClusterArrivals],
        window: tuple[int, int] = ALWAYS,
    ) -> None:
        self._lake, self._collector, self._arrived = lake, collector, arrived
        self._window = window
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to keep what waits."""
        return self._waiting >= MOST_POINTS

    def add(self, series: RecordedSeries, tally: DropCounts) -> None:
        """Take a series."""
        points = PointArray.of(series.points)
        tally.add(DropReason.TIME_BACKWARDS, backwards(points))
        self._collector.add(replace(series, points=points))
        self._waiting += len(points)

    def keep(self, reading: PointSource, *, over: bool = False) -> None:
        """Commit what waits.

        Args:
            reading: How it was come by.
            over: The run is over: every day that it kept something of records this reading, too.

        Raises:
            LakeConflict: Others were quicker again and again.
            LakeError: The lake cannot be read or written.
        """
        tables = self._collector.tables()
        self._waiting = 0
        nothing = arrow_tables.schema(POINT).empty_table()
        for cluster_id, arrived in self._arrived.items():
            rows = tables.get(cluster_id, nothing)
            rows_in_window = rows if self._window == ALWAYS else _within(rows, self._window)
            days = reading.days | arrived.new.keys() if over else reading.days
            parts = split(rows_in_window)
            for day in sorted(parts.keys() | days):
                # Day by day, so that what is reported is what was kept, wherever the lake fails.
                day_source = replace(reading, days=frozenset({day}))
                stored_points = keep(self._lake, cluster_id, parts.get(day, nothing), day_source)
                arrived.counts.merge(stored_points.counts)
                for stored_day, new in stored_points.new.items():
                    arrived.new[stored_day] = arrived.new.get(stored_day, 0) + new


def _within(rows: pa.Table, window: tuple[int, int]) -> pa.Table:
    begin, end = window
    ts = rows["ts_ms"]
    return rows.filter(pc.and_(pc.greater_equal(ts, begin), pc.less(ts, end)))


def backwards(points: PointArray) -> int:
    """How many points are older than the one before them."""
    if len(points) < 2:
        return 0
    times = pa.array(points.times, pa.int64())
    late = pc.less(times.slice(1), times.slice(0, len(times) - 1))
    return int(pc.sum(late).as_py() or 0)
