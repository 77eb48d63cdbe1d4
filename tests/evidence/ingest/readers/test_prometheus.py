"""The client of the Prometheus API: raw samples, every kind of refusal, and no secret in any message."""

import asyncio
import logging
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


def test_a_request_ends_at_one_deadline_whatever_an_attempt_may_take() -> None:
    server = filled()
    server.faults = [Fault(hang=True)] * 6
    with pytest.raises(TelemetryUnavailable, match="no answer within"):
        run(
            server,
            lambda client: client.names([ALL], T, T + 1),
            bounds=PrometheusLimits(total_seconds=9.0, query_seconds=1.0),
        )


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
