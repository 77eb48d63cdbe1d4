"""Series become points of one cluster: decoded, ordered by time, without duplicates."""

import math
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest import cluster_sources, dialect_tables
from reconciler.evidence.ingest.cluster_sources import (
    BrokerIdRule,
    ClusterMatcher,
    ClusterSource,
    ScrapeTarget,
)
from reconciler.evidence.ingest.dialect import SeriesNames
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import AHEAD_MS, PointCollector, Points, RecordedSeries
from reconciler.usage.tables import Measure

NOW = 1_700_000_000_000
KQUOTA = dialect_tables.shipped().get("kquota")
RATE = "kafka_server_client_quota_byte_rate"


def new_collector(rule: str = "", **named: str) -> PointCollector:
    sources = [
        ClusterSource(
            cluster=name,
            cluster_id=name.upper(),
            matchers=cluster_sources.parsed_matchers(text),
            broker_rule=BrokerIdRule.parsed(rule) if rule else None,
        )
        for name, text in (named or {"a": ""}).items()
    ]
    return PointCollector(ClusterMatcher(sources), KQUOTA, read_ms=NOW)


def series(*points: tuple[int, float], name: str = RATE, **labels: str) -> RecordedSeries:
    base = {"type": "produce", "instance": "b1:1"} if name == RATE else {"instance": "b1:1"}
    return RecordedSeries.of(name, base | labels, points)


class Row(NamedTuple):
    """A point with its series."""

    names: SeriesNames
    target: ScrapeTarget
    replica: str
    ts_ms: int
    value: float


def rows(points: Points) -> list[Row]:
    columns = (column.to_pylist() for column in points.rows)
    samples = ((points.series[at], ts, value) for at, ts, value in zip(*columns, strict=True))
    return [
        Row(series.names, series.origin.target, series.origin.replica, ts, value)
        for series, ts, value in samples
    ]


def values(points: Points, measure: Measure) -> list[tuple[ScrapeTarget, float]]:
    return [(row.target, row.value) for row in rows(points) if row.names.measure is measure]


def test_a_point_belongs_to_a_series_with_decoded_names_and_its_origin() -> None:
    collector = new_collector()
    collector.add(
        series((NOW - 1, 2.5), user="al%20ice", client_id='"a,b"', prometheus_replica="r1")
    )
    names = SeriesNames(Measure.RATE, "produce", "al ice", "a,b", "")
    assert rows(collector.points()["A"]) == [Row(names, ScrapeTarget("b1:1"), "r1", NOW - 1, 2.5)]
    assert dict(collector.counts) == {DropReason.SERIES: 1, DropReason.POINTS: 1}


def test_each_cluster_receives_its_own_series_and_foreign_ones_are_counted() -> None:
    collector = new_collector(a='cluster="a"', b='cluster=~"b|x"', c='cluster="x"')
    for cluster in ("a", "b", "x", "z"):
        collector.add(series((NOW, 1.0), cluster=cluster))
    points = collector.points()
    assert {cluster_id: len(own) for cluster_id, own in points.items()} == {"A": 1, "B": 1}
    assert (
        collector.counts[DropReason.TWO_CLUSTERS] == collector.counts[DropReason.OTHER_CLUSTER] == 1
    )


def test_points_from_the_future_and_from_1970_are_refused() -> None:
    collector = new_collector()
    ahead = NOW + AHEAD_MS
    collector.add(series((NOW // 1000, 1.0), (NOW, 2.0), (ahead, 3.0), (ahead + 1, 4.0)))
    assert [row.value for row in rows(collector.points()["A"])] == [2.0, 3.0]
    assert collector.counts[DropReason.CLOCK_AHEAD] == collector.counts[DropReason.NOT_A_TIME] == 1


def test_replicas_are_distinguished_by_the_first_label_that_names_one() -> None:
    collector = new_collector()
    for labels in (
        {"replica": "x"},
        {"__replica__": "y", "replica": "x"},
        {"prometheus_replica": "z"},
        {},
    ):
        collector.add(series((NOW, 1.0), **labels))
    assert [row.replica for row in rows(collector.points()["A"])] == ["", "x", "y", "z"]


def test_repeated_points_are_counted_and_the_larger_of_different_values_is_kept() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), (NOW, 1.0), (NOW, 3.0), (NOW, 2.0), (NOW - 1, math.nan)))
    collector.add(series((NOW - 1, math.nan), (NOW - 2, 5.0)))
    first, second, third = rows(collector.points()["A"])
    assert first[3:] == (NOW - 2, 5.0)
    assert math.isnan(second.value)
    assert third[3:] == (NOW, 3.0)
    assert (
        collector.counts[DropReason.DUPLICATES],
        collector.counts[DropReason.CONTRADICTIONS],
    ) == (2, 2)


def test_a_series_that_the_dialect_refuses_is_counted_under_its_drop_reason() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), user="%zz"))
    collector.add(series((NOW, 1.0), name="go_threads"))
    collector.add(RecordedSeries.of(RATE, {"type": "fetch"}, [(NOW, 1.0)]))
    collector.add(series((NOW, 1.0), type="fetch", instance="\ud800"))
    assert dict(collector.counts) == {
        DropReason.SERIES: 4,
        DropReason.BAD_USER: 1,
        DropReason.OTHER_METRIC: 1,
        DropReason.NO_INSTANCE: 1,
        DropReason.NOT_TEXT: 1,
    }
    assert collector.points() == {}


def test_app_info_identifies_the_broker_of_an_instance() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", broker_id="3"))
    collector.add(series((NOW, 4.0), name="kafka_server_app_info", instance="b2:1"))
    collector.add(series((NOW, 4.5), name="kafka_server_app_info", instance="b3:1"))
    assert values(collector.points()["A"], Measure.BROKER_ID) == [
        (ScrapeTarget("b1:1"), 3.0),
        (ScrapeTarget("b2:1"), 4.0),
    ]
    assert collector.counts[DropReason.BAD_BROKER_ID] == 1


def test_a_rule_for_broker_ids_takes_precedence_over_app_info() -> None:
    collector = new_collector("regex:pod:kafka-([0-9]+)")
    readings = [(NOW + 10, 1.0), (NOW + 20, 1.0)]
    collector.add(series(*readings, pod="kafka-7"))
    collector.add(series(*readings, pod="kafka-7", user="u"))
    collector.add(series(*readings, name="kafka_server_app_info", pod="kafka-7", broker_id="7"))
    collector.add(series(*readings, name="kafka_server_app_info", pod="kafka-7", broker_id="8"))
    collector.add(series(*readings, name="up", pod="kafka-8", instance="sidecar:1"))
    point_rows = rows(collector.points()["A"])
    target = ScrapeTarget("b1:1", broker="7")
    assert [
        (row.target, row.ts_ms, row.value)
        for row in point_rows
        if row.names.measure is Measure.BROKER_ID
    ] == [(target, NOW + 10, 7.0), (target, NOW + 20, 7.0)]
    assert {row.target for row in point_rows if row.names.measure is Measure.UP} == {
        ScrapeTarget("sidecar:1", broker="8")
    }
    assert (
        collector.counts[DropReason.APP_INFO_UNUSED],
        collector.counts[DropReason.BROKER_CONFLICT],
    ) == (1, 1)


def test_without_an_instance_the_rule_defines_one() -> None:
    collector = new_collector("label:broker")
    collector.add(RecordedSeries.of(RATE, {"type": "produce", "broker": "5"}, [(NOW, 1.0)]))
    points, target = collector.points()["A"], ScrapeTarget("broker 5", broker="5")
    assert values(points, Measure.RATE) == [(target, 1.0)]


def test_jobs_of_one_instance_are_distinguished() -> None:
    collector = new_collector()
    for job, value in (("node", 1.0), ("kafka", 0.0)):
        collector.add(series((NOW, value), name="up", job=job))
    assert values(collector.points()["A"], Measure.UP) == [
        (ScrapeTarget("b1:1", "kafka"), 0.0),
        (ScrapeTarget("b1:1", "node"), 1.0),
    ]


def test_app_info_with_a_version_as_value_is_not_a_broker_id() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", version="4.0.0"))
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", version="4.0.0", broker_id="3"))
    assert values(collector.points()["A"], Measure.BROKER_ID) == [(ScrapeTarget("b1:1"), 3.0)]
    assert collector.counts[DropReason.BAD_BROKER_ID] == 1


NAMES = st.sampled_from(["", "a", "b", "ü", "a b"])
READINGS = st.lists(
    st.tuples(
        NAMES,
        NAMES,
        st.sampled_from(["1", "2"]),
        st.integers(NOW - 5, NOW),
        st.sampled_from([0.0, 1.0, 2.0, math.nan]),
    ),
    max_size=40,
)


def points_of(readings: list[tuple[str, str, str, int, float]], counts: DropCounts) -> Points:
    collector = new_collector()
    for user, replica, instance, at, value in readings:
        encoded = user.replace(" ", "%20").replace("ü", "%C3%BC")
        collector.add(series((at, value), user=encoded, replica=replica, instance=instance))
    points = collector.points()
    counts.merge(collector.counts)
    return points.get("A", Points.none())


@given(READINGS)
def test_points_are_sorted_and_unique_and_every_point_is_counted(
    readings: list[tuple[str, str, str, int, float]],
) -> None:
    counts = DropCounts()
    point_rows = rows(points_of(readings, counts))
    keys = [row[:4] for row in point_rows]
    assert keys == sorted(set(keys))
    assert len(keys) + counts[DropReason.DUPLICATES] + counts[DropReason.CONTRADICTIONS] == len(
        readings
    )
    largest: dict[tuple[object, ...], float] = {}
    for user, replica, instance, at, value in readings:
        key = (user, replica, instance, at)
        best = largest.get(key, math.nan)
        largest[key] = value if math.isnan(best) or value > best else best
    assert {
        (row.names.user, row.replica, row.target.instance, row.ts_ms): str(row.value)
        for row in point_rows
    } == {key: str(value) for key, value in largest.items()}


@given(READINGS, st.integers(NOW - 5, NOW))
def test_the_digest_of_a_part_is_that_of_its_points_alone(
    readings: list[tuple[str, str, str, int, float]], at: int
) -> None:
    points = points_of(readings, DropCounts())
    part = points_of([row for row in readings if row[3] < at], DropCounts())
    assert points.between(0, at).digest() == part.digest()


TIMES = st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(TIMES, st.floats(allow_nan=False))), TIMES, TIMES)
def test_points_of_a_time_range_keep_their_order(
    points: list[tuple[int, float]], begin: int, end: int
) -> None:
    series = RecordedSeries.of("m", {"a": "b"}, points)
    assert series.points == points
    within = series.within(begin, end)
    assert within.points == [point for point in points if begin <= point[0] < end]
    assert (within.name, within.labels) == ("m", {"a": "b"})
