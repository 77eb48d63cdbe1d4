"""The reader against a real Prometheus whose blocks promtool wrote: fetched and recorded samples are equal."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import cluster_sources, dialect_tables, server_import
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers import openmetrics
from reconciler.evidence.ingest.readers.prometheus import (
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
)
from reconciler.evidence.ingest.sample_days import ClusterArrivals, SampleDays
from reconciler.evidence.store.lake import Lake
from reconciler.usage.samples import half_up
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.ingest.kafka_names import jmx, sanitized
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.servers import prometheus

pytestmark = pytest.mark.integration

T = 1_700_006_400_000  # midnight of a day
HOUR = 3_600_000
STEP = 15_000
BYTES = "kafka_server_client_quota_byte_rate"
CLIENTS = ("plain", 'x",user="admin', "ü\n*?\\", "a|b.*")


def recorded() -> dict[tuple[str, ...], list[tuple[int, str]]]:
    """Name, cluster and labels -> samples: more than two hours, one gap, NaN, series of another cluster."""
    points_by_series: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for cluster in ("orders", "payments"):
        for broker in ("1", "2"):
            own = ("cluster", cluster, "instance", f"b{broker}:7071")
            times = [T + int(broker) * 137 + at * STEP for at in range(520) if not 100 <= at < 140]
            points_by_series["up", *own] = [(at, "1") for at in times]
            points_by_series["kafka_server_app_info", *own, "broker_id", broker] = [
                (at, "1") for at in times
            ]
            for number, client in enumerate(CLIENTS):
                tags = ("user", sanitized("al ice*"), "client_id", jmx(client), "type", "produce")
                points_by_series[BYTES, *own, *tags] = [
                    (at, "NaN" if (at // STEP) % 50 == 0 else str(float(at % 1000 + number)))
                    for at in times
                ]
    return points_by_series


def as_openmetrics(series: dict[tuple[str, ...], list[tuple[int, str]]]) -> str:
    lines = []
    for (name, *pairs), points in sorted(series.items()):
        escaped = (
            label_value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            for label_value in pairs[1::2]
        )
        labels = ",".join(
            f'{label}="{value}"' for label, value in zip(pairs[::2], escaped, strict=True)
        )
        lines += [f"{name}{{{labels}}} {value} {at / 1000}" for at, value in points]
    return "\n".join([*lines, "# EOF\n"])


class Stored(prometheus.Server):
    """A Prometheus over existing blocks, kept for a hundred years."""

    def __init__(self, blocks: Path, *flags: str) -> None:
        def command(scratch: Path, port: int) -> list[str]:
            file = scratch / "prometheus.yml"
            file.write_text("{}")
            return [
                str(prometheus.folder(prometheus.PROMETHEUS) / "prometheus"),
                f"--config.file={file}",
                f"--storage.tsdb.path={blocks}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
                *flags,
            ]

        super().__init__("prometheus", command)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tsdb")
    source = folder / "recorded.txt"
    source.write_text(as_openmetrics(recorded()), encoding="utf-8")
    prometheus.promtool(
        "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder / "data")
    )
    (
        folder / "data" / "wal"
    ).mkdir()  # without it `promtool tsdb dump` refuses data that no server has opened yet
    return folder


@pytest.fixture(scope="module")
def stored(blocks: Path) -> Iterator[Stored]:
    with Stored(blocks / "data") as server:
        yield server


def texts_of(samples: object) -> list[str]:
    """Samples as texts, so that NaN equals itself."""
    assert isinstance(samples, list)
    return sorted(map(repr, samples))


def fetched(url: str, cluster: str, to_ms: int, **bounds: int) -> tuple[list[str], ClusterArrivals]:
    """The samples of a cluster, and what the import counted."""
    lake = Lake(PassingStore(), clock=FakeClock(), pause=lambda _: None)
    source = ClusterSource(
        cluster=cluster,
        cluster_id=cluster,
        prometheus=url,
        matchers=cluster_sources.parsed_matchers(f'cluster="{cluster}"'),
        scrape_ms=STEP,
    )
    days = SampleDays(lake, cluster, source.cadence)
    options = server_import.ServerImportOptions(
        dialects=dialect_tables.shipped(), bounds=PrometheusLimits(**bounds)
    )
    span = server_import.stretch(days, T, to_ms)
    clock = FakeClock(to_ms / 1000)
    arrived = asyncio.run(server_import.fetched(days, source, span, options, clock=clock))
    rows = lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()
    names = ("broker_id", "user", "client_id", "ts_ms", "rate_units")
    return sorted(repr([row[name] for name in names]) for row in rows), arrived


def expected(cluster: str, to_ms: int) -> list[str]:
    """The same from what was recorded; NaN is a gap."""
    return sorted(
        repr([labels["instance"][1], "al ice*", client, at, half_up(float(value))])
        for (metric, *pairs), points in recorded().items()
        if metric == BYTES
        for labels in [dict(zip(pairs[::2], pairs[1::2], strict=True))]
        for client in [next(each for each in CLIENTS if jmx(each) == labels["client_id"])]
        for at, value in points
        if labels["cluster"] == cluster and at < to_ms and value != "NaN"
    )


@pytest.mark.parametrize("cluster", ["orders", "payments"])
def test_every_sample_of_the_cluster_is_fetched_as_it_was_recorded(
    stored: Stored, cluster: str
) -> None:
    samples, arrived = fetched(stored.url, cluster, T + 3 * HOUR)
    assert samples == expected(cluster, T + 3 * HOUR)
    assert DropReason.SPLITS not in arrived.counts
    assert arrived.counts[DropReason.SERIES] % (4 + 2 * len(CLIENTS)) == 0  # of each window


def test_a_server_with_a_low_limit_is_queried_in_parts(blocks: Path) -> None:
    with Stored(blocks / "data", "--query.max-samples=300") as server:
        samples, arrived = fetched(server.url, "orders", T + HOUR)
    assert samples == expected("orders", T + HOUR)
    assert arrived.counts[DropReason.SPLITS] > 3


def test_a_response_above_the_limit_is_queried_in_parts(stored: Stored) -> None:
    samples, arrived = fetched(stored.url, "orders", T + HOUR, answer_bytes=20_000)
    assert samples == expected("orders", T + HOUR)
    assert arrived.counts[DropReason.SPLITS] > 0


def test_a_query_that_the_server_refuses_is_reported_with_its_message(stored: Stored) -> None:
    async def ask() -> None:
        async with PrometheusClient(stored.url, clock=FakeClock()) as client:
            await client.raw("{bad", T, T + HOUR)

    with pytest.raises(TelemetryError, match="parse error") as refused:
        asyncio.run(ask())
    assert refused.value.status == 400
    assert not isinstance(refused.value, ResponseTooLarge)


def test_a_dump_of_promtool_gives_the_recorded_points(blocks: Path, tmp_path: Path) -> None:
    """Compares the OpenMetrics reader with the file that Prometheus read."""
    dump = tmp_path / "dump.txt"
    dump.write_text(prometheus.promtool("tsdb", "dump", str(blocks / "data")), encoding="utf-8")

    def read(path: Path) -> list[str]:
        counts = DropCounts()
        point_rows = [
            (series.name, tuple(sorted(series.labels.items())), at, value)
            for series in openmetrics.read(path, counts)
            for at, value in series.points
        ]
        assert not counts.partial, counts.lines()
        return texts_of(point_rows)

    assert read(dump) == read(blocks / "recorded.txt")
