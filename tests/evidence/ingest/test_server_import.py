"""Use from a Prometheus into the lake: the start time, windows, parts, incomplete answers, failures, the next run."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import LakeError, TelemetryError
from reconciler.evidence.ingest import cluster_sources, dialect_tables, server_import
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.readers.prometheus import (
    BOUNDS,
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
)
from reconciler.evidence.ingest.sample_days import (
    REFETCH_MS,
    ClusterArrivals,
    SampleDays,
    cursor,
    last_dialect,
)
from reconciler.evidence.store import snapshot_import
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import BROKER_SAMPLE, USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import QUERY, FakePrometheus, Fault, error
from tests.hypothesis_profiles import count_examples

HOUR = 3_600_000
MIDNIGHT = 1_700_006_400_000
BEGIN, END = MIDNIGHT - HOUR, MIDNIGHT + HOUR
GONE = [Fault(status=503, text="compacting")] * 30
AWAY = (MIDNIGHT + 4 * HOUR, MIDNIGHT + 5 * HOUR)
TOTAL = "kafka_server_brokertopicmetrics_bytesin_total"
BYTE_RATE = "kafka_server_quota_byte_rate"
OWN = {"cluster": "orders", "instance": "orders-1:7071"}


class Thanos(FakePrometheus):
    """Some of its data is in a store that is unavailable: answers for that time have a warning."""

    away = (0, 0)
    warns_of_labels = False
    most_ms = 2**60  # queries over a longer time are too slow

    def _api(self, request, parameters):
        answer = super()._api(request, parameters)
        self.extra = {}
        if not request.path.endswith("/query"):
            self.extra = {"warnings": ["a store is away"]} if self.warns_of_labels else {}
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

    def _query(self, query, time):
        if int(QUERY.fullmatch(query)[2]) > self.most_ms:
            return Fault(status=503, text=error("query timed out in evaluation", "timeout"))
        return super()._query(query, time)


def lake(store=None):
    return Lake(store or PassingStore(), clock=FakeClock(), pause=lambda _: None)


def filled(begin=BEGIN, hours=2, away=(0, 0), **more):
    server = Thanos()
    recorded_use.put(server, recorded_use.recorded(begin, hours * 120, **more))
    server.away = away
    return server


def small(hours=8, **more):
    return filled(MIDNIGHT, hours, brokers=1, users=1, **more)


def source(server, **more):
    settings = {
        "matchers": cluster_sources.parsed_matchers('cluster="orders"'),
        "scrape_ms": 30_000,
    } | more
    return ClusterSource(cluster="orders", cluster_id="id-o", prometheus=server.url, **settings)


def days(where):
    return SampleDays(where, "id-o", source(FakePrometheus()).cadence)


def span_of(where, begin, end):
    return server_import.stretch(days(where), begin, end)


def fetch(
    where, server, begin=BEGIN, end=END, *, before=None, asking=None, neighbours=(), **more
) -> ClusterArrivals:
    async def fetch_span():
        async with server:
            own = source(server, **more)
            options = server_import.ServerImportOptions(
                dialects=dialect_tables.shipped(),
                sources_of_address=(
                    own,
                    *(replace(each_source, prometheus=server.url) for each_source in neighbours),
                ),
                **{"window_ms": HOUR} | (asking or {}),
            )
            return await server_import.fetched(
                days(where),
                own,
                span_of(where, begin, end),
                options,
                clock=FakeClock(end / 1000),
                progress=before,
            )

    return asyncio.run(fetch_span())


def then(do):
    """A progress that does something at each window."""
    return lambda _phase, done, _total: do(done)


def samples(where):
    rows = where.read(where.days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()
    return recorded_use.comparable_rows(rows)


def partial(where):
    return [report.partial for report in days(where).reports({})]


# ---- windows and parts --------------------------------------------------------------------------


def test_everything_of_the_cluster_is_imported_and_nothing_of_others():
    server, progress = filled(), []
    recorded_use.put(server, recorded_use.recorded(BEGIN, 240, cluster="payments"))
    where = lake()
    arrived = fetch(where, server, before=lambda *words: progress.append(words))
    sample_rows = samples(where)
    assert arrived.failures == []
    assert sum(arrived.new.values()) == 2 * 240 * 6
    assert len(sample_rows) == 2 * 240 * 2
    assert sample_rows[0] == ("id-o", "1", "produce", "u0", BEGIN + 137, 30_000, 1000, 0)
    assert {row[5] for row in sample_rows} == {30_000}
    assert server.most_running <= server_import.PARALLEL
    assert all('cluster="orders"' in query for query in server.queries())
    assert progress[0] == ("minutes fetched", 60, 1500)
    assert progress[-2:] == [("minutes fetched", 1440, 1500), ("minutes fetched", 1500, 1500)]


@settings(max_examples=count_examples(8))
@given(most=st.integers(1, 300), window=st.sampled_from([HOUR, 7 * HOUR, 100_000]))
def test_the_limit_of_the_server_and_the_window_change_no_sample(most, window):
    complete, where = lake(), lake()
    fetch(complete, filled(MIDNIGHT, 1), MIDNIGHT)
    server = filled(MIDNIGHT, 1)
    server.max_samples = most
    arrived = fetch(where, server, MIDNIGHT, asking={"window_ms": window})
    if arrived.failures:  # a part of less than two minutes has up to 16 points
        assert "more than the server gives" in arrived.failures[0]
        assert most < 16
    else:
        assert samples(where) == samples(complete)
        assert bool(arrived.counts[DropReason.SPLITS]) is (most < 480 * min(window, HOUR) // HOUR)


def test_a_query_that_times_out_is_split_into_halves_of_time():
    complete, where, server = lake(), lake(), filled()
    fetch(complete, filled())
    server.most_ms = HOUR // 4
    arrived = fetch(where, server)
    assert samples(where) == samples(complete)
    assert arrived.counts[DropReason.SPLITS] > 3


def test_a_server_that_cannot_return_a_minute_fails_after_few_queries():
    server = filled()
    server.most_ms = 0
    arrived = fetch(lake(), server, MIDNIGHT)
    assert "timed out" in arrived.failures[0]
    assert len(server.queries()) <= 8 * 4


def test_a_response_that_breaks_off_is_requested_again():
    where, server = lake(), filled()

    def cuts(_done):
        server.faults = [Fault(cut=True)]

    arrived = fetch(where, server, MIDNIGHT, before=then(cuts), asking={"window_ms": 600_000})
    assert arrived.failures == []
    assert arrived.counts[DropReason.RETRIES] >= 1
    assert len(samples(where)) == 2 * 120 * 2


# ---- what exists --------------------------------------------------------------------------------


def discovered(server, text="", bounds=BOUNDS):
    async def discover():
        async with server, PrometheusClient(server.url, clock=FakeClock(), bounds=bounds) as client:
            matchers = cluster_sources.parsed_matchers(text)
            return await server_import.discovered(
                client, dialect_tables.shipped(), matchers, MIDNIGHT, END
            )

    return asyncio.run(discover())


def test_known_metrics_are_discovered_with_their_labels_and_others_with_their_names():
    server = FakePrometheus()
    server.put("up", [(MIDNIGHT, "1")], cluster="a")
    server.put("up", [(MIDNIGHT, "1")], cluster="b")
    server.put(BYTE_RATE, [(MIDNIGHT, "1")], resource="Produce", user="u", cluster="a")
    server.put(BYTE_RATE, [(MIDNIGHT, "1")], resource="Produce", clientId="c", cluster="a")
    server.put("go_threads", [(MIDNIGHT, "1")], cluster="a")
    everything = discovered(server, 'cluster="a"')
    assert everything.labels == {
        BYTE_RATE: {"resource", "user", "clientId", "cluster"},
        "go_threads": set(),
        "up": {"cluster"},
    }
    assert {"__name__": "up", "cluster": "a"} in everything.series
    assert len(everything.series) == 3


def test_labels_too_many_for_one_response_are_queried_in_parts():
    def crowded():
        server = FakePrometheus()
        for part in range(12):
            for metric in ("kafka_server_client_quota_byte_rate", "up"):
                server.put(metric, [(MIDNIGHT + part * 300_000, "1")], client_id=f"c{part}")
        server.put("up", [(MIDNIGHT, "1"), (END - 1, "1")], client_id="always")
        return server

    at_once = discovered(crowded())
    in_parts = discovered(crowded(), bounds=PrometheusLimits(answer_bytes=600))
    assert sorted(map(repr, in_parts.series)) == sorted(map(repr, at_once.series))
    with pytest.raises(ResponseTooLarge):
        discovered(crowded(), bounds=PrometheusLimits(answer_bytes=100))


def test_only_broker_totals_are_queried():
    where, server = lake(), small()
    times = [MIDNIGHT + at * 30_000 + 137 for at in range(100)]
    server.put(TOTAL, [(at, "9") for at in times], **OWN)
    for topic in range(20):
        server.put(TOTAL, [(at, "1") for at in times], topic=f"t{topic}", **OWN)
    arrived = fetch(where, server, MIDNIGHT, MIDNIGHT + 8 * HOUR)
    assert arrived.counts[DropReason.PER_TOPIC] == 0
    assert all('topic=""' in query for query in server.queries())
    rows = where.read(where.days(BROKER_SAMPLE), table=BROKER_SAMPLE).to_pylist()
    assert ({row["bytes_in"] for row in rows}, len(rows)) == ({0}, 99)


def test_an_empty_window_is_reported():
    arrived = fetch(lake(), filled(), BEGIN - 10 * HOUR, BEGIN - 5 * HOUR)
    assert "the window is empty" in arrived.remarks[0]
    assert not arrived.new


@pytest.mark.parametrize("names", [(), ("up",), ("node_load1",)])
def test_an_empty_result_with_a_warning_is_not_an_empty_window(names):
    server = Thanos()
    server.warns_of_labels = True
    for name in names:
        server.put(name, [(MIDNIGHT, "1")], **OWN)
    with pytest.raises(TelemetryError, match="not complete"):
        fetch(lake(), server)


# ---- which cluster, which dialect ---------------------------------------------------------------


def test_several_clusters_without_matchers_are_refused():
    server = filled()
    recorded_use.put(server, recorded_use.recorded(BEGIN, 240, cluster="payments"))
    with pytest.raises(TelemetryError, match="several clusters"):
        fetch(lake(), server, matchers=())


def test_a_series_that_matches_two_clusters_of_one_server_belongs_to_neither():
    def neighbour(text):
        matchers = cluster_sources.parsed_matchers(text)
        return ClusterSource(cluster="b", cluster_id="id-b", matchers=matchers)

    arrived = fetch(lake(), small(), MIDNIGHT, neighbours=[neighbour('instance=~"orders-.*"')])
    assert arrived.counts[DropReason.TWO_CLUSTERS] == arrived.counts[DropReason.SERIES]
    with pytest.raises(TelemetryError, match=r"b has no telemetry\.matchers"):
        fetch(lake(), small(), MIDNIGHT, neighbours=[neighbour("")])


def resting():
    """Brokers that answer and list no client: unused for more than an hour."""
    return filled(END, 8, brokers=1, users=0)


def test_an_idle_cluster_is_read_in_its_previous_dialect():
    where = lake()
    with pytest.raises(TelemetryError, match="no metric of client quotas") as unknown:
        fetch(where, resting(), END, END + HOUR)
    assert "known: " in unknown.value.hint
    assert fetch(lake(), resting(), END, END + HOUR, asking={"dialect": "jmx_exporter"}).new
    fetch(where, filled())
    assert last_dialect(where, "id-o") == "jmx_exporter"
    for end in (END + 8 * HOUR, END + 9 * HOUR):
        arrived = fetch(where, resting(), END, end)
        assert arrived.failures == []
        assert "idle cluster in dialect jmx_exporter" in arrived.remarks[0]
    assert sum(arrived.new.values()) == 0
    assert cursor(where, "id-o") == END + 9 * HOUR


@pytest.mark.parametrize(
    "name", ["kafka_server_client_quota_throttle_time_ms", "kafka_server_produce_user_u_byte_rate"]
)
def test_a_cluster_with_unreadable_client_names_is_not_idle(name):
    where = lake()
    fetch(where, filled())
    server = resting()
    server.put(name, [(END, "1")], other="x", **OWN)
    with pytest.raises(TelemetryError):
        fetch(where, server, END, END + HOUR)


def test_a_previous_dialect_that_is_no_longer_known_is_ignored():
    dialects = dialect_tables.shipped()
    for names, before in ((["up"], "gone"), (["go_threads"], "jmx_exporter")):
        with pytest.raises(TelemetryError, match="no metric of client quotas"):
            dialects.select(dict.fromkeys(names, frozenset()), lambda last=before: last)


# ---- failures -----------------------------------------------------------------------------------


def test_a_server_that_becomes_unavailable_leaves_the_imported_rows_and_the_next_run_continues():
    complete, broken = lake(), lake()
    fetch(complete, filled())
    server = filled()

    def goes_away(done):
        if done >= 24 * 60 + 20:
            server.faults = list(GONE)

    arrived = fetch(broken, server, before=then(goes_away), asking={"window_ms": 600_000})
    assert "503" in arrived.failures[0]
    assert "is kept" in arrived.failures[0]
    assert MIDNIGHT <= cursor(broken, "id-o") < END - 600_000
    assert 0 < len(samples(broken)) < len(samples(complete))
    again = fetch(broken, filled(), begin=None)
    assert again.failures == []
    assert samples(broken) == samples(complete)


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_during_the_import_is_reported_with_the_message_of_the_server(status):
    where, server = lake(), filled()
    refusal = Fault(status=status, text='{"status":"error","error":"strange words"}')

    def refuses(_done):
        server.faults = [refusal] * 9

    arrived = fetch(where, server, before=then(refuses), asking={"window_ms": 600_000})
    assert "strange words" in arrived.failures[0]
    assert where.days(USAGE_SAMPLE)


def test_the_day_of_a_failure_lists_missing_data_until_it_was_read():
    where, server = lake(), filled()

    def goes_away(_done):
        server.faults = list(GONE)

    fetch(where, server, MIDNIGHT, before=then(goes_away), asking={"window_ms": 600_000})
    (day,) = where.days(USAGE_SAMPLE)
    assert "did not give all" in day.partial[0]
    fetch(where, filled(), begin=None)
    assert partial(where) == [(), ()]


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
    where = lake(Full(PassingStore(), 1))
    arrived = fetch(where, small(hours=40), MIDNIGHT, MIDNIGHT + 38 * HOUR)
    assert arrived.failures == ["no space is left; what came before 2023-11-16T00:00:00Z is kept"]
    assert list(arrived.new.values()) == [24 * 120 * 4]
    assert cursor(where, "id-o") == MIDNIGHT + DAY_MS


# ---- where a run begins -------------------------------------------------------------------------


def test_a_run_starts_at_the_day_in_which_the_last_one_ended_minus_three_hours():
    where = lake()
    first = span_of(where, None, END)
    assert (first.from_ms, first.to_ms) == (MIDNIGHT - server_import.FIRST_MS, END)
    fetch(where, filled(), BEGIN, MIDNIGHT + REFETCH_MS - 1)
    assert span_of(where, None, END).from_ms == MIDNIGHT - DAY_MS
    fetch(where, filled(), BEGIN, MIDNIGHT + REFETCH_MS)
    assert span_of(where, None, MIDNIGHT + 4 * HOUR).from_ms == MIDNIGHT


def test_a_run_with_a_hole_does_not_move_the_start_of_the_next_run():
    where = lake()
    fetch(where, filled(), BEGIN, BEGIN + HOUR // 2)
    fetch(where, filled(), MIDNIGHT, END)
    assert cursor(where, "id-o") == BEGIN + HOUR // 2


def test_late_data_is_fetched_again():
    early, late = lake(), lake()
    fetch(early, filled())
    server = FakePrometheus()
    series = recorded_use.recorded(BEGIN, 240)
    recorded_use.put(server, [entry for entry in series if entry[1]["instance"] != "orders-2:7071"])
    fetch(late, server)
    fetch(late, filled(), begin=None)
    assert samples(late) == samples(early)


def test_days_whose_limits_became_known_are_read_again():
    where = lake()
    fetch(where, filled())
    fetch(where, filled(), None, END + 2 * DAY_MS)
    assert span_of(where, None, END + 2 * DAY_MS).from_ms == MIDNIGHT
    state = QuotaState(limits={entity(user="u0"): limits_of({Key.PRODUCER_BYTE_RATE: 1e6})})
    look = snapshot_import.SnapshotDocument(
        cluster_id="id-o", observed_ms=BEGIN - DAY_MS, state=state
    )
    snapshot_import.keep(where, [look])
    assert span_of(where, None, END + 2 * DAY_MS).from_ms == MIDNIGHT - DAY_MS
    assert span_of(where, None, END + 30 * DAY_MS).from_ms == MIDNIGHT
    arrived = fetch(where, filled(), None, END + 2 * DAY_MS)
    assert [report.is_assembled for report in arrived.days.values()] == [True, True]
    assert span_of(where, None, END + 2 * DAY_MS).from_ms == MIDNIGHT


def test_a_server_that_lost_its_first_hour_removes_nothing():
    complete, where = lake(), lake()
    fetch(complete, filled())
    fetch(where, filled(), BEGIN, MIDNIGHT + HOUR // 2)
    server = FakePrometheus()
    series = recorded_use.between(recorded_use.recorded(BEGIN, 240), MIDNIGHT, 2**60)
    recorded_use.put(server, series)
    fetch(where, server, begin=None)
    times = [[row[4] for row in samples(each_lake)] for each_lake in (complete, where)]
    assert sorted(times[0]) == sorted(times[1])


# ---- holes --------------------------------------------------------------------------------------


def test_the_next_run_queries_a_hole_again_until_it_is_filled():
    end = MIDNIGHT + 8 * HOUR
    complete, broken = lake(), lake()
    fetch(complete, small(), MIDNIGHT, end)
    for begin, to in ((MIDNIGHT, end), (None, end + 24 * HOUR)):
        fetch(broken, small(away=AWAY), begin, to)
        assert cursor(broken, "id-o") == AWAY[0]
        hole = "04:00:00Z and 2023-11-15T05:00:00Z the server did not give all"
        assert hole in partial(broken)[0][0]
    assert span_of(broken, None, end).from_ms == MIDNIGHT
    assert samples(broken) != samples(complete)
    fetch(broken, small(), None, end)
    assert (cursor(broken, "id-o"), set(partial(broken))) == (end, {()})
    assert samples(broken) == samples(complete)


def test_a_hole_older_than_evidence_is_not_queried_again_and_remains_reported():
    where = lake()
    fetch(where, small(away=AWAY), MIDNIGHT, AWAY[1] + server_import.FIRST_MS)
    assert cursor(where, "id-o") == MIDNIGHT + DAY_MS  # of the only day that has points
    assert "the server did not give all" in partial(where)[0][0]


def test_a_day_without_received_data_is_stored_as_missing_and_one_without_recorded_data_is_not():
    tomorrow = MIDNIGHT + DAY_MS
    late = tomorrow - 4 * HOUR
    where = lake()
    fetch(where, filled(late, 4, away=(tomorrow, tomorrow + HOUR)), late, tomorrow + 2 * HOUR)
    first, second = days(where).reports({})
    assert (first.partial, second.samples) == ((), 0)
    assert "00:00:00Z and 2023-11-16T01:00:00Z the server did not give all" in second.partial[0]
    fetch(where, filled(late, 4), None, tomorrow + 50 * HOUR)
    assert partial(where) == [(), ()]


def test_a_warning_during_discovery_makes_the_whole_span_partial():
    end = MIDNIGHT + 8 * HOUR
    where, server = lake(), small()
    server.warns_of_labels = True
    fetch(where, server, MIDNIGHT, end)
    assert cursor(where, "id-o") == MIDNIGHT
    assert len(partial(where)[0]) == 8
    fetch(where, small(), None, end)
    assert set(partial(where)) == {()}
