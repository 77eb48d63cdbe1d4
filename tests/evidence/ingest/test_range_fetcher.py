"""Time ranges from a Prometheus: windows, chunks, in order, resumable, equal to the stored data for any chunk size."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import TelemetryError, TelemetryUnavailable
from reconciler.evidence.ingest import dialect_tables, label_matchers, range_fetcher
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.prometheus import (
    BOUNDS,
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
)
from reconciler.evidence.ingest.range_fetcher import DiscoveredSeries, FetchedChunk, SeriesSelector
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import QUERY, FakePrometheus, Fault, error

WINDOW = 3_600_000
T = 1_700_000_000_000 - 1_700_000_000_000 % WINDOW
M = SeriesSelector(metric="m")
Key = tuple[tuple[tuple[str, str], ...], int, float]


def stored(server: FakePrometheus, from_ms: int, to_ms: int) -> list[Key]:
    return sorted(
        (tuple(sorted(labels.items())), at, float(value))
        for labels, points in server.samples
        for at, value in points
        if from_ms <= at < to_ms
    )


def fetched(several: Sequence[FetchedChunk]) -> list[Key]:
    return sorted(
        (tuple(sorted({"__name__": series.name, **series.labels}.items())), at, value)
        for chunk in several
        for series in chunk.series
        for at, value in series.points
    )


def fetch(
    server: FakePrometheus,
    from_ms: int,
    to_ms: int,
    selectors: Sequence[SeriesSelector] = (M,),
    *,
    most: int = 10**9,
    parallel: int = 4,
) -> tuple[list[FetchedChunk], DropCounts]:
    async def read_chunks() -> tuple[list[FetchedChunk], DropCounts]:
        async with server, PrometheusClient(server.url, clock=FakeClock()) as client:
            reading = range_fetcher.chunks(
                client, selectors, from_ms, to_ms, window_ms=WINDOW, parallel=parallel
            )
            async with contextlib.aclosing(reading):
                fetched_chunks = []
                async for chunk in reading:
                    fetched_chunks.append(chunk)
                    if len(fetched_chunks) == most:
                        break
                return fetched_chunks, client.counts

    return asyncio.run(read_chunks())


def filled(
    series: int = 3, points: int = 40, *, closed: bool = True, step: int = 300_000
) -> FakePrometheus:
    server = FakePrometheus(closed=closed)
    for number in range(series):
        server.put(
            "m",
            [(T + at * step, f"{number}.{at}") for at in range(points)],
            client_id=f'c|"{number}\n(.*)',
            user="u",
        )
    return server


@pytest.mark.parametrize("closed", [True, False])
def test_windows_start_at_multiples_and_together_cover_the_stored_span(closed: bool) -> None:
    server = filled(closed=closed)
    chunks, counts = fetch(server, T + 1, T + 3 * WINDOW - 5)
    assert [(chunk.from_ms, chunk.to_ms) for chunk in chunks] == [
        (T + 1, T + WINDOW),
        (T + WINDOW, T + 2 * WINDOW),
        (T + 2 * WINDOW, T + 3 * WINDOW - 5),
    ]
    assert fetched(chunks) == stored(server, T + 1, T + 3 * WINDOW - 5)
    assert dict(counts) == {}


def test_an_interrupted_fetch_continues_after_the_last_stored_chunk() -> None:
    first, _ = fetch(filled(), T, T + 3 * WINDOW, most=1)
    server = filled()
    second, _ = fetch(server, first[-1].to_ms, T + 3 * WINDOW)
    assert fetched([*first, *second]) == stored(server, T, T + 3 * WINDOW)


@given(
    st.integers(1, 30),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", ""]),
            st.sampled_from(["x", "y|z", "."]),
            st.lists(st.integers(0, 2 * WINDOW), min_size=1, max_size=12, unique=True),
        ),
        max_size=5,
        unique_by=lambda names: names[:2],
    ),
)
def test_everything_is_fetched_once_for_any_limit_of_the_server(
    most: int, several: list[tuple[str, str, list[int]]]
) -> None:
    server = FakePrometheus()
    server.max_samples = most
    for user, client, times in several:
        labels = {name: value for name, value in (("user", user), ("client_id", client)) if value}
        server.put("m", [(T + at, "1") for at in sorted(times)], **labels)
    expected = stored(server, T, T + WINDOW)
    try:
        chunks, counts = fetch(server, T, T + WINDOW)
    except TelemetryError as wrong:
        assert "a single series of m" in wrong.message  # noqa: PT017 - it may or may not raise
        return
    assert fetched(chunks) == expected
    assert bool(counts[DropReason.SPLITS]) is (len(expected) > most)


def test_a_query_that_cannot_be_split_by_time_is_split_by_a_label() -> None:
    """Names that look like expressions are literal."""
    server = filled(series=9, points=3, step=1)
    server.max_samples = 5
    chunks, counts = fetch(server, T, T + WINDOW)
    assert fetched(chunks) == stored(server, T, T + WINDOW)
    assert counts[DropReason.SPLITS] > 6
    assert any("=~" in query for query in server.queries())
    assert any("!~" in query for query in server.queries())


def test_one_series_that_is_too_large_is_an_error_that_names_it() -> None:
    server = filled(series=1, points=30, step=1)
    server.max_samples = 5
    with pytest.raises(TelemetryError, match="a single series of m over"):
        fetch(server, T, T + WINDOW)


class Slow(FakePrometheus):
    """Too slow for queries over a longer time."""

    most_ms = 0

    def _query(self, query: str, time: int) -> object:
        match = QUERY.fullmatch(query)
        assert match is not None
        if int(match[2]) > self.most_ms:
            return Fault(
                status=503, text=error("query timed out in expression evaluation", "timeout")
            )
        return super()._query(query, time)


def slow(most_ms: int) -> Slow:
    server = Slow()
    server.most_ms = most_ms
    server.put("m", [(T + at * 300_000, str(at)) for at in range(12)])
    return server


def test_a_query_that_times_out_is_split_into_halves_of_time() -> None:
    server = slow(WINDOW // 4)
    chunks, counts = fetch(server, T, T + WINDOW)
    assert fetched(chunks) == stored(server, T, T + WINDOW)
    assert counts[DropReason.SPLITS] == 3


def test_a_server_that_cannot_return_a_minute_is_unavailable_and_the_fetch_ends() -> None:
    server = slow(0)
    with pytest.raises(TelemetryUnavailable, match="timed out"):
        fetch(server, T, T + WINDOW)
    # Three times at first, then once for each half.
    assert len(server.asked) == 3 + 5


def test_queries_are_bounded_and_contain_the_matchers() -> None:
    server = FakePrometheus()
    names = [f"m{number}" for number in range(12)]
    for name in names:
        server.put(name, [(T, "1")], cluster="a")
        server.put(name, [(T, "2")], cluster="b")
    selectors = [
        SeriesSelector(metric=name, matchers=label_matchers.parsed('cluster="a"')) for name in names
    ]
    chunks, _ = fetch(server, T, T + WINDOW, selectors, parallel=3)
    assert [series.labels for series in chunks[0].series] == [{"cluster": "a"}] * 12
    assert server.most_running <= 3


@pytest.mark.parametrize(
    "part", ['"warnings":["one store is down"],"data":{"result":[]', '"data":{"result":[1]']
)
def test_only_the_window_with_missing_data_is_partial(part: str) -> None:
    server = filled()
    server.faults = [Fault(text=f'{{"status":"success",{part},"resultType":"matrix"}}}}')]
    chunks, counts = fetch(server, T, T + 2 * WINDOW)
    assert [chunk.partial for chunk in chunks] == [True, False]
    assert counts.partial


def test_a_refusal_cancels_all_pending_queries() -> None:
    server = filled()
    server.faults = [Fault(status=403)]
    with pytest.raises(TelemetryError, match="403"):
        fetch(server, T, T + WINDOW, [M, SeriesSelector(metric="n"), SeriesSelector(metric="o")])
    server = filled()
    server.faults = [Fault(status=503)] * 50
    with pytest.raises(TelemetryUnavailable):
        fetch(server, T, T + 5 * WINDOW)


def test_an_empty_window_is_a_chunk_and_an_empty_span_has_none() -> None:
    chunks, _ = fetch(FakePrometheus(), T, T + WINDOW)
    assert [(chunk.series, chunk.partial) for chunk in chunks] == [((), False)]
    assert fetch(FakePrometheus(), T, T) == ([], {})


def discovered(
    server: FakePrometheus, text: str = "", bounds: PrometheusLimits = BOUNDS
) -> DiscoveredSeries:
    async def discover() -> DiscoveredSeries:
        async with server, PrometheusClient(server.url, clock=FakeClock(), bounds=bounds) as client:
            return await range_fetcher.discovered(
                client, dialect_tables.shipped(), label_matchers.parsed(text), T, T + WINDOW
            )

    return asyncio.run(discover())


def test_existing_series_are_discovered_with_their_labels() -> None:
    server = FakePrometheus()
    server.put("up", [(T, "1")], job="kafka", cluster="a")
    server.put(
        "kafka_server_quota_byte_rate", [(T, "1")], resource="Produce", user="u", cluster="a"
    )
    server.put(
        "kafka_server_quota_byte_rate", [(T, "1")], resource="Produce", clientId="c", cluster="b"
    )
    server.put("go_threads", [(T, "1")], cluster="a")
    server.put("kafka_server_produce_user_u_byte_rate", [(T, "1")], cluster="a")
    everything = discovered(server)
    assert everything.labels["kafka_server_quota_byte_rate"] == {
        "resource",
        "user",
        "clientId",
        "cluster",
    }
    assert everything.labels["go_threads"] == frozenset()
    assert dialect_tables.shipped().detected(everything.labels).name == "jmx_exporter"
    assert {labels["__name__"] for labels in everything.series} == {
        "up",
        "kafka_server_quota_byte_rate",
    }


TOTAL = "kafka_server_brokertopicmetrics_bytesin_total"
BYTE_RATE = "kafka_server_quota_byte_rate"


def topics(server: FakePrometheus) -> FakePrometheus:
    server.put("up", [(T, "1")])
    server.put(BYTE_RATE, [(T, "1")], resource="Produce", user="u")
    server.put(TOTAL, [(T, "9")])
    for topic in range(5):
        server.put(TOTAL, [(T, "1")], topic=f"t{topic}")
    return server


def test_series_of_single_topics_are_neither_discovered_nor_fetched() -> None:
    server = topics(FakePrometheus())
    series = discovered(server)
    assert [labels for labels in series.series if labels["__name__"] == TOTAL] == [
        {"__name__": TOTAL}
    ]
    assert 'topic=""' in next(
        matcher
        for _, parameters in server.asked
        for matcher in parameters["match[]"]
        if TOTAL in matcher
    )
    dialects = dialect_tables.shipped()
    assert dialects.excluded(TOTAL) == ("topic",)
    selector = SeriesSelector(metric=TOTAL, without=dialects.excluded(TOTAL))
    (chunk,), _ = fetch(topics(FakePrometheus()), T, T + WINDOW, [selector])
    assert fetched([chunk]) == [((("__name__", TOTAL),), T, 9.0)]


def test_a_query_split_by_a_label_excludes_series_of_single_topics() -> None:
    server = topics(FakePrometheus())
    for instance in range(6):
        server.put(TOTAL, [(T, "9")], instance=f"b{instance}")
    server.max_samples = 2
    (chunk,), _ = fetch(server, T, T + WINDOW, [SeriesSelector(metric=TOTAL, without=("topic",))])
    assert len(fetched([chunk])) == 7


def test_a_warning_during_discovery_makes_the_discovered_series_partial() -> None:
    assert not discovered(topics(FakePrometheus())).partial
    text = '{"status":"success","data":[%s],"warnings":["a store is away"]}'
    for faults in (
        [Fault(text=text % f'"{BYTE_RATE}"')],
        [Fault(text=text % '"go_threads"')],
        [Fault(status=503), Fault(text=text % f'"{BYTE_RATE}"')],
    ):
        server = topics(FakePrometheus())
        server.faults = list(faults)
        assert discovered(server).partial


def test_discovery_uses_the_matchers() -> None:
    server = FakePrometheus()
    for cluster in ("a", "b"):
        server.put("up", [(T, "1")], cluster=cluster)
    assert discovered(server, 'cluster="a"').series == ({"__name__": "up", "cluster": "a"},)


def test_without_a_known_dialect_the_metric_names_are_returned_for_the_error() -> None:
    server = FakePrometheus()
    server.put("go_threads", [(T, "1")])
    series = discovered(server)
    assert series == DiscoveredSeries(labels={"go_threads": frozenset()}, series=())


def crowded() -> FakePrometheus:
    server = FakePrometheus()
    for hour in range(12):
        for metric in ("kafka_server_client_quota_byte_rate", "up"):
            server.put(metric, [(T + hour * 300_000, "1")], client_id=f"c{hour}", type="fetch")
    server.put("up", [(T, "1"), (T + WINDOW - 1, "1")], client_id="always")
    return server


def test_labels_too_many_for_one_response_are_queried_in_parts() -> None:
    series = discovered(crowded())
    assert len(series.series) == 25
    series_in_parts = discovered(crowded(), bounds=PrometheusLimits(answer_bytes=600))
    assert sorted(map(repr, series_in_parts.series)) == sorted(map(repr, series.series))
    assert series_in_parts.labels == series.labels
    with pytest.raises(ResponseTooLarge):
        discovered(crowded(), bounds=PrometheusLimits(answer_bytes=100))
