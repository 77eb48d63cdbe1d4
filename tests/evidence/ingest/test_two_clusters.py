"""Several clusters in one Prometheus: each gets its own series; a series that matches two is rejected and counted."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import dialect_tables, file_import, label_matchers
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.file_import import FileImportRequest, FileImportResult
from reconciler.evidence.ingest.sample_days import ClusterArrivals, SampleDays
from reconciler.evidence.ingest.server_import import FetchWindow, ServerImportOptions, fetched
from reconciler.evidence.store.lake import Lake
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus

T = 1_699_999_000_000
SPAN = FetchWindow(from_ms=T, to_ms=T + 1000, follows=True)


def source(name: str, text: str) -> ClusterSource:
    return ClusterSource(
        cluster=name,
        cluster_id=name.upper(),
        matchers=label_matchers.parsed(text),
        scrape_ms=15_000,
    )


def arrive(own_source: ClusterSource, *neighbours: ClusterSource) -> ClusterArrivals:
    clock = FakeClock()
    lake = Lake(PassingStore(), clock=clock)

    async def fetch_span() -> ClusterArrivals:
        async with FakePrometheus() as server:
            for cluster in ("a", "ab", "b"):
                server.put(
                    "kafka_server_client_quota_request_time",
                    [(T, "1")],
                    cluster=cluster,
                    instance=cluster,
                )
            everybody = [
                replace(source, prometheus=server.url) for source in (own_source, *neighbours)
            ]
            asking = ServerImportOptions(
                dialects=dialect_tables.shipped(), sources_of_address=tuple(everybody)
            )
            days = SampleDays(lake, everybody[0].cluster_id, everybody[0].cadence)
            return await fetched(lake, everybody[0], SPAN, asking, days=days, clock=clock)

    return asyncio.run(fetch_span())


def test_a_series_that_matches_two_clusters_is_assigned_to_neither() -> None:
    arrived = arrive(source("a", 'cluster=~"a.*"'), source("b", 'cluster=~".*b"'))
    assert arrived.counts[DropReason.TWO_CLUSTERS] == 1
    assert arrived.failures == []
    assert arrived.counts[DropReason.POINTS] == 1


def test_a_second_cluster_without_matchers_would_match_everything_and_is_refused() -> None:
    with pytest.raises(TelemetryError, match=r"b has no telemetry\.matchers"):
        arrive(source("a", 'cluster="a"'), source("b", ""))


def in_a_file(tmp_path: Path, *lines: str) -> FileImportResult:
    path = tmp_path / "saved.prom"
    path.write_text("\n".join([*lines, "# EOF\n"]))
    lake = Lake(PassingStore(), clock=FakeClock())
    files = FileImportRequest(paths=(path,), dialects=dialect_tables.shipped())
    return file_import.read(lake, [source("a", "")], files, clock=FakeClock())


USE = 'kafka_server_client_quota_request_time{{job="{}",instance="b1"}} 1 {}'


def test_other_scraped_jobs_do_not_count_as_other_clusters(tmp_path: Path) -> None:
    brought = in_a_file(
        tmp_path, USE.format("kafka", T // 1000), f'up{{job="node",instance="n1"}} 1 {T // 1000}'
    )
    assert brought.counts[DropReason.POINTS] == 2


def test_quotas_of_two_jobs_in_a_file_may_belong_to_two_clusters(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="job is kafka, kafka-2"):
        in_a_file(tmp_path, USE.format("kafka", T // 1000), USE.format("kafka-2", T // 1000))
