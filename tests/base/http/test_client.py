"""The contract of the HTTP client."""

import asyncio
import gzip
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from aiohttp import web

from reconciler.base.http.client import HttpClient, Route
from reconciler.base.http.messages import HttpRequest, HttpResponse, NoResponse, NoResponseKind
from tests.servers.certs import Authority

Answer: TypeAlias = HttpResponse | NoResponse
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def send(request: HttpRequest, seconds: float, tls: ssl.SSLContext | None) -> Answer:
    async with HttpClient(seconds=seconds, route=Route(tls=tls)) as client:
        return await client.send(request)


def exchanged(
    handler: Handler,
    *,
    by: Callable[[HttpRequest, float, "ssl.SSLContext | None"], Awaitable[Answer]] = send,
    max_bytes: int = 1000,
    seconds: float = 10.0,
    certificate: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    async def story() -> Answer:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate).start()
        scheme = "http" if certificate is None else "https"
        request = HttpRequest(
            method="POST",
            url=f"{scheme}://localhost:{runner.addresses[0][1]}/a?b=c",
            headers=headers or {},
            body=b"body",
            max_bytes=max_bytes,
        )
        try:
            return await by(request, seconds, tls)
        finally:
            await runner.cleanup()

    return asyncio.run(story())


def fixed(**options: object) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(**options)

    return handler


@pytest.mark.parametrize("status", [302, 307, 404, 503])
def test_every_status_is_a_response_and_redirects_are_not_followed(status: int) -> None:
    headers = {"Location": "http://127.0.0.1:1/elsewhere", "Retry-After": "7"}
    answer = exchanged(fixed(status=status, text="words", headers=headers))
    assert isinstance(answer, HttpResponse)
    assert (answer.status, answer.body, answer.retry_after(0.0)) == (status, b"words", 7.0)


def test_a_hung_server_ends_a_try_after_its_timeout() -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    answer = exchanged(handler, seconds=0.05)
    assert answer == NoResponse(kind=NoResponseKind.TIMEOUT, text="no answer within 0.05 s")


def test_a_body_that_ends_too_early_is_an_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    answer = exchanged(handler)
    assert isinstance(answer, NoResponse)
    assert (answer.kind, answer.is_transient, answer.may_be_sent) == (
        NoResponseKind.BROKEN,
        True,
        True,
    )


def test_a_port_without_a_server_is_reported_as_connection_refused() -> None:
    request = HttpRequest(method="GET", url="http://127.0.0.1:1/planted", max_bytes=1)
    answer = asyncio.run(send(request, 5.0, None))
    assert answer == NoResponse(kind=NoResponseKind.CONNECT, text="Connection refused")


def test_a_name_that_does_not_resolve_is_reported_without_the_url() -> None:
    request = HttpRequest(method="GET", url="http://planted.invalid/planted", max_bytes=1)
    answer = asyncio.run(send(request, 5.0, None))
    assert answer == NoResponse(kind=NoResponseKind.NAME, text="the host name does not resolve")


def test_a_certificate_of_an_unknown_authority_is_a_final_failure(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    server = authority.server("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    answer = exchanged(fixed(), certificate=context)
    assert isinstance(answer, NoResponse)
    assert (answer.kind, answer.is_transient) == (NoResponseKind.TLS, False)
    response = exchanged(fixed(), certificate=context, tls=authority.client_context())
    assert isinstance(response, HttpResponse)


def test_a_netrc_entry_for_the_host_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login me password planted\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text=request.headers.get("Authorization", "none"))

    answer = exchanged(handler)
    assert isinstance(answer, HttpResponse)
    assert answer.body == b"none"


def test_the_limit_of_a_compressed_body_applies_to_its_unpacked_size() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    assert len(bomb) < 20_000
    answer = exchanged(fixed(body=bomb, headers={"Content-Encoding": "gzip"}), max_bytes=20_000)
    assert isinstance(answer, NoResponse)
    assert answer.kind is NoResponseKind.TOO_LARGE


def test_a_body_can_be_truncated_instead_of_refused() -> None:
    async def send_cut(request: HttpRequest, seconds: float, _: ssl.SSLContext | None) -> Answer:
        async with HttpClient(seconds=seconds) as client:
            cut = HttpRequest(
                method=request.method, url=request.url, max_bytes=request.max_bytes, is_cut=True
            )
            return await client.send(cut)

    answer = exchanged(fixed(body=b"x" * 5000), max_bytes=10, by=send_cut)
    assert isinstance(answer, HttpResponse)
    assert answer.body == b"x" * 10


def test_a_request_with_invalid_headers_is_never_sent() -> None:
    answer = exchanged(fixed(), headers={"X-A": "a\nb"})
    assert isinstance(answer, NoResponse)
    assert (answer.kind, answer.may_be_sent, answer.is_transient) == (
        NoResponseKind.REQUEST,
        False,
        False,
    )


def test_the_proxy_of_the_environment_is_used_and_its_login_is_sent_to_the_proxy_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"{request.path} {'Proxy-Authorization' in request.headers}")

    async def through(request: HttpRequest, seconds: float, _: ssl.SSLContext | None) -> Answer:
        proxy = request.url.replace("//", "//me:planted@").partition("/a?")[0]
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        outside = HttpRequest(method="GET", url="http://elsewhere.invalid/x", max_bytes=100)
        return await send(outside, seconds, None)

    answer = exchanged(handler, by=through)
    assert isinstance(answer, HttpResponse)
    assert answer.body == b"/x True"


def test_a_large_response_is_in_memory_once() -> None:
    part, count = b"x" * 2**20, 32

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        _ = await response.prepare(request)
        for _ in range(count):
            await response.write(part)
        return response

    peaks: list[int] = []

    async def traced(request: HttpRequest, seconds: float, tls: ssl.SSLContext | None) -> Answer:
        tracemalloc.start()
        try:
            return await send(request, seconds, tls)
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    answer = exchanged(handler, by=traced, max_bytes=len(part) * count)
    assert isinstance(answer, HttpResponse)
    assert len(answer.body) == len(part) * count
    assert peaks[0] < 1.5 * len(answer.body)
