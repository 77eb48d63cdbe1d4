"""The reader against a real Prometheus whose blocks promtool wrote: fetched and recorded samples are equal."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest import dialect_tables, label_matchers, openmetrics, range_fetcher
from reconciler.evidence.ingest.cluster_sources import ClusterMatcher, ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import PointCollector
from reconciler.evidence.ingest.prometheus import (
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
)
from reconciler.evidence.ingest.range_fetcher import FetchedChunk, SeriesSelector
from reconciler.usage.tables import Measure
from tests.evidence.ingest.kafka_names import jmx, sanitized
from tests.fakes.clock import FakeClock
from tests.servers import prometheus

pytestmark = pytest.mark.integration

DAY = 86_400_000
T = 1_700_006_400_000  # midnight of a day
HOUR = 3_600_000
STEP = 15_000
BYTES = "kafka_server_client_quota_byte_rate"
CLIENTS = ("plain", 'x",user="admin', "ü\n*?\\", "a|b.*")
OF_ORDERS = label_matchers.parsed('cluster="orders"')


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


def expected(cluster: str, from_ms: int, to_ms: int, name: str = BYTES) -> list[str]:
    return texts_of(
        [
            (tuple(sorted(zip(pairs[::2], pairs[1::2], strict=True))), at, float(value))
            for (metric, *pairs), points in recorded().items()
            if metric == name and pairs[1] == cluster
            for at, value in points
            if from_ms <= at < to_ms
        ]
    )


def fetch(
    url: str,
    from_ms: int,
    to_ms: int,
    *,
    names: tuple[str, ...] = (BYTES,),
    window_ms: int = HOUR,
    bounds: PrometheusLimits | None = None,
) -> tuple[list[FetchedChunk], DropCounts]:
    async def read_chunks() -> tuple[list[FetchedChunk], DropCounts]:
        async with PrometheusClient(
            url, clock=FakeClock(), bounds=bounds or PrometheusLimits()
        ) as client:
            selectors = [SeriesSelector(metric=name, matchers=OF_ORDERS) for name in names]
            reading = range_fetcher.chunks(client, selectors, from_ms, to_ms, window_ms=window_ms)
            async with contextlib.aclosing(reading):
                return [chunk async for chunk in reading], client.counts

    return asyncio.run(read_chunks())


def samples(chunks: list[FetchedChunk]) -> list[str]:
    return texts_of(
        [
            (tuple(sorted(series.labels.items())), at, value)
            for chunk in chunks
            for series in chunk.series
            for at, value in series.points
        ]
    )


def test_every_sample_of_the_cluster_is_fetched_as_it_was_recorded(stored: Stored) -> None:
    chunks, counts = fetch(stored.url, T, T + 3 * HOUR)
    assert samples(chunks) == expected("orders", T, T + 3 * HOUR)
    assert dict(counts) == {}


def test_adjacent_spans_contain_each_sample_once(stored: Stored) -> None:
    """One starts and one ends exactly on a sample."""
    middle = T + 137 + 40 * STEP
    first, _ = fetch(stored.url, T, middle)
    second, _ = fetch(stored.url, middle, T + HOUR)
    assert samples([*first, *second]) == expected("orders", T, T + HOUR)
    assert samples(second) == expected("orders", middle, T + HOUR)


def test_a_server_with_a_low_limit_is_queried_in_parts(blocks: Path) -> None:
    with Stored(blocks / "data", "--query.max-samples=300") as server:
        chunks, counts = fetch(server.url, T, T + HOUR)
    assert samples(chunks) == expected("orders", T, T + HOUR)
    assert counts[DropReason.SPLITS] > 3


def test_queries_that_cannot_be_split_by_time_are_split_by_series(blocks: Path) -> None:
    """Names with every special character are quoted in regular expressions and returned unchanged."""
    with Stored(blocks / "data", "--query.max-samples=6") as server:
        chunks, counts = fetch(server.url, T, T + 120_000)
    assert samples(chunks) == expected("orders", T, T + 120_000)
    assert counts[DropReason.SPLITS] > 3


def test_a_response_above_the_limit_is_queried_in_parts(stored: Stored) -> None:
    chunks, counts = fetch(stored.url, T, T + HOUR, bounds=PrometheusLimits(answer_bytes=20_000))
    assert samples(chunks) == expected("orders", T, T + HOUR)
    assert counts[DropReason.SPLITS] > 0


def test_the_dialect_is_recognised_and_the_points_belong_to_the_cluster(stored: Stored) -> None:
    async def discover() -> range_fetcher.DiscoveredSeries:
        async with PrometheusClient(stored.url, clock=FakeClock()) as client:
            return await range_fetcher.discovered(
                client, dialect_tables.shipped(), OF_ORDERS, T, T + HOUR
            )

    discovered_series = asyncio.run(discover())
    dialect = dialect_tables.shipped().detected(discovered_series.labels)
    assert dialect.name == "kquota"
    source = ClusterSource(cluster="orders", cluster_id="ORDERS", matchers=OF_ORDERS)
    collector = PointCollector(ClusterMatcher([source]), dialect, read_ms=T + DAY)
    chunks, _ = fetch(stored.url, T, T + HOUR, names=tuple(discovered_series.labels))
    for chunk in chunks:
        for series in chunk.series:
            collector.add(series)
    points = collector.points()["ORDERS"]
    assert {series.names.client_id for series in points.series} == {"", *CLIENTS}
    assert {series.names.user for series in points.series} == {"", "al ice*"}
    assert {
        (points.series[row["series"]].origin.target.instance, row["value"])
        for row in points.rows.to_pylist()
        if points.series[row["series"]].names.measure is Measure.BROKER_ID
    } == {("b1:7071", 1.0), ("b2:7071", 2.0)}
    assert collector.counts[DropReason.POINTS] == collector.counts[DropReason.SERIES] * 200


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
