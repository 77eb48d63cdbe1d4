"""Points of a cluster: collected from recorded series with their meaning, target and replica; one row per point."""

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest import row_codes
from reconciler.evidence.ingest.cluster_sources import (
    ClusterMatcher,
    ClusterSource,
    SampleOrigin,
    ScrapeTarget,
    broker_id,
)
from reconciler.evidence.ingest.dialect import ABOUT_QUOTAS, Dialect, SeriesMeaning
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.recorded_series import RecordedSeries
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


class SeriesNames(NamedTuple):
    """What a series measures, with decoded names: one for all origins of a broker."""

    measure: Measure
    quota_type: str = ""  # "" for metrics of a broker
    user: str = ""
    client_id: str = ""
    ip: str = ""


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
        return cls(
            series=tuple(every[number] for number in order),
            rows=rows.set_column(0, "series", index.cast(pa.int64())).cast(_SCHEMA),
        )

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

    def followed_by(self, later: "Points") -> "Points":
        """Return these points and later ones."""
        shifted = pc.add(later.rows["series"], len(self.series))
        rows = pa.concat_tables([self.rows, later.rows.set_column(0, "series", shifted)])
        every = (*self.series, *later.series)
        first = {series: at for at, series in reversed(tuple(enumerate(every)))}
        index = row_codes.integers([first[series] for series in every])
        return Points.of(every, rows.set_column(0, "series", index.take(rows["series"])))

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
        self._points: dict[str, _ClusterPoints] = {}

    def add(self, series: RecordedSeries) -> None:
        """Collect a series, or count the reason why it is dropped."""
        self.counts.add(DropReason.SERIES)
        meaning = self._dialect.meaning(series.name, series.labels)
        if isinstance(meaning, DropReason):
            self.counts.add(meaning)
            return
        source = self._clusters.of(series.labels)
        if isinstance(source, DropReason):
            self.counts.add(source)
            return
        target = _target(source, series)
        replica = next((value for name in REPLICA_LABELS if (value := series.label(name))), "")
        if not _is_text(meaning.user, meaning.client_id, *target, replica):
            self.counts.add(DropReason.NOT_TEXT)
            return
        self.counts.add(DropReason.TIME_BACKWARDS, _backwards(series.times))
        if not target.instance:
            self.counts.add(DropReason.NO_INSTANCE)
            return
        cluster_points = self._points.setdefault(source.cluster_id, _ClusterPoints())
        values = series.values
        if meaning.measure is Measure.BROKER_ID:
            identity = self._identity(target, meaning, series)
            if identity is None:
                return
            values = identity
        elif meaning.factor != 1.0:
            values = array("d", (value * meaning.factor for value in values))
        origin = SampleOrigin(target, replica)
        cluster_points.add(PointSeries(_names(meaning), origin), series.times, values)

    def points(self) -> dict[str, Points]:
        """Return the points of each cluster id, sorted by series and time, and clear the collected points.

        Duplicates are dropped and counted; if their values differ, the largest is kept.
        """
        collected, self._points = self._points, {}
        points_by_cluster: dict[str, Points] = {}
        for cluster_id, cluster_points in sorted(collected.items()):
            rows = self._in_time(cluster_points.table())
            points = once(Points.of(cluster_points.series, rows), self.counts)
            self.counts.add(DropReason.POINTS, len(points))
            if len(points):
                points_by_cluster[cluster_id] = points
        return points_by_cluster

    def _in_time(self, rows: pa.Table) -> pa.Table:
        is_ahead = pc.greater(rows["ts_ms"], self._latest_ms)
        early = pc.less(rows["ts_ms"], EARLIEST_MS)
        self.counts.add(DropReason.CLOCK_AHEAD, row_codes.count(is_ahead))
        self.counts.add(DropReason.NOT_A_TIME, row_codes.count(early))
        return rows.filter(pc.invert(pc.or_(is_ahead, early)))

    def _identity(
        self, target: ScrapeTarget, meaning: SeriesMeaning, series: RecordedSeries
    ) -> "array[float] | None":
        """Return the broker ids of an app-info series; ``None`` if they are not used."""
        values = series.values
        if meaning.broker_id:
            values = array("d", [float(meaning.broker_id)]) * len(values)
        elif (
            any(_id_of(value) is None for value in values) or _ABOUT_SOFTWARE & series.labels.keys()
        ):
            self.counts.add(DropReason.BAD_BROKER_ID)
            return None
        if not target.broker:
            return values
        is_same_broker = all(_id_of(value) == target.broker for value in values)
        self.counts.add(
            DropReason.APP_INFO_UNUSED if is_same_broker else DropReason.BROKER_CONFLICT
        )
        return array("d", [float(target.broker)]) * len(values)  # the target has more than `up`


class _ClusterPoints:
    """Growing columns of the points of a cluster."""

    def __init__(self) -> None:
        self.series: dict[PointSeries, int] = {}
        self._numbers, self._times, self._values = array("q"), array("q"), array("d")

    def add(self, series: PointSeries, times: "array[int]", values: "array[float]") -> None:
        number = self.series.setdefault(series, len(self.series))
        self._numbers.extend(array("q", [number]) * len(times))
        self._times.extend(times)
        self._values.extend(values)

    def table(self) -> pa.Table:
        return pa.table(
            {
                "series": pa.array(self._numbers, pa.int64()),
                "ts_ms": pa.array(self._times, pa.int64()),
                "value": pa.array(self._values, pa.float64()),
            }
        )


def _names(meaning: SeriesMeaning) -> SeriesNames:
    return SeriesNames(
        meaning.measure, meaning.quota_type, meaning.user, meaning.client_id, meaning.ip
    )


def _backwards(times: "array[int]") -> int:
    """Return the number of points that are older than the point before them."""
    column = pa.array(times, pa.int64())
    return row_codes.count(pc.less(column, row_codes.shifted(column)))


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


def _id_of(value: float) -> str | None:
    return broker_id(str(int(value))) if value >= 0 and value.is_integer() else None


def seen_labels(series: Iterable[Mapping[str, str]], dialect: Dialect) -> list[Mapping[str, str]]:
    """Return the label sets (with ``__name__``) about quotas, for :meth:`ClusterMatcher.check`."""
    label_sets = []
    for labels in series:
        meaning = dialect.meaning(labels.get("__name__", ""), labels)
        if isinstance(meaning, SeriesMeaning) and meaning.measure in ABOUT_QUOTAS:
            label_sets.append(labels)
    return label_sets


_ORDER: Final = [("series", "ascending"), ("ts_ms", "ascending"), ("value", "descending")]


def once(points: Points, counts: DropCounts) -> Points:
    """Return points sorted by series and time, of equal times the largest value."""
    rows = points.rows.take(pc.sort_indices(points.rows, sort_keys=_ORDER)).combine_chunks()
    series, ts, value = (row_codes.combine_column(column) for column in rows.columns)
    double = row_codes.sure(
        pc.and_(pc.equal(series, row_codes.shifted(series)), pc.equal(ts, row_codes.shifted(ts)))
    )
    doubles = row_codes.count(double)
    if not doubles:
        return replace(points, rows=rows)
    before = row_codes.shifted(value)
    is_same = pc.or_(pc.equal(value, before), pc.and_(pc.is_nan(value), pc.is_nan(before)))
    repeated = row_codes.count(pc.and_(double, is_same))
    counts.add(DropReason.DUPLICATES, repeated)
    counts.add(DropReason.CONTRADICTIONS, doubles - repeated)
    return replace(points, rows=rows.filter(pc.invert(double)))
