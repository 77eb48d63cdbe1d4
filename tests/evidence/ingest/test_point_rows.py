"""Series become rows of `point`: of one cluster, decoded, ordered by time, without duplicates."""

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.dialects import label_matchers, parser
from reconciler.evidence.ingest.dialects.cluster_sources import (
    BrokerIdRule,
    ClusterMatcher,
    ClusterSource,
)
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.point_rows import AHEAD_MS, SLOT_MS, PointCollector
from reconciler.evidence.ingest.readers.series import (
    RecordedSeries,
)
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import POINT, Measure

NOW = 1_700_000_000_000
SLOT = NOW - NOW % SLOT_MS
KQUOTA = parser.shipped().get("kquota")
RATE = "kafka_server_client_quota_byte_rate"


def new_collector(rule: str = "", **named: str) -> PointCollector:
    sources = [
        ClusterSource(
            cluster=name,
            cluster_id=name.upper(),
            matchers=label_matchers.parsed(text),
            broker_rule=BrokerIdRule.parsed(rule) if rule else None,
        )
        for name, text in (named or {"a": ""}).items()
    ]
    return PointCollector(ClusterMatcher(sources), KQUOTA, read_ms=NOW)


def series(*points: tuple[int, float], name: str = RATE, **labels: str) -> RecordedSeries:
    base = {"type": "produce", "instance": "b1:1"} if name == RATE else {"instance": "b1:1"}
    return RecordedSeries(name=name, labels=base | labels, points=points)


def rows(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def test_a_point_has_every_column_of_the_table() -> None:
    collector = new_collector()
    collector.add(
        series((NOW - 1, 2.5), user="al%20ice", client_id='"a,b"', prometheus_replica="r1")
    )
    table = collector.tables()["A"]
    assert table.schema == arrow_tables.schema(POINT)
    (row,) = table.to_pylist()
    assert row | {"day": str(row["day"])} == {
        "cluster_id": "A",
        "instance": "b1:1",
        "replica": "r1",
        "measure": "rate",
        "quota_type": "produce",
        "user": "al ice",
        "client_id": "a,b",
        "ip": "",
        "ts_ms": NOW - 1,
        "value": 2.5,
        "day": "2023-11-14",
    }
    assert dict(collector.counts) == {DropReason.SERIES: 1, DropReason.POINTS: 1}


def test_each_cluster_receives_its_own_series_and_foreign_ones_are_counted() -> None:
    collector = new_collector(a='cluster="a"', b='cluster=~"b|x"', c='cluster="x"')
    for cluster in ("a", "b", "x", "z"):
        collector.add(series((NOW, 1.0), cluster=cluster))
    tables = collector.tables()
    assert {cluster_id: table.num_rows for cluster_id, table in tables.items()} == {"A": 1, "B": 1}
    assert (
        collector.counts[DropReason.TWO_CLUSTERS] == collector.counts[DropReason.OTHER_CLUSTER] == 1
    )


def test_points_from_the_future_and_from_1970_are_refused() -> None:
    collector = new_collector()
    ahead = NOW + AHEAD_MS
    collector.add(series((NOW // 1000, 1.0), (NOW, 2.0), (ahead, 3.0), (ahead + 1, 4.0)))
    assert rows(collector.tables()["A"], "value") == [(2.0,), (3.0,)]
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
    assert [replica for (replica,) in rows(collector.tables()["A"], "replica")] == [
        "",
        "x",
        "y",
        "z",
    ]


def test_repeated_points_are_counted_and_the_larger_of_different_values_is_kept() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), (NOW, 1.0), (NOW, 3.0), (NOW, 2.0), (NOW - 1, math.nan)))
    collector.add(series((NOW - 1, math.nan), (NOW - 2, 5.0)))
    point_rows = rows(collector.tables()["A"], "ts_ms", "value")
    assert point_rows[0] == (NOW - 2, 5.0)
    assert point_rows[2] == (NOW, 3.0)
    assert math.isnan(float(str(point_rows[1][1])))
    assert (
        collector.counts[DropReason.DUPLICATES],
        collector.counts[DropReason.CONTRADICTIONS],
    ) == (
        2,
        2,
    )


def test_a_collector_returns_its_rows_once() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0)))
    assert collector.tables()["A"].num_rows == 1
    assert collector.tables() == {}


def test_a_series_that_the_dialect_refuses_is_counted_under_its_drop_reason() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), user="%zz"))
    collector.add(series((NOW, 1.0), name="go_threads"))
    collector.add(RecordedSeries(name=RATE, labels={"type": "fetch"}, points=[(NOW, 1.0)]))
    collector.add(series((NOW, 1.0), type="fetch", instance="\ud800"))
    assert dict(collector.counts) == {
        DropReason.SERIES: 4,
        DropReason.BAD_USER: 1,
        DropReason.OTHER_METRIC: 1,
        DropReason.NO_INSTANCE: 1,
        DropReason.NOT_TEXT: 1,
    }
    assert collector.tables() == {}


def test_app_info_identifies_the_broker_of_an_instance() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", broker_id="3"))
    collector.add(series((NOW, 4.0), name="kafka_server_app_info", instance="b2:1"))
    collector.add(series((NOW, 4.5), name="kafka_server_app_info", instance="b3:1"))
    table = collector.tables()["A"]
    assert rows(table, "instance", "measure", "value") == [
        ("b1:1", "broker_id", 3.0),
        ("b2:1", "broker_id", 4.0),
    ]
    assert collector.counts[DropReason.BAD_BROKER_ID] == 1


def test_a_rule_for_broker_ids_adds_an_id_every_five_minutes_and_takes_precedence_over_app_info() -> (
    None
):
    collector = new_collector("regex:pod:kafka-([0-9]+)")
    readings = [(SLOT + 10, 1.0), (SLOT + 20, 1.0), (SLOT + SLOT_MS - 1, 1.0), (SLOT - 5, 1.0)]
    collector.add(series(*readings, pod="kafka-7"))
    collector.add(series(*readings, pod="kafka-7", user="u"))
    collector.add(series(*readings, name="kafka_server_app_info", pod="kafka-7", broker_id="7"))
    collector.add(series(*readings, name="kafka_server_app_info", pod="kafka-7", broker_id="8"))
    collector.add(series(*readings, name="up", pod="kafka-8", instance="sidecar:1"))
    point_rows = collector.tables()["A"].to_pylist()
    broker_ids = [
        (row["instance"], row["ts_ms"], row["value"])
        for row in point_rows
        if row["measure"] == Measure.BROKER_ID
    ]
    assert broker_ids == [("b1:1\tbroker 7", SLOT - SLOT_MS, 7.0), ("b1:1\tbroker 7", SLOT, 7.0)]
    assert {row["instance"] for row in point_rows if row["measure"] == Measure.UP} == {
        "sidecar:1\tbroker 8"
    }
    assert (
        collector.counts[DropReason.APP_INFO_UNUSED],
        collector.counts[DropReason.BROKER_CONFLICT],
    ) == (1, 1)


def test_without_an_instance_the_rule_defines_one() -> None:
    collector = new_collector("label:broker")
    collector.add(
        RecordedSeries(name=RATE, labels={"type": "produce", "broker": "5"}, points=[(SLOT, 1.0)])
    )
    assert rows(collector.tables()["A"], "instance", "measure", "value") == [
        ("broker 5\tbroker 5", "broker_id", 5.0),
        ("broker 5\tbroker 5", "rate", 1.0),
    ]


def test_brokers_behind_one_instance_are_distinguished_by_the_rule() -> None:
    collector = new_collector("label:broker")
    for broker in ("1", "2"):
        collector.add(series((NOW, float(broker)), broker=broker, job="federate"))
    rates = [row for row in collector.tables()["A"].to_pylist() if row["measure"] == Measure.RATE]
    assert [(row["instance"], row["value"]) for row in rates] == [
        ("b1:1\tjob federate\tbroker 1", 1.0),
        ("b1:1\tjob federate\tbroker 2", 2.0),
    ]
    assert collector.counts[DropReason.CONTRADICTIONS] == 0


def test_jobs_of_one_instance_are_distinguished() -> None:
    collector = new_collector()
    for job, value in (("node", 1.0), ("kafka", 0.0)):
        collector.add(series((NOW, value), name="up", job=job))
    assert rows(collector.tables()["A"], "instance", "value") == [
        ("b1:1\tjob kafka", 0.0),
        ("b1:1\tjob node", 1.0),
    ]


def test_app_info_with_a_version_as_value_is_not_a_broker_id() -> None:
    collector = new_collector()
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", version="4.0.0"))
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", version="4.0.0", broker_id="3"))
    assert rows(collector.tables()["A"], "measure", "value") == [("broker_id", 3.0)]
    assert collector.counts[DropReason.BAD_BROKER_ID] == 1


def test_app_info_is_used_where_the_rule_does_not_match() -> None:
    collector = new_collector("label:broker")
    collector.add(series((NOW, 1.0), name="kafka_server_app_info", broker_id="3"))
    collector.add(series((NOW, 1.0)))
    assert [measure for (measure,) in rows(collector.tables()["A"], "measure")] == [
        "broker_id",
        "rate",
    ]


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


def table_of(readings: list[tuple[str, str, str, int, float]], counts: DropCounts) -> pa.Table:
    collector = new_collector()
    for user, replica, instance, at, value in readings:
        encoded = user.replace(" ", "%20").replace("ü", "%C3%BC")
        collector.add(series((at, value), user=encoded, replica=replica, instance=instance))
    tables = collector.tables()
    counts.merge(collector.counts)
    return tables.get("A", arrow_tables.schema(POINT).empty_table())


@given(READINGS)
def test_rows_are_sorted_by_the_key_and_unique_and_every_point_is_counted(
    readings: list[tuple[str, str, str, int, float]],
) -> None:
    counts = DropCounts()
    table = table_of(readings, counts)
    keys = rows(table, *POINT.key)
    assert keys == sorted(set(keys))
    assert table.num_rows + counts[DropReason.DUPLICATES] + counts[
        DropReason.CONTRADICTIONS
    ] == len(readings)
    largest: dict[tuple[object, ...], float] = {}
    for user, replica, instance, at, value in readings:
        key = (user, replica, instance, at)
        best = largest.get(key, math.nan)
        largest[key] = value if math.isnan(best) or value > best else best
    point_rows = rows(table, "user", "replica", "instance", "ts_ms", "value")
    assert {row[:4]: str(row[4]) for row in point_rows} == {
        key: str(value) for key, value in largest.items()
    }
