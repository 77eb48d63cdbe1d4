"""Points into the lake, day by day: nothing twice, nothing lost, where to go on from, and what is missing."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base import bounded_json
from reconciler.evidence.ingest.assembly.day_tables import split, start_of
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.point_rows import PointCollector, merged
from reconciler.evidence.ingest.readers.series import (
    PointArray,
    RecordedSeries,
)
from reconciler.evidence.ingest.unit_append import NoNewRowsError
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.evidence.store.unit_repair import BEGAN, regained, sentences
from reconciler.render.units import instant
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import POINT

REFETCH_MS: Final = 3 * 3_600_000
"""What is fetched again each time, because remote writes and replicas deliver late."""

CURSOR: Final = "fetched_to_ms"
"""Up to where a Prometheus was read without a hole since the first time."""

MISSING: Final = "missing_ms"
"""Spans of the day that a server did not give whole, as JSON."""

CUT: Final = "cut_files"
"""Names of files that were not read whole, as JSON."""

DIALECT: Final = "dialect"
"""The dialect that points were read in."""

_Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSource:
    """How points were come by.

    Attributes:
        cursor_ms: Up to where everything was fetched once these points are kept; ``None`` = they come from files.
        complete_span: The span that was given whole.
        missing_spans: Spans that were not.
        read_files: Files that were read whole.
        cut_files: Files that were not: they end too early, are damaged, or hold lines that cannot be read.
        days: Days that have to record it, with or without points. A unit is made only where something is missing.
        dialect: The dialect that was spoken, "" = not known.
    """

    cursor_ms: int | None = None
    complete_span: tuple[int, int] = (0, 0)
    missing_spans: _Spans = ()
    read_files: frozenset[str] = frozenset()
    cut_files: frozenset[str] = frozenset()
    days: frozenset[date] = frozenset()
    dialect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoints:
    """What became of points.

    Attributes:
        new: Points by day that were not there.
        counts: Points that were there already, and those that contradict.
    """

    new: Mapping[date, int] = field(default_factory=dict[date, int])
    counts: DropCounts = field(default_factory=DropCounts)


def cursor(manifests: Iterable[Manifest]) -> int | None:
    """Up to where a cluster was fetched without a hole; ``None`` = it never was."""
    cursors = [int(manifest.inputs[CURSOR]) for manifest in manifests if CURSOR in manifest.inputs]
    return max(cursors, default=None)


def last_dialect(manifests: Iterable[Manifest]) -> str:
    """The dialect in which a cluster was read last; "" = it never was."""
    dialects_by_day = [
        (manifest.unit.day, manifest.inputs[DIALECT])
        for manifest in manifests
        if DIALECT in manifest.inputs
    ]
    return max(dialects_by_day, default=(None, ""))[1]


def keep(lake: Lake, cluster_id: str, points: pa.Table, reading: PointSource) -> StoredPoints:
    """Merges points into the units of their days, oldest first.

    The same point again changes nothing. Another value for the same moment is counted, and the larger stays: so the
    order of deliveries does not matter.

    Args:
        lake: Where to.
        cluster_id: Of which cluster.
        points: Rows of ``point`` of that cluster, of any days.
        reading: How they were come by.

    Raises:
        LakeConflict: Others were quicker again and again.
        LakeError: The lake cannot be read or written.
    """
    new: dict[date, int] = {}
    counts = DropCounts()
    parts = split(points)
    for day in sorted(parts.keys() | reading.days):
        unit = Unit(table=POINT, cluster_id=cluster_id, day=day)
        added, doubles = _merge(lake, unit, parts.get(day, points.slice(0, 0)), reading)
        counts.merge(doubles)
        if day in parts:
            new[day] = added
    return StoredPoints(new=new, counts=counts)


def _merge(lake: Lake, unit: Unit, rows: pa.Table, reading: PointSource) -> tuple[int, DropCounts]:
    added, counts = 0, DropCounts()

    def make(after: Manifest | None) -> UnitContent:
        nonlocal added, counts
        counts, added = DropCounts(), 0
        inputs = _inputs(after, unit.day, reading)
        if after is None:
            inputs[BEGAN] = lake.new_name()
        if not rows.num_rows and not _has_news(after, inputs):
            raise NoNewRowsError
        if after is not None and not rows.num_rows:
            return _content_with_inputs(after, inputs)
        existing_rows = lake.read([after] if after else [], table=POINT)
        merged_rows = merged([existing_rows, rows], counts)
        added = merged_rows.num_rows - existing_rows.num_rows
        inputs = regained(inputs, merged_rows.num_rows)
        is_same = not added and _is_same(merged_rows, existing_rows)
        if is_same and not _has_news(after, inputs):
            raise NoNewRowsError
        if after is not None and is_same:
            return _content_with_inputs(after, inputs)
        return UnitContent(
            rows=merged_rows,
            counts=counts.by_name(),
            inputs=inputs,
            partial=_sentences(inputs),
        )

    try:
        _ = lake.update(unit, make)
    except NoNewRowsError:
        return 0, counts
    return added, counts


def _has_news(after: Manifest | None, inputs: Mapping[str, str]) -> bool:
    """Whether a unit without new points has something to record."""
    return inputs != dict(after.inputs) if after else bool(_sentences(inputs))


def _content_with_inputs(after: Manifest, inputs: Mapping[str, str]) -> UnitContent:
    """The same points, of which something else is known now."""
    return UnitContent(
        files=after.files, counts=after.counts, inputs=inputs, partial=_sentences(inputs)
    )


def _is_same(first: pa.Table, second: pa.Table) -> bool:
    """Whether the values of two tables with the same keys agree; not a number agrees with itself."""
    first_values, its = first["value"].combine_chunks(), second["value"].combine_chunks()
    agree = pc.or_(pc.equal(first_values, its), pc.and_(pc.is_nan(first_values), pc.is_nan(its)))
    return bool(pc.all(agree).as_py() in {True, None})


def _inputs(after: Manifest | None, day: date, reading: PointSource) -> dict[str, str]:
    old = dict(after.inputs) if after else {}
    begin = start_of(day)
    if reading.cursor_ms is not None:
        # A run that dies before the next day must not claim to have fetched it.
        reached = min(reading.cursor_ms, begin + DAY_MS)
        old[CURSOR] = str(max(reached, int(old.get(CURSOR, 0))))
    if reading.dialect:
        old[DIALECT] = reading.dialect
    missing_spans: _Spans = tuple(
        (begin_, end)
        for begin_, end in bounded_json.parse(
            old.pop(MISSING, "[]"), most_bytes=bounded_json.ANSWER
        )
    )
    missing = [
        (max(span_begin, begin), min(end, begin + DAY_MS))
        for span_begin, end in (
            *without(missing_spans, reading.complete_span),
            *reading.missing_spans,
        )
        if span_begin < begin + DAY_MS and end > begin
    ]
    cut = (
        set(bounded_json.parse(old.pop(CUT, "[]"), most_bytes=bounded_json.ANSWER))
        - reading.read_files
    ) | reading.cut_files
    return (
        old
        | ({MISSING: json.dumps(sorted(set(missing)))} if missing else {})
        | ({CUT: json.dumps(sorted(cut))} if cut else {})
    )


def content(manifest: Manifest | None) -> str:
    """A short name of what a unit of points holds; "" = there is none. Generations that only say more have the same."""
    if manifest is None:
        return ""
    digest_input = json.dumps([[file.sha256 for file in manifest.files], manifest.partial])
    return hashlib.sha256(digest_input.encode()).hexdigest()[:16]


def without(spans: Iterable[tuple[int, int]], complete_span: tuple[int, int]) -> _Spans:
    """The parts of some spans that lie outside of another."""
    begin, end = complete_span
    remaining_spans: list[tuple[int, int]] = []
    for span_begin, span_end in spans:
        remaining_spans += (
            [
                part
                for part in ((span_begin, min(span_end, begin)), (max(span_begin, end), span_end))
                if part[0] < part[1]
            ]
            if begin < end
            else [(span_begin, span_end)]
        )
    return tuple(remaining_spans)


def _sentences(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """What is missing, for people."""
    spans = [
        f"between {instant(begin / 1000)} and {instant(end / 1000)} the server did not give all that it has"
        for begin, end in bounded_json.parse(
            inputs.get(MISSING, "[]"), most_bytes=bounded_json.ANSWER
        )
    ]
    return (
        *spans,
        *(
            f"the file {name} was not read whole"
            for name in bounded_json.parse(inputs.get(CUT, "[]"), most_bytes=bounded_json.ANSWER)
        ),
        *sentences(inputs),
    )


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
