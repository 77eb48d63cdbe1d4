"""The client of the Prometheus API: raw samples, every kind of refusal, and no secret in any message."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from reconciler.errors import TelemetryError, TelemetryUnavailable
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import RecordedSeries
from reconciler.evidence.ingest.readers.http_config import HttpConfig
from reconciler.evidence.ingest.readers.prometheus import (
    PrometheusClient,
    PrometheusLimits,
    ResponseTooLarge,
    series_of,
)
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus, Fault, error

T = 1_700_000_000_000
PLANTED = "hunter2-hunter2"
ALL = '{__name__="m"}'


def points(*at: int) -> list[tuple[int, str]]:
    return [(T + offset, str(offset)) for offset in at]


def filled(*, closed: bool = True) -> FakePrometheus:
    server = FakePrometheus(closed=closed)
    server.put("m", points(-1, 0, 500, 999, 1000), instance="b1", user="ü")
    return server


def run(
    server: FakePrometheus,
    do: Callable[[PrometheusClient], Awaitable[object]],
    *,
    config: HttpConfig | None = None,
    bounds: PrometheusLimits | None = None,
) -> tuple[object, PrometheusClient, FakeClock]:
    clock = FakeClock()

    async def ask() -> tuple[object, PrometheusClient, FakeClock]:
        async with (
            server,
            PrometheusClient(
                server.url, clock=clock, config=config, bounds=bounds or PrometheusLimits()
            ) as client,
        ):
            return await do(client), client, clock

    return asyncio.run(ask())


def raw(
    server: FakePrometheus, **more: object
) -> tuple[tuple[RecordedSeries, ...], PrometheusClient, FakeClock]:
    series, client, clock = run(server, lambda connection: connection.raw(ALL, T, T + 1000), **more)
    assert isinstance(series, tuple)
    return series, client, clock


@pytest.mark.parametrize("closed", [True, False])
def test_a_span_includes_its_start_and_excludes_its_end_for_every_version(closed: bool) -> None:
    """Ranges of Prometheus 3 exclude their start; those of 2 include it."""
    (series,), _, _ = raw(filled(closed=closed))
    assert (series.name, dict(series.labels)) == ("m", {"instance": "b1", "user": "ü"})
    assert list(series.points) == [(T, 0.0), (T + 500, 500.0), (T + 999, 999.0)]


def test_values_are_parsed_from_strings_of_every_kind() -> None:
    server = FakePrometheus()
    server.put("m", [(T, "NaN"), (T + 1, "+Inf"), (T + 2, "-Inf"), (T + 3, "1e3")])
    (series,), _, _ = raw(server)
    values = [value for _, value in series.points]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 1000.0]


def test_invalid_pairs_are_counted_and_the_others_are_read() -> None:
    at = T / 1000
    invalid = [[at, "one"], [at, "1_0"], [None, "1"], ["x"], [at, None], [1e300, "1"]]
    counts = DropCounts()
    series = series_of({"metric": {"__name__": "m"}, "values": [[at, "1"], *invalid]}, counts)
    assert series is not None
    assert list(series.points) == [(T, 1.0)]
    assert (counts[DropReason.BAD_VALUE], counts[DropReason.NOT_A_TIME]) == (5, 1)


def test_native_histograms_and_elements_that_are_no_series_are_counted() -> None:
    counts = DropCounts()
    elements = ({"metric": {"__name__": "h"}, "histograms": [[T, {}]]}, {"metric": {}}, ["m"])
    assert [series_of(element, counts) for element in elements] == [None] * 3
    assert dict(counts) == {DropReason.HISTOGRAMS: 1, DropReason.BAD_LINE: 2}


def test_an_empty_result_has_no_series() -> None:
    assert raw(FakePrometheus())[0] == ()


def test_names_and_labels_are_discovered() -> None:
    async def both(client: PrometheusClient) -> object:
        return await client.names(['{user="ü"}'], T, T + 1), await client.series(
            [ALL, '{a="b"}'], T, T + 1
        )

    names, labels = run(filled(), both)[0]
    assert names == ("m",)
    assert labels == ({"__name__": "m", "instance": "b1", "user": "ü"},)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, text="slow down"),
        Fault(status=500, text="<html>oops</html>"),
        Fault(cut=True),
        Fault(half=True),
        Fault(reset=True),
    ],
)
def test_transient_errors_are_retried_and_counted(fault: Fault) -> None:
    server = filled()
    server.faults = [fault, fault]
    series, client, clock = raw(server)
    assert len(series) == 1
    assert client.counts[DropReason.RETRIES] == 2
    assert clock.slept == [1.0, 2.0]


def test_a_server_that_remains_unavailable_is_a_transient_error() -> None:
    server = filled()
    server.faults = [Fault(status=503, text=error("starting up", "unavailable"))] * 9
    with pytest.raises(TelemetryUnavailable, match="starting up") as away:
        raw(server)
    assert away.value.retriable
    assert away.value.status == 503
    assert len(server.asked) == 6


def test_the_retry_after_of_a_server_is_used() -> None:
    server = filled()
    later = format_datetime(datetime.fromtimestamp(FakeClock().now() + 20, UTC), usegmt=True)
    server.faults = [
        Fault(status=429, headers={"Retry-After": "7"}),
        Fault(status=503, headers={"Retry-After": later}),
        Fault(status=503, headers={"Retry-After": "soon"}),
    ]
    _, _, clock = raw(server)
    assert clock.slept == [7.0, pytest.approx(13.0), 4.0]


def test_a_retry_after_of_an_hour_is_not_waited_for() -> None:
    server = filled()
    server.faults = [Fault(status=503, headers={"Retry-After": "3600"})]
    with pytest.raises(TelemetryUnavailable):
        raw(server)
    assert len(server.asked) == 1


LATE = error("query timed out in expression evaluation", "timeout")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(hang=True),
        Fault(status=503, text=LATE),
        Fault(status=504, text="<html>Gateway Time-out</html>"),
        Fault(status=422, text=error("context deadline exceeded", "execution")),
    ],
)
def test_a_query_that_times_out_is_too_large_and_other_requests_are_repeated(fault: Fault) -> None:
    server, bounds = filled(), PrometheusLimits(total_seconds=0.3)
    server.faults = [fault]
    with pytest.raises(ResponseTooLarge):
        raw(server, bounds=bounds)
    server = filled()
    server.faults = [fault]
    names, _, _ = run(server, lambda client: client.names([ALL], T, T + 1), bounds=bounds)
    assert names == ("m",)


def test_a_request_ends_at_one_deadline_whatever_an_attempt_may_take() -> None:
    server = filled()
    server.faults = [Fault(hang=True)] * 6
    with pytest.raises(TelemetryUnavailable, match="no answer within"):
        run(
            server,
            lambda client: client.names([ALL], T, T + 1),
            bounds=PrometheusLimits(total_seconds=9.0, query_seconds=1.0),
        )


@pytest.mark.parametrize("words", ["compacting", "the pool is empty"])
def test_other_failures_of_a_server_do_not_reduce_the_query(words: str) -> None:
    server = filled()
    server.faults = [Fault(status=503, text=words)] * 9
    with pytest.raises(TelemetryUnavailable) as away:
        raw(server)
    assert not isinstance(away.value, ResponseTooLarge)
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    ("status", "text", "message", "hint"),
    [
        (400, error("parse error: bad", "bad_data"), "parse error: bad", "matchers"),
        (401, "Unauthorized\n", "Unauthorized", "--http-config"),
        (403, "no", "no", "--http-config"),
        (404, "404 page not found\n", "404", "telemetry.prometheus"),
        (404, "<html>lost</html>", "404", "telemetry.prometheus"),
        (422, error("division by zero", "execution"), "division by zero", ""),
        (302, "", "redirect", "login"),
    ],
)
def test_refusals_are_final_and_contain_the_message_of_the_server(
    status: int, text: str, message: str, hint: str
) -> None:
    server = filled()
    server.faults = [Fault(status=status, text=text, headers={"Location": "/login"})]
    with pytest.raises(TelemetryError, match=message) as refused:
        raw(server)
    assert not refused.value.retriable
    assert refused.value.status == status
    assert hint in refused.value.hint
    assert "<" not in refused.value.message
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (422, "query processing would load too many samples into memory in query execution"),
        (422, "the query hit the max number of chunks limit (err-mimir-max-chunks-per-query)"),
        (400, "exceeded maximum resolution of 11,000 points per timeseries"),
        (400, "the query time range exceeds the limit (query length: 2h, limit: 1h)"),
        (413, "request entity too large"),
    ],
)
def test_a_query_that_is_too_large_has_its_own_error(status: int, words: str) -> None:
    server = filled()
    server.faults = [Fault(status=status, text=error(words, "execution"))]
    with pytest.raises(ResponseTooLarge):
        raw(server)


def test_a_response_above_the_limit_is_reported_as_a_query_that_is_too_large() -> None:
    with pytest.raises(ResponseTooLarge, match="100 bytes"):
        raw(filled(), bounds=PrometheusLimits(answer_bytes=100))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"status":"error"}',
        '{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}',
        '{"status":"success"}',
    ],
)
def test_other_json_is_refused_as_a_response(text: str) -> None:
    server = filled()
    server.faults = [Fault(text=text)]
    with pytest.raises(TelemetryError, match=r"not a matrix|something else than"):
        raw(server)


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ({"warnings": ["store 10.0.0.1 down"]}, DropReason.WARNINGS),
        ({"partial_response": True}, DropReason.WARNINGS),
        ({"isPartial": True}, DropReason.WARNINGS),
        ({"infos": ["metric might not be a counter"]}, DropReason.INFOS),
    ],
)
def test_a_partial_response_is_counted(extra: dict[str, object], word: DropReason) -> None:
    server = filled()
    server.extra = extra
    _, client, _ = raw(server)
    assert dict(client.counts) == {word: 1}
    assert client.counts.partial is (word is DropReason.WARNINGS)


def test_an_unreachable_server_is_a_transient_error() -> None:
    async def ask() -> None:
        async with PrometheusClient("http://127.0.0.1:1", clock=FakeClock()) as client:
            await client.raw(ALL, T, T + 1)

    with pytest.raises(TelemetryUnavailable, match=r"127\.0\.0\.1:1"):
        asyncio.run(ask())


def test_headers_are_sent_and_no_secret_is_ever_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = HttpConfig(
        headers={"Authorization": f"Bearer {PLANTED}", "X-Scope-OrgID": "t1"},
        secrets=(PLANTED,),
        authorized=True,
    )
    server = filled()
    server.faults = [Fault(status=403, text=f"token {PLANTED} is revoked")]
    with pytest.raises(TelemetryError, match="is revoked") as refused:
        raw(server, config=config)
    assert server.headers[0]["Authorization"] == f"Bearer {PLANTED}"
    assert server.headers[0]["X-Scope-OrgID"] == "t1"
    for text in (str(refused.value), repr(refused.value), repr(config), caplog.text):
        assert PLANTED not in text


@pytest.mark.parametrize(
    "address",
    [
        "prometheus:9090",
        "ftp://p",
        "http://",
        f"http://u:{PLANTED}@p",
        "http://p/?a=b",
        "http://p#x",
        "http://p:x",
    ],
)
def test_an_invalid_address_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(TelemetryError) as wrong:
        PrometheusClient(address, clock=FakeClock())
    assert PLANTED not in str(wrong.value) + wrong.value.hint


def test_credentials_require_tls_except_for_this_machine() -> None:
    config = HttpConfig(headers={"Authorization": "Bearer x"}, authorized=True)
    PrometheusClient("http://127.0.0.1:9090/api/v1/", clock=FakeClock(), config=config)
    PrometheusClient("https://p", clock=FakeClock(), config=config)
    with pytest.raises(TelemetryError, match="unencrypted"):
        PrometheusClient("http://prometheus:9090", clock=FakeClock(), config=config)


def test_logins_of_netrc_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login u password {PLANTED}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    without, with_one = filled(), filled()
    raw(without)
    assert "Authorization" not in without.headers[0]
    # With another header aiohttp would refuse to send both.
    raw(with_one, config=HttpConfig(headers={"Authorization": "Bearer x"}, authorized=True))
    assert with_one.headers[0]["Authorization"] == "Bearer x"


def test_requests_use_the_proxy_of_the_environment_except_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = filled()

    async def ask() -> tuple[RecordedSeries, ...]:
        async with server:
            monkeypatch.setenv("http_proxy", server.url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            async with PrometheusClient(
                "http://prometheus.invalid:9090", clock=FakeClock()
            ) as client:
                return await client.raw(ALL, T, T + 1000)

    assert len(asyncio.run(ask())) == 1
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert len(raw(filled())[0]) == 1


def test_the_login_of_a_proxy_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    server = filled()
    server.faults = [Fault(status=400, text=f"proxy {PLANTED}")]

    async def ask() -> None:
        async with server:
            monkeypatch.setenv("http_proxy", server.url.replace("//", f"//u:{PLANTED}@"))
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            async with PrometheusClient("http://p.invalid", clock=FakeClock()) as client:
                await client.raw(ALL, T, T + 1)

    with pytest.raises(TelemetryError, match="proxy <hidden>") as refused:
        asyncio.run(ask())
    assert PLANTED not in str(refused.value)
    assert "Proxy-Authorization" in server.headers[0]


def test_an_invalid_request_is_an_error_of_kquota() -> None:
    config = HttpConfig(headers={"X-Key": "a\nb"}, authorized=True)
    with pytest.raises(TelemetryError, match="failed"):
        raw(filled(), config=config)
