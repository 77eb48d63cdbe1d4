"""Converts series to rows of ``point``: cluster, meaning and replica; drops duplicates and points with wrong times."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.dialects.cluster_sources import (
    ClusterMatcher,
    ClusterSource,
    ScrapeTarget,
    broker_id,
)
from reconciler.evidence.ingest.dialects.definitions import (
    ABOUT_QUOTAS,
    Dialect,
    SeriesMeaning,
)
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import (
    PointArray,
    RecordedSeries,
)
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import POINT, Measure

REPLICA_LABELS: Final = ("prometheus_replica", "__replica__", "replica")
"""Labels that distinguish Prometheus replicas of the same targets; the first one that a series has is used."""

AHEAD_MS: Final = 300_000
"""How far the clock of a source may be ahead of the local clock."""

EARLIEST_MS: Final = 1_262_304_000_000
"""2010: before Kafka had recorded metrics, and later than seconds that were taken for milliseconds (1970)."""

SLOT_MS: Final = 300_000
"""With ``telemetry.brokerId`` set, each scrape target gets one ``BROKER_ID`` row per this many milliseconds."""

_ABOUT_SOFTWARE: Final = frozenset({"version", "commit_id", "commitId", "commitid", "commit"})
"""Labels of app-info with the software version: its value is then 1, as in every info metric, and not a broker id."""

_KEYS: Final = tuple(name for name in POINT.names if name not in {"ts_ms", "value", "day"})
_Key = tuple[str, ...]
_PLACES: Final = tuple(_KEYS.index(name) for name in POINT.key if name != "ts_ms")


class PointCollector:
    """Collects series and returns the point rows of each cluster.

    The whole scrape target of a point is kept, including the job (:class:`ScrapeTarget`): one instance may be a host
    with other exporters, or a federation endpoint of several brokers.

    If ``telemetry.brokerId`` is set and gives an id, the id is part of the target and rows of :attr:`Measure.BROKER_ID`
    are created from it; app-info is not needed. Otherwise only app-info identifies the broker.

    Args:
        clusters: Clusters whose series are accepted.
        dialect: The dialect of the series.
        read_ms: Time of reading; points more than :data:`AHEAD_MS` later are dropped.
    """

    def __init__(
        self,
        clusters: ClusterMatcher,
        dialect: Dialect,
        *,
        read_ms: int,
    ) -> None:
        self.counts = DropCounts()
        self._clusters = clusters
        self._dialect = dialect
        self._latest_ms = read_ms + AHEAD_MS
        self._keys: dict[_Key, int] = {}
        self._rows = _PointColumns()
        self._slots: set[tuple[int, int]] = set()

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
        if not _is_text(meaning.user, meaning.client_id, target.text, self._replica(series)):
            self.counts.add(DropReason.NOT_TEXT)
            return
        points = PointArray.of(series.points)
        self.counts.add(DropReason.TIME_BACKWARDS, _backwards(points))
        if not target.instance:
            self.counts.add(DropReason.NO_INSTANCE)
            return
        if meaning.measure is Measure.BROKER_ID:
            self._identity(source, target, meaning, series)
            return
        if meaning.measure is not Measure.UP:
            self._say_broker(source, target, points)
        values = points.values
        if meaning.factor != 1.0:
            values = array("d", (value * meaning.factor for value in values))
        replica = self._replica(series)
        self._rows.add(self._key(source, target, replica, meaning), points.times, values)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows of each cluster id, sorted by the table's key, and clear the collected points.

        Duplicates are dropped and counted; if their values differ, the largest is kept.
        """
        keys = sorted(self._keys, key=_in_order)
        rank = {self._keys[key]: at for at, key in enumerate(keys)}
        rows = self._in_time(self._rows.table())
        self._rows, self._keys, self._slots = _PointColumns(), {}, set()
        ranks = pa.array([rank[at] for at in range(len(keys))], pa.int64())
        rows = rows.append_column("code", ranks.take(rows["key"]))
        rows = once(rows, self.counts)
        self.counts.add(DropReason.POINTS, rows.num_rows)
        names = [pa.array([key[at] for key in keys], pa.string()) for at in range(len(_KEYS))]
        key_rows = pa.table(names, names=list(_KEYS)).take(rows["code"])
        for name in ("ts_ms", "value"):
            key_rows = key_rows.append_column(name, rows[name])
        cluster_ids = sorted({key[0] for key in keys})
        parts = {
            cluster_id: key_rows.filter(pc.equal(key_rows["cluster_id"], cluster_id))
            for cluster_id in cluster_ids
        }
        return {cluster_id: finished(part) for cluster_id, part in parts.items() if part.num_rows}

    def _in_time(self, rows: pa.Table) -> pa.Table:
        is_ahead = pc.greater(rows["ts_ms"], self._latest_ms)
        early = pc.less(rows["ts_ms"], EARLIEST_MS)
        self.counts.add(DropReason.CLOCK_AHEAD, row_codes.count(is_ahead))
        self.counts.add(DropReason.NOT_A_TIME, row_codes.count(early))
        return rows.filter(pc.invert(pc.or_(is_ahead, early)))

    def _replica(self, series: RecordedSeries) -> str:
        return next((replica for name in REPLICA_LABELS if (replica := series.label(name))), "")

    def _key(
        self, source: ClusterSource, target: ScrapeTarget, replica: str, meaning: SeriesMeaning
    ) -> int:
        key = (
            source.cluster_id,
            target.text,
            replica,
            meaning.measure.value,
            meaning.quota_type,
            meaning.user,
            meaning.client_id,
            meaning.ip,
        )
        return self._keys.setdefault(key, len(self._keys))

    def _say_broker(self, source: ClusterSource, target: ScrapeTarget, points: PointArray) -> None:
        """Add rows with a target's id by ``telemetry.brokerId``; they also show that it has more than `up`."""
        if not target.broker:
            return
        key = self._key(source, target, "", SeriesMeaning(measure=Measure.BROKER_ID))
        slots = {(key, at - at % SLOT_MS) for at in points.times} - self._slots
        self._slots |= slots
        times = array("q", (at for _, at in sorted(slots)))
        self._rows.add(key, times, array("d", [float(target.broker)]) * len(times))

    def _identity(
        self,
        source: ClusterSource,
        target: ScrapeTarget,
        meaning: SeriesMeaning,
        series: RecordedSeries,
    ) -> None:
        points = PointArray.of(series.points)
        values = points.values
        self._say_broker(source, target, points)
        if meaning.broker_id:
            values = array("d", [float(meaning.broker_id)]) * len(points)
        elif (
            any(_id_of(value) is None for value in values) or _ABOUT_SOFTWARE & series.labels.keys()
        ):
            self.counts.add(DropReason.BAD_BROKER_ID)
            return
        if target.broker:
            is_same_broker = all(_id_of(value) == target.broker for value in values)
            self.counts.add(
                DropReason.APP_INFO_UNUSED if is_same_broker else DropReason.BROKER_CONFLICT
            )
            return
        replica = self._replica(series)
        self._rows.add(self._key(source, target, replica, meaning), points.times, values)


class _PointColumns:
    """Growing columns: key, time, value."""

    def __init__(self) -> None:
        self._key, self._ts, self._value = array("i"), array("q"), array("d")

    def add(self, key: int, times: "array[int]", values: "array[float]") -> None:
        self._key.extend(array("i", [key]) * len(times))
        self._ts.extend(times)
        self._value.extend(values)

    def table(self) -> pa.Table:
        return pa.table(
            {
                "key": pa.array(self._key, pa.int32()),
                "ts_ms": pa.array(self._ts, pa.int64()),
                "value": pa.array(self._value, pa.float64()),
            }
        )


def _backwards(points: PointArray) -> int:
    """Return the number of points that are older than the point before them."""
    if len(points) < 2:
        return 0
    times = pa.array(points.times, pa.int64())
    return row_codes.count(pc.less(times.slice(1), times.slice(0, len(times) - 1)))


def _target(source: ClusterSource, series: RecordedSeries) -> ScrapeTarget:
    broker_name = None if source.broker_rule is None else source.broker_rule.of(series.labels)
    instance = series.label("instance") or (f"broker {broker_name}" if broker_name else "")
    return ScrapeTarget(instance, series.label("job"), broker_name or "")


def _in_order(key: _Key) -> _Key:
    return tuple(key[at] for at in _PLACES)


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


_ORDER: Final = [("code", "ascending"), ("ts_ms", "ascending"), ("value", "descending")]


def once(rows: pa.Table, counts: DropCounts) -> pa.Table:
    """Return rows sorted by ``code`` and time, without duplicates; ``code`` represents the rest of the key."""
    rows = rows.take(pc.sort_indices(rows, sort_keys=_ORDER)).combine_chunks()
    if rows.num_rows < 2:
        return rows
    current, before = rows.slice(1), rows.slice(0, rows.num_rows - 1)
    double = pc.and_(
        pc.equal(current["code"], before["code"]), pc.equal(current["ts_ms"], before["ts_ms"])
    )
    doubles = row_codes.count(double)
    if not doubles:
        return rows
    is_same_key = pc.or_(
        pc.equal(current["value"], before["value"]),
        pc.and_(pc.is_nan(current["value"]), pc.is_nan(before["value"])),
    )
    repeated = row_codes.count(pc.and_(double, is_same_key))
    counts.add(DropReason.DUPLICATES, repeated)
    counts.add(DropReason.CONTRADICTIONS, doubles - repeated)
    keep = pa.chunked_array([[True], *pc.invert(double).chunks], pa.bool_())
    return rows.filter(keep)


def finished(rows: pa.Table) -> pa.Table:
    """Return rows with their day and exactly the columns of ``point``."""
    day = pc.cast(rows["ts_ms"], pa.timestamp("ms", "UTC")).cast(pa.date32())
    return arrow_tables.conformed(POINT, rows.append_column("day", day).select(list(POINT.names)))
