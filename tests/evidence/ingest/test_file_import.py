"""Use from files into the lake: each format gives the same samples; truncated or damaged files are reported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError, UsageError
from reconciler.evidence.ingest import cluster_sources, dialect_tables, file_import
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.file_import import FileImportRequest
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.ingest import recorded_use
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock

ROOT = Path(__file__).parents[3]
BEGIN = 1_700_006_400_000 - 600_000
SERIES = recorded_use.recorded(BEGIN, 40)
ORDERS = ClusterSource(
    cluster="orders",
    cluster_id="id-o",
    matchers=cluster_sources.parsed_matchers('cluster="orders"'),
    scrape_ms=30_000,
)
PAYMENTS = ClusterSource(
    cluster="payments",
    cluster_id="id-p",
    matchers=cluster_sources.parsed_matchers('cluster="payments"'),
    scrape_ms=30_000,
)


def lake(store=None):
    return Lake(store or PassingStore(), clock=FakeClock(), pause=lambda _: None)


def read(where, *paths, sources=(ORDERS,), **more):
    files = FileImportRequest(paths=paths, dialects=dialect_tables.shipped(), **more)
    return file_import.read(where, sources, files, clock=FakeClock(BEGIN / 1000 + 86_400))


def samples(where, source=ORDERS):
    table = where.read(where.days(USAGE_SAMPLE, [source.cluster_id]), table=USAGE_SAMPLE)
    return recorded_use.comparable_rows(table.to_pylist())


def written(folder, name, series=SERIES):
    path = folder / name
    path.write_text(recorded_use.openmetrics(series))
    return path


def test_a_file_becomes_samples(tmp_path):
    where = lake()
    brought = read(where, written(tmp_path, "export"))
    sample_rows = samples(where)
    assert brought.failures == ()
    assert len(sample_rows) == 2 * 2 * 40
    assert sample_rows[0] == ("id-o", "1", "produce", "u0", BEGIN + 137, 30_000, 1000, 0)


def test_a_repeated_file_and_halves_in_any_order_give_the_same_samples_as_one_file(tmp_path):
    lake_of_file, lake_of_halves = lake(), lake()
    read(lake_of_file, written(tmp_path, "a.om"))
    middle = BEGIN + 500_000
    first = written(tmp_path, "1.om", recorded_use.between(SERIES, 0, middle))
    second = written(tmp_path, "2.om", recorded_use.between(SERIES, middle, 2**60))
    read(lake_of_halves, second)
    samples(lake_of_halves)
    read(lake_of_halves, first, second)
    assert samples(lake_of_halves) == samples(lake_of_file)


def test_a_file_of_several_clusters_is_separated_and_foreign_series_are_counted(tmp_path):
    where = lake()
    mixed = [
        *SERIES,
        *recorded_use.recorded(BEGIN, 40, cluster="payments"),
        *recorded_use.recorded(BEGIN, 40, cluster="unknown"),
    ]
    brought = read(where, written(tmp_path, "a.om", mixed), sources=(ORDERS, PAYMENTS))
    assert len(samples(where, ORDERS)) == len(samples(where, PAYMENTS)) == 160
    assert brought.counts[DropReason.OTHER_CLUSTER] == 12
    assert [sum(arrivals.new.values()) for arrivals in brought.arrived.values()] == [480, 480]


def test_a_truncated_file_gives_its_complete_points_and_makes_its_days_partial(tmp_path):
    where = lake()
    path = written(tmp_path, "a.om")
    text = path.read_text()
    path.write_text(text[: len(text) * 2 // 3])
    brought = read(where, path)
    assert brought.counts[DropReason.TRUNCATED] == 1
    # `up` stands at the end of the file, so it is missing, too.
    (reasons,) = {manifest.partial for manifest in where.days(USAGE_SAMPLE)}
    assert reasons[0] == "the file a.om was not read whole"
    path.write_text(text)
    read(where, path)
    assert {manifest.partial for manifest in where.days(USAGE_SAMPLE)} == {()}
    assert len(samples(where)) == 160


def test_a_damaged_file_is_reported_and_the_others_are_read(tmp_path):
    where = lake()
    bad = tmp_path / "b.om"
    bad.write_bytes(b"\xff\n")
    brought = read(where, bad, written(tmp_path, "a.om"))
    assert "b.om" in brought.failures[0]
    assert len(samples(where)) == 160


def test_only_damaged_files_are_an_error(tmp_path):
    bad = tmp_path / "b.om"
    bad.write_bytes(b"\xff\n")
    with pytest.raises(TelemetryError, match=r"b\.om"):
        read(lake(), bad)


def test_points_outside_the_window_are_ignored(tmp_path):
    where = lake()
    window = (BEGIN + 300_000, BEGIN + 600_000)
    read(where, written(tmp_path, "a.om"), window=window)
    sample_rows = samples(where)
    assert len(sample_rows) == 40
    assert all(window[0] <= row[4] < window[1] for row in sample_rows)


def test_a_file_without_points_of_the_cluster_is_reported(tmp_path):
    source = ClusterSource(
        cluster="x",
        cluster_id="id-x",
        matchers=cluster_sources.parsed_matchers('cluster="x"'),
        scrape_ms=30_000,
    )
    brought = read(lake(), written(tmp_path, "a.om"), sources=(source,))
    assert "nothing" in brought.arrived["id-x"].remarks[0]
    assert brought.counts[DropReason.OTHER_CLUSTER] == len(SERIES)


def test_points_with_decreasing_times_are_counted_and_sorted(tmp_path):
    where = lake()
    turned = [(name, labels, points[::-1]) for name, labels, points in SERIES]
    brought = read(where, written(tmp_path, "a.om", turned))
    straight = lake()
    read(straight, written(tmp_path, "b.om"))
    assert brought.counts[DropReason.TIME_BACKWARDS] == len(SERIES) * 39
    assert samples(where) == samples(straight)


def test_a_format_that_is_not_read_is_refused_with_the_ones_that_are(tmp_path):
    path = tmp_path / "saved"
    response = {"status": "success", "data": {"result": [{"metric": {"__name__": "m"}}] * 10_000}}
    for text in (
        '{"status":"success","data":{"result":[]}}',
        json.dumps(response),
        "ts,metric,value\n1,m,2\n",
    ):
        path.write_text(text)
        with pytest.raises(TelemetryError, match=r"no sample in OpenMetrics|characters") as refused:
            read(lake(), path)
        assert "read a saved response from Prometheus itself" in refused.value.message


def test_more_points_than_fit_are_refused_with_a_way_to_read_them(tmp_path, monkeypatch):
    monkeypatch.setattr(file_import, "MOST_POINTS", 300)
    path, complete, where = written(tmp_path, "a.om"), lake(), lake()
    with pytest.raises(UsageError, match="more than 300 points") as refused:
        read(where, path)
    assert "--from and --to" in refused.value.hint
    for begin in range(BEGIN, BEGIN + 1_200_000, 600_000):
        read(where, path, window=(begin, begin + 600_000))
    monkeypatch.undo()
    read(complete, path)
    assert samples(where) == samples(complete)


def test_quotas_of_two_jobs_in_a_file_may_belong_to_two_clusters_but_other_jobs_may_not(tmp_path):
    use = 'kafka_server_client_quota_request_time{{job="{}",instance="b1"}} 1 1699999000'
    path = tmp_path / "saved.prom"
    anyone = ClusterSource(cluster="a", cluster_id="A", scrape_ms=30_000)
    lines = [use.format("kafka"), 'up{job="node",instance="n1"} 1 1699999000', "# EOF\n"]
    path.write_text("\n".join(lines))
    assert read(lake(), path, sources=(anyone,)).counts[DropReason.POINTS] == 2
    path.write_text("\n".join([use.format("kafka-2"), *lines]))
    with pytest.raises(TelemetryError, match="job is kafka, kafka-2"):
        read(lake(), path, sources=(anyone,))


def test_an_ingest_that_is_killed_at_any_step_continues_to_the_same_rows(tmp_path):
    (tmp_path / "in").mkdir()
    path = written(tmp_path / "in", "a.om", recorded_use.recorded(BEGIN, 40, brokers=1, users=1))
    (tmp_path / "before").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.ingest.dying", str(tmp_path), str(path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    report = json.loads(done.stdout)
    assert report["killed"] > 10
    assert report["different"] == []
