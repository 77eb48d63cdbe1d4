"""Use from a Prometheus into the lake: the start time, the effect of a failing server, the next run."""

import asyncio

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import (
    dialect_tables,
    label_matchers,
    server_import,
    snapshot_import,
)
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.sample_days import REFETCH_MS, ClusterArrivals, SampleDays, cursor
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus, Fault

MIDNIGHT = 1_700_006_400_000
BEGIN = MIDNIGHT - 3_600_000
END = MIDNIGHT + 3_600_000
HOUR = 3_600_000
GONE = [Fault(status=503, text="compacting")] * 30


def lake():
    return Lake(PassingStore(), clock=FakeClock(), pause=lambda _: None)


def filled(**more):
    server = FakePrometheus()
    recorded_use.put(server, recorded_use.recorded(BEGIN, 240, **more))
    return server


def source(server, **more):
    settings = {"matchers": label_matchers.parsed('cluster="orders"'), "scrape_ms": 30_000} | more
    return ClusterSource(cluster="orders", cluster_id="id-o", prometheus=server.url, **settings)


def days(where):
    return SampleDays(where, "id-o", source(FakePrometheus()).cadence)


def span_of(where, begin, end):
    return server_import.stretch(days(where), begin, end)


def fetch(
    where, server, begin=BEGIN, end=END, *, window=HOUR, before=None, **more
) -> ClusterArrivals:
    clock = FakeClock(END / 1000)

    async def fetch_span():
        async with server:
            asking = server_import.ServerImportOptions(
                dialects=dialect_tables.shipped(), window_ms=window
            )
            return await server_import.fetched(
                where,
                source(server, **more),
                span_of(where, begin, end),
                asking,
                days=days(where),
                clock=clock,
                progress=before,
            )

    return asyncio.run(fetch_span())


def samples(where):
    rows = where.read(where.days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()
    return recorded_use.comparable_rows(rows)


def test_everything_of_the_cluster_is_imported_and_nothing_of_others():
    server = filled()
    recorded_use.put(server, recorded_use.recorded(BEGIN, 240, cluster="payments"))
    where = lake()
    arrived = fetch(where, server)
    sample_rows = samples(where)
    assert arrived.failures == []
    assert sum(arrived.new.values()) == 2 * 240 * 6
    assert len(sample_rows) == 2 * 240 * 2
    assert sample_rows[0] == ("id-o", "1", "produce", "u0", BEGIN + 137, 30_000, 1000, 0)
    assert {row[5] for row in sample_rows} == {30_000}


def test_progress_is_reported_in_minutes_of_recorded_time():
    progress = []
    fetch(lake(), filled(), end=END - 1, before=lambda *words: progress.append(words))
    assert progress[0] == ("minutes fetched", 60, 1500)
    assert progress[-2:] == [("minutes fetched", 1440, 1500), ("minutes fetched", 1500, 1500)]


def test_a_server_that_becomes_unavailable_leaves_the_imported_rows_and_the_next_run_continues():
    complete, broken = lake(), lake()
    fetch(complete, filled())
    server = filled()

    def goes_away(phase, done, total):
        if done >= 24 * 60 + 20:
            server.faults = list(GONE)

    arrived = fetch(broken, server, window=600_000, before=goes_away)
    assert "503" in arrived.failures[0]
    assert "is kept" in arrived.failures[0]
    manifests = broken.days(USAGE_SAMPLE)
    assert MIDNIGHT <= cursor(broken, "id-o") < END - 600_000
    assert (
        0
        < sum(manifest.rows for manifest in manifests)
        < sum(manifest.rows for manifest in complete.days(USAGE_SAMPLE))
    )
    again = fetch(broken, filled(), begin=None)
    assert again.failures == []
    assert samples(broken) == samples(complete)


def test_a_response_that_breaks_off_is_requested_again():
    where, server = lake(), filled()

    def cuts(phase, done, total):
        server.faults = [Fault(cut=True)]

    arrived = fetch(where, server, MIDNIGHT, END, window=600_000, before=cuts)
    assert arrived.failures == []
    assert arrived.counts[DropReason.RETRIES] >= 1
    assert len(samples(where)) == 2 * 120 * 2


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_during_the_import_is_reported_with_the_message_of_the_server_and_keeps_the_rows(
    status,
):
    where, server = lake(), filled()

    def refuses(phase, done, total):
        server.faults = [
            Fault(status=status, text='{"status":"error","error":"strange words"}')
        ] * 9

    arrived = fetch(where, server, window=600_000, before=refuses)
    assert "strange words" in arrived.failures[0]
    assert where.days(USAGE_SAMPLE)


def test_the_day_of_a_failure_lists_missing_data_until_it_was_read():
    where, server = lake(), filled()

    def goes_away(phase, done, total):
        server.faults = list(GONE)

    fetch(where, server, MIDNIGHT, END, window=600_000, before=goes_away)
    (day,) = where.days(USAGE_SAMPLE)
    assert "did not give all" in day.partial[0]
    fetch(where, filled(), begin=None)
    assert [manifest.partial for manifest in where.days(USAGE_SAMPLE)] == [(), ()]


def test_a_warning_of_the_server_makes_the_day_partial():
    where, server = lake(), filled()
    server.extra = {"warnings": ["a store is away"]}
    fetch(where, server)
    assert all(manifest.partial for manifest in where.days(USAGE_SAMPLE))


def test_an_empty_window_is_reported():
    arrived = fetch(lake(), filled(), BEGIN - 10 * HOUR, BEGIN - 5 * HOUR)
    assert "the window is empty" in arrived.remarks[0]
    assert not arrived.new


def test_a_server_without_kafka_metrics_is_an_error_that_names_the_existing_ones():
    server = FakePrometheus()
    server.put("node_load1", [(BEGIN, "1")], cluster="orders")
    with pytest.raises(TelemetryError, match="node_load1"):
        fetch(lake(), server)


def test_several_clusters_without_matchers_are_refused():
    server = filled()
    recorded_use.put(server, recorded_use.recorded(BEGIN, 240, cluster="payments"))
    with pytest.raises(TelemetryError, match="several clusters"):
        fetch(lake(), server, matchers=())


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
