"""Points of a cluster: collected from recorded series with their meaning, target and replica; one row per point."""

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.cluster_sources import (
    ClusterMatcher,
    ClusterSource,
    SampleOrigin,
    ScrapeTarget,
    broker_id,
)
from reconciler.evidence.ingest.dialect import Dialect, SeriesNames
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.store.files import row_codes
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import Measure

REPLICA_LABELS: Final = ("prometheus_replica", "__replica__", "replica")
"""Labels that distinguish Prometheus replicas of the same targets; the first one that a series has is used."""

AHEAD_MS: Final = 300_000
"""How far the clock of a source may be ahead of the local clock."""

EARLIEST_MS: Final = 1_262_304_000_000
"""2010: before Kafka had recorded metrics, and later than seconds that were taken for milliseconds (1970)."""

_ABOUT_SOFTWARE: Final = frozenset({"version", "commit_id", "commitId", "commitid", "commit"})
"""Labels of app-info with the software version: its value is then 1, as in every info metric, and not a broker id."""


_SCHEMA: Final = pa.schema([("series", pa.int64()), ("ts_ms", pa.int64()), ("value", pa.float64())])


class RecordedSeries(NamedTuple):
    """One recorded series, or a part of it."""

    name: str  # name of the metric; `__name__` is not in `labels`
    labels: Mapping[str, str]  # as recorded; an absent label equals an empty one
    times: "array[int]"  # milliseconds since the epoch, in the order of reading
    values: "array[float]"  # one per time

    @classmethod
    def of(
        cls, name: str, labels: Mapping[str, str], points: Iterable[tuple[int, float]] = ()
    ) -> "RecordedSeries":
        """Return a series of points, as pairs of time and value."""
        series = cls(name, labels, array("q"), array("d"))
        for at, value in points:
            series.append(at, value)
        return series

    @property
    def points(self) -> list[tuple[int, float]]:
        """The points as pairs of time and value."""
        return list(zip(self.times, self.values, strict=True))

    def append(self, at: int, value: float) -> None:
        """Append a point."""
        self.times.append(at)
        self.values.append(value)

    def label(self, name: str) -> str:
        """Return the value of a label; "" if absent."""
        return self.labels.get(name, "")

    def within(self, from_ms: int, to_ms: int) -> "RecordedSeries":
        """Return the series with its points of a time range, the end excluded."""
        if not self.times or (from_ms <= min(self.times) and max(self.times) < to_ms):
            return self
        points = (point for point in self.points if from_ms <= point[0] < to_ms)
        return RecordedSeries.of(self.name, self.labels, points)


def number_of(text: str) -> float | None:
    """Parse a number as Prometheus writes it, including ``NaN``, ``+Inf`` and ``-Inf``; ``None`` if invalid."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def milliseconds(seconds: float) -> int | None:
    """Convert seconds since the epoch to milliseconds; ``None`` if it does not fit 64 bits."""
    try:
        rounded_ms = round(seconds * 1000)
    except (ValueError, OverflowError):
        return None
    return rounded_ms if abs(rounded_ms) < 2**62 else None


class PointSeries(NamedTuple):
    """A series of points."""

    names: SeriesNames
    origin: SampleOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points of one cluster."""

    series: tuple[PointSeries, ...] = ()  # the series that have points, sorted
    # Columns `series` (an index), `ts_ms` and `value`; no series has two points of one time.
    rows: pa.Table

    @classmethod
    def of(cls, series: Iterable[PointSeries], rows: pa.Table) -> "Points":
        """Return points of which series may be in any order or without points."""
        present = row_codes.combine_column(pc.unique(rows["series"]))
        every = tuple(series)
        order = sorted(present.to_pylist(), key=every.__getitem__)
        index = pc.index_in(rows["series"], value_set=row_codes.integers(order))
        rows = rows.set_column(0, "series", index.cast(pa.int64())).cast(_SCHEMA)
        return cls(series=tuple(every[number] for number in order), rows=rows)

    @classmethod
    def none(cls) -> "Points":
        """Return no points."""
        return cls(rows=_SCHEMA.empty_table())

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self.rows.num_rows)

    def between(self, begin_ms: int, end_ms: int) -> "Points":
        """Return the points of a time range, the end excluded."""
        ts = self.rows["ts_ms"]
        is_within = pc.and_(pc.greater_equal(ts, begin_ms), pc.less(ts, end_ms))
        return Points.of(self.series, self.rows.filter(is_within))

    def days(self) -> list[int]:
        """Return the days with points, since the epoch."""
        return sorted(pc.unique(pc.divide(self.rows["ts_ms"], DAY_MS)).to_pylist())

    def digest(self) -> str:
        """Return a short digest of series and points."""
        content = hashlib.sha256(repr(self.series).encode())
        for column in self.rows.columns:
            content.update(row_codes.combine_column(column).to_numpy(zero_copy_only=False))
        return content.hexdigest()[:16]


class PointCollector:
    """Collects series and returns the points of each cluster.

    The whole scrape target of a point is kept, including the job (:class:`ScrapeTarget`): one instance may be a host
    with other exporters, or a federation endpoint of several brokers.

    If ``telemetry.brokerId`` is set and gives an id, the id is part of the target, and app-info is not needed. Otherwise
    only app-info identifies the broker.

    Args:
        clusters: Clusters whose series are accepted.
        dialect: The dialect of the series.
        read_ms: Time of reading; points more than :data:`AHEAD_MS` later are dropped.
    """

    def __init__(self, clusters: ClusterMatcher, dialect: Dialect, *, read_ms: int) -> None:
        self.counts = DropCounts()
        self._clusters = clusters
        self._dialect = dialect
        self._latest_ms = read_ms + AHEAD_MS
        self._series: dict[tuple[str, PointSeries], int] = {}
        self._numbers, self._times, self._values = array("q"), array("q"), array("d")

    def add(self, series: RecordedSeries) -> None:
        """Collect a series, or count the reason why it is dropped."""
        self.counts.add(DropReason.SERIES)
        reason = self._add(series)
        if reason is not None:
            self.counts.add(reason)

    def _add(self, series: RecordedSeries) -> DropReason | None:
        meaning = self._dialect.meaning(series.name, series.labels)
        if isinstance(meaning, DropReason):
            return meaning
        source = self._clusters.of(series.labels)
        if isinstance(source, DropReason):
            return source
        names, identity = meaning
        target = _target(source, series)
        replica = next((value for name in REPLICA_LABELS if (value := series.label(name))), "")
        if not _is_text(names.user, names.client_id, *target, replica):
            return DropReason.NOT_TEXT
        times = pa.array(series.times, pa.int64())
        older = row_codes.count(pc.less(times, row_codes.shifted(times)))
        self.counts.add(DropReason.TIME_BACKWARDS, older)
        if not target.instance:
            return DropReason.NO_INSTANCE
        values = series.values
        if names.measure is Measure.BROKER_ID:
            if identity:
                values = array("d", [float(identity)]) * len(values)
            elif any(map(_is_no_id, values)) or _ABOUT_SOFTWARE & series.labels.keys():
                return DropReason.BAD_BROKER_ID
            if target.broker:
                is_same = all(value == float(target.broker) for value in values)
                self.counts.add(
                    DropReason.APP_INFO_UNUSED if is_same else DropReason.BROKER_CONFLICT
                )
                # The target has more than `up`.
                values = array("d", [float(target.broker)]) * len(values)
        key = source.cluster_id, PointSeries(names, SampleOrigin(target, replica))
        number = self._series.setdefault(key, len(self._series))
        self._numbers.extend(array("q", [number]) * len(values))
        self._times.extend(series.times)
        self._values.extend(values)
        return None

    def points(self) -> dict[str, Points]:
        """Return the points of each cluster id, sorted by series and time, and clear the collected points.

        Duplicates are dropped and counted; if their values differ, the largest is kept.
        """
        every = sorted(self._series)
        places = {key: place for place, key in enumerate(every)}
        numbers = row_codes.integers([places[key] for key in self._series]).take(
            pa.array(self._numbers, pa.int64())
        )
        columns = [numbers, pa.array(self._times, pa.int64()), pa.array(self._values, pa.float64())]
        rows = once(self._in_time(pa.table(columns, schema=_SCHEMA)), self.counts)
        self.counts.add(DropReason.POINTS, rows.num_rows)
        self._series = {}
        self._numbers, self._times, self._values = array("q"), array("q"), array("d")
        own_places: dict[str, list[int]] = {}
        for place, (cluster_id, _) in enumerate(every):
            own_places.setdefault(cluster_id, []).append(place)
        points_by_cluster: dict[str, Points] = {}
        for cluster_id, own in own_places.items():
            own_rows = rows.filter(pc.is_in(rows["series"], value_set=row_codes.integers(own)))
            if own_rows.num_rows:
                points_by_cluster[cluster_id] = Points.of((of for _, of in every), own_rows)
        return points_by_cluster

    def _in_time(self, rows: pa.Table) -> pa.Table:
        is_ahead = pc.greater(rows["ts_ms"], self._latest_ms)
        early = pc.less(rows["ts_ms"], EARLIEST_MS)
        self.counts.add(DropReason.CLOCK_AHEAD, row_codes.count(is_ahead))
        self.counts.add(DropReason.NOT_A_TIME, row_codes.count(early))
        return rows.filter(pc.invert(pc.or_(is_ahead, early)))


def _target(source: ClusterSource, series: RecordedSeries) -> ScrapeTarget:
    broker_name = None if source.broker_rule is None else source.broker_rule.of(series.labels)
    instance = series.label("instance") or (f"broker {broker_name}" if broker_name else "")
    return ScrapeTarget(instance, series.label("job"), broker_name or "")


def _is_text(*parts: str) -> bool:
    """Whether the strings are valid Unicode; JSON can contain unpaired surrogates, which are not."""
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_no_id(value: float) -> bool:
    return not (value >= 0 and value.is_integer() and broker_id(str(int(value))))


_ORDER: Final = [("series", "ascending"), ("ts_ms", "ascending"), ("value", "descending")]


def once(rows: pa.Table, counts: DropCounts) -> pa.Table:
    """Return points sorted by series and time, of equal times the largest value."""
    rows = rows.take(pc.sort_indices(rows, sort_keys=_ORDER)).combine_chunks()
    series, ts, value = (row_codes.combine_column(column) for column in rows.columns)
    double = row_codes.sure(
        pc.and_(pc.equal(series, row_codes.shifted(series)), pc.equal(ts, row_codes.shifted(ts)))
    )
    before = row_codes.shifted(value)
    is_same = pc.or_(pc.equal(value, before), pc.and_(pc.is_nan(value), pc.is_nan(before)))
    repeated = row_codes.count(pc.and_(double, is_same))
    counts.add(DropReason.DUPLICATES, repeated)
    counts.add(DropReason.CONTRADICTIONS, row_codes.count(double) - repeated)
    return rows.filter(pc.invert(double))
