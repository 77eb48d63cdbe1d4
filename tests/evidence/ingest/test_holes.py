"""Incomplete responses of Prometheus: reported for each day, requested again, and never read as idle clients."""

import asyncio

import pytest

from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest import dialect_tables, label_matchers, server_import
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.sample_days import SampleDays, cursor, last_dialect
from reconciler.evidence.store.lake import Lake
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import BROKER_SAMPLE, USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus

HOUR = 3_600_000
MIDNIGHT = 1_700_006_400_000
BEGIN, END = MIDNIGHT, MIDNIGHT + 8 * HOUR
AWAY = (MIDNIGHT + 4 * HOUR, MIDNIGHT + 5 * HOUR)
TOTAL = "kafka_server_brokertopicmetrics_bytesin_total"


class Thanos(FakePrometheus):
    """Some of its data is in a store that is unavailable: responses for that time have a warning."""

    away = (0, 0)
    warns_of_labels = False

    def _api(self, request, parameters):
        answer = super()._api(request, parameters)
        self.extra = {}
        if not request.path.endswith("/query"):
            if self.warns_of_labels:
                self.extra = {"warnings": ["a store is away"]}
            return answer
        end = round(float(parameters["time"][0]) * 1000)
        begin = end - int(parameters["query"][0].rpartition("[")[2].removesuffix("ms]"))
        if begin + 1 < self.away[1] and end >= self.away[0]:
            self.extra = {"warnings": ["a store is away"]}
            for series in answer["result"]:
                series["values"] = [
                    point
                    for point in series["values"]
                    if not self.away[0] <= point[0] * 1000 < self.away[1]
                ]
        return answer


def filled(begin=BEGIN, hours=8, away=(0, 0), **more):
    server = Thanos()
    recorded_use.put(server, recorded_use.recorded(begin, hours * 120, brokers=1, users=1, **more))
    server.away = away
    return server


def lake():
    return Lake(PassingStore(), clock=FakeClock(), pause=lambda _: None)


def source(server):
    return ClusterSource(
        cluster="orders",
        cluster_id="id-o",
        prometheus=server.url,
        scrape_ms=30_000,
        matchers=label_matchers.parsed('cluster="orders"'),
    )


def days(where):
    return SampleDays(where, "id-o", source(FakePrometheus()).cadence)


def span_of(where, begin, end):
    return server_import.stretch(days(where), begin, end)


def fetch(where, server, begin=None, end=END, **asking):
    async def fetch_span():
        async with server:
            options = server_import.ServerImportOptions(
                dialects=dialect_tables.shipped(), **{"window_ms": HOUR} | asking
            )
            return await server_import.fetched(
                where,
                source(server),
                span_of(where, begin, end),
                options,
                days=days(where),
                clock=FakeClock(end / 1000),
            )

    return asyncio.run(fetch_span())


def reports(where):
    return days(where).reports({})


def samples(where):
    rows = where.read(where.days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()
    return recorded_use.comparable_rows(rows)


def partial(where):
    return [report.partial for report in reports(where)]


def test_the_next_run_queries_a_hole_again_until_it_is_filled():
    complete, broken = lake(), lake()
    fetch(complete, filled(), BEGIN)
    for end in (END, END + 24 * HOUR):
        fetch(broken, filled(away=AWAY), BEGIN if end == END else None, end)
        assert cursor(broken, "id-o") == AWAY[0]
        assert (
            "04:00:00Z and 2023-11-15T05:00:00Z the server did not give all"
            in partial(broken)[0][0]
        )
    assert span_of(broken, None, END).from_ms == MIDNIGHT
    assert samples(broken) != samples(complete)
    fetch(broken, filled())
    assert cursor(broken, "id-o") == END
    assert set(partial(broken)) == {()}
    assert samples(broken) == samples(complete)


def test_a_hole_older_than_evidence_is_not_queried_again_and_remains_reported():
    where = lake()
    end = AWAY[1] + server_import.FIRST_MS
    fetch(where, filled(away=AWAY), BEGIN, end, window_ms=HOUR)
    assert cursor(where, "id-o") == BEGIN + DAY_MS  # of the only day that has points
    assert "the server did not give all" in partial(where)[0][0]


def test_a_day_without_received_data_is_stored_as_missing():
    tomorrow = MIDNIGHT + DAY_MS
    late = tomorrow - 4 * HOUR
    where, server = lake(), filled(late, 4, away=(tomorrow, tomorrow + HOUR))
    fetch(where, server, late, tomorrow + 2 * HOUR)
    first, second = reports(where)
    assert (first.partial, second.samples) == ((), 0)
    assert "00:00:00Z and 2023-11-16T01:00:00Z the server did not give all" in second.partial[0]
    fetch(where, filled(late, 4), None, tomorrow + 2 * HOUR)
    assert partial(where) == [(), ()]


def test_a_day_without_recorded_data_is_not_stored():
    where = lake()
    fetch(where, filled(), BEGIN, END + 48 * HOUR)
    assert [manifest.unit.day.isoformat() for manifest in where.days(USAGE_SAMPLE)] == [
        "2023-11-15"
    ]


def test_a_warning_during_series_discovery_makes_the_whole_span_partial():
    where, server = lake(), filled()
    server.warns_of_labels = True
    fetch(where, server, BEGIN)
    assert cursor(where, "id-o") == BEGIN
    assert len(partial(where)[0]) == 8
    fetch(where, filled())
    assert set(partial(where)) == {()}


@pytest.mark.parametrize("names", [(), ("up",), ("node_load1",)])
def test_an_empty_result_with_a_warning_is_not_an_empty_window(names):
    where = lake()
    fetch(where, filled(), BEGIN)
    server = Thanos()
    server.warns_of_labels = True
    for name in names:
        server.put(name, [(END, "1")], cluster="orders", instance="orders-1:7071")
    with pytest.raises(TelemetryError, match="not complete"):
        fetch(where, server, None, END + HOUR)


def resting(server=None, begin=END, hours=8):
    """Brokers that answer and list no client: unused for more than an hour."""
    prometheus = FakePrometheus() if server is None else server
    everything = recorded_use.recorded(begin, hours * 120, brokers=1, users=0)
    recorded_use.put(prometheus, everything)
    return prometheus


def test_an_idle_cluster_is_read_in_its_previous_dialect():
    where = lake()
    fetch(where, filled(), BEGIN)
    assert last_dialect(where, "id-o") == "jmx_exporter"
    for end in (END + 8 * HOUR, END + 9 * HOUR):
        arrived = fetch(where, resting(), END, end)
        assert arrived.failures == []
        assert "idle cluster in dialect jmx_exporter" in arrived.remarks[0]
    assert sum(arrived.new.values()) == 0
    assert cursor(where, "id-o") == END + 9 * HOUR


def test_a_cluster_that_was_never_read_has_no_previous_dialect():
    with pytest.raises(TelemetryError, match="no metric of client quotas") as unknown:
        fetch(lake(), resting(), END, END + HOUR)
    assert "known: " in unknown.value.hint
    arrived = fetch(lake(), resting(), END, END + HOUR, dialect="jmx_exporter")
    assert arrived.new


@pytest.mark.parametrize(
    "name", ["kafka_server_client_quota_throttle_time_ms", "kafka_server_produce_user_u_byte_rate"]
)
def test_a_cluster_with_unreadable_client_names_is_not_idle(name):
    where = lake()
    fetch(where, filled(), BEGIN)
    server = resting()
    server.put(name, [(END, "1")], cluster="orders", instance="orders-1:7071", other="x")
    with pytest.raises(TelemetryError):
        fetch(where, server, END, END + HOUR)


def test_a_previous_dialect_that_is_no_longer_known_is_ignored():
    dialects = dialect_tables.shipped()
    with pytest.raises(TelemetryError, match="no metric of client quotas"):
        dialects.select({"up": frozenset()}, lambda: "gone")
    with pytest.raises(TelemetryError, match="no metric of client quotas"):
        dialects.select({"go_threads": frozenset()}, lambda: "jmx_exporter")
    dialect, remark = dialects.select({"up": frozenset()}, lambda: "jmx_exporter")
    assert dialect.name == "jmx_exporter"
    assert remark


def test_only_broker_totals_are_queried():
    where, server = lake(), filled()
    times = [BEGIN + at * 30_000 + 137 for at in range(100)]
    own = {"cluster": "orders", "instance": "orders-1:7071"}
    server.put(TOTAL, [(at, "9") for at in times], **own)
    for topic in range(20):
        server.put(TOTAL, [(at, "1") for at in times], topic=f"t{topic}", **own)
    arrived = fetch(where, server, BEGIN)
    assert arrived.counts["per_topic"] == 0
    assert all('topic=""' in query for query in server.queries())
    assert arrived.remarks == []
    rows = where.read(where.days(BROKER_SAMPLE), table=BROKER_SAMPLE).to_pylist()
    assert {row["bytes_in"] for row in rows} == {0}
    assert len(rows) == 99


def test_a_metric_of_single_topics_only_is_reported():
    server = filled()
    server.put(TOTAL, [(BEGIN, "1")], topic="t", cluster="orders", instance="orders-1:7071")
    arrived = fetch(lake(), server, BEGIN)
    (remark,) = arrived.remarks
    assert TOTAL in remark
    assert "(topic): series of single topics" in remark


class Full:
    """A store that accepts a given number of days of brokers' samples."""

    def __init__(self, inner, most):
        self._inner, self._left = inner, most

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put(self, path, content, *, after):
        if path.startswith("broker_sample/"):
            self._left -= 1
            if self._left < 0:
                raise LakeError("no space is left")
        self._inner.put(path, content, after=after)


def test_a_lake_that_fails_during_the_import_is_a_failure_and_the_stored_rows_are_reported():
    where = Lake(Full(PassingStore(), 1), clock=FakeClock(), pause=lambda _: None)
    arrived = fetch(where, filled(hours=40), BEGIN, END + 30 * HOUR)
    (failure,) = arrived.failures
    assert failure == "no space is left; what came before 2023-11-16T00:00:00Z is kept"
    assert {day.isoformat(): new for day, new in arrived.new.items()} == {
        "2023-11-15": 24 * 120 * 4
    }
    assert cursor(where, "id-o") == MIDNIGHT + DAY_MS
