"""The webhook over HTTPS: responses, invalid requests, floods, hangs, renewed certificates; its faults never deny."""

import asyncio
import gc
import io
import json
import shutil
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from reconciler.errors import ConfigError, KubernetesUnavailable, UsageError
from reconciler.kube.admission import webhook
from reconciler.kube.admission.webhook import (
    KEPT_SECONDS,
    LARGEST_BODY,
    Certificate,
    Webhook,
    serving,
)
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.metrics import address
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota, review
from tests.leaked_sockets import STEPS, leaks
from tests.servers.certs import Authority


class FakeReviewer:
    """A reviewer that waits for a gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.asked = 0
        self._more = asyncio.Condition()

    async def asked_for(self, times: int) -> None:
        """Return when a given number of requests wait at the gate."""
        async with self._more:
            await self._more.wait_for(lambda: self.asked >= times)

    async def __call__(self, obj: Resource) -> tuple[str, ...]:
        async with self._more:
            self.asked += 1
            self._more.notify_all()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return ()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca"), name="webhook test CA")


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> tuple[Path, Path]:
    return placed(authority, tmp_path, "first")


def placed(authority: Authority, folder: Path, name: str) -> tuple[Path, Path]:
    identity = authority.server(name)
    chain, key = folder / "tls.crt", folder / "tls.key"
    shutil.copy(identity.certificate, chain)
    shutil.copy(identity.key, key)
    return chain, key


class Client:
    """A caller that trusts the authority."""

    def __init__(self, session: aiohttp.ClientSession, url: str, context: ssl.SSLContext) -> None:
        self._session, self._url, self._context = session, url, context

    async def post(self, body: Any, path: str = "/validate") -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._session.post(
            self._url + path, data=io.BytesIO(data), ssl=self._context
        ) as response:
            text = await response.text()
            return response.status, json.loads(text) if text.startswith("{") else text

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self._url.removeprefix("https://").rpartition(":")
        return await asyncio.open_connection(host, int(port), ssl=self._context)

    async def subject(self) -> str:
        """The common name of the certificate for a new connection."""
        host, _, port = self._url.removeprefix("https://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=self._context)
        subject = writer.get_extra_info("peercert")["subject"]
        writer.close()
        await writer.wait_closed()
        return dict(pair for group in subject for pair in group)["commonName"]


@asynccontextmanager
async def running(authority: Authority, files: tuple[Path, Path], **options: Any):
    reviewer = FakeReviewer()
    certificate = Certificate(chain=files[0], key=files[1])
    where = address("127.0.0.1:0")
    async with (
        Webhook(where, certificate, reviewer, **options) as server,
        aiohttp.ClientSession() as session,
    ):
        url = f"https://127.0.0.1:{server.port}"
        yield Client(session, url, authority.client_context()), reviewer, certificate


Test = Callable[[Client, FakeReviewer, Certificate], Awaitable[None]]


def story(authority: Authority, files: tuple[Path, Path], test: Test, **options: Any) -> None:
    async def run() -> None:
        async with running(authority, files, **options) as parts:
            await test(*parts)

    asyncio.run(run())


def test_a_review_is_answered_over_tls(authority: Authority, files: tuple[Path, Path]) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        status, body = await client.post(review(quota()))
        assert status == 200
        assert body["response"]["allowed"] is True
        assert body["response"]["uid"] == review(quota())["request"]["uid"]
        assert reviewer.asked == 1
        status, body = await client.post(review(quota(), operation="DELETE"))
        assert (status, body["response"]["allowed"], reviewer.asked) == (200, True, 1)

    story(authority, files, test)


@pytest.mark.parametrize("steps", STEPS)
def test_the_socket_of_a_connection_that_is_being_accepted_is_closed_with_the_webhook(
    files: tuple[Path, Path], steps: int
) -> None:
    certificate = Certificate(chain=files[0], key=files[1])
    server = Webhook(address("127.0.0.1:0"), certificate, FakeReviewer())
    assert leaks(server, lambda running: running.port, steps=steps) == []


def test_a_connection_whose_client_does_not_confirm_its_end_is_closed_with_the_webhook(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    certificate = Certificate(chain=files[0], key=files[1])

    def connect(port: int) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port))
        client = authority.client_context().wrap_socket(plain, server_hostname="localhost")
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 404"
        return client

    async def run() -> ssl.SSLSocket:
        async with Webhook(address("127.0.0.1:0"), certificate, FakeReviewer()) as server:
            return await asyncio.to_thread(connect, server.port)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client = asyncio.run(run())
        _ = gc.collect()
    client.close()
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"kind": "AdmissionReview"}', b'"x"', b"null"],
)
def test_malformed_json_is_a_bad_request(
    authority: Authority, files: tuple[Path, Path], body: bytes
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        assert (await client.post(body))[0] == 400
        assert reviewer.asked == 0

    story(authority, files, test)


def test_a_body_above_the_limit_is_not_read(authority: Authority, files: tuple[Path, Path]) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        assert (await client.post(b" " * (LARGEST_BODY + 1)))[0] == 413
        assert (await client.post(review(quota(), padding="x" * (2**19))))[0] == 200

    story(authority, files, test)


def test_bodies_above_the_total_limit_are_not_read(
    authority: Authority, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MOST_BYTES", 100_000)

    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        reviewer.gate.clear()
        large = review(quota(), padding="x" * 60_000)
        first = asyncio.ensure_future(client.post(large))
        await reviewer.asked_for(1)
        status, words = await client.post(large)
        assert (status, words) == (503, "too many requests are under way\n")
        assert (await asyncio.gather(first, release(reviewer)))[0][0] == 200
        assert (await client.post(large))[0] == 200

    async def release(reviewer: FakeReviewer) -> None:
        reviewer.gate.set()

    story(authority, files, test)


def test_a_body_that_does_not_arrive_closes_the_connection(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        reader, writer = await client.connected()
        writer.write(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
        writer.close()

    story(authority, files, test, budget=0.1)


@pytest.mark.parametrize("begin", [b"", b"POST /validate HTTP/1.1\r\nHost: "])
def test_a_connection_that_sends_no_request_is_closed(
    authority: Authority, files: tuple[Path, Path], begin: bytes
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        reader, writer = await client.connected()
        writer.write(begin)
        assert await reader.read() == b""
        writer.close()
        while True:  # on a busy machine the limit may end this connection too
            try:
                answer, _ = await client.post(review(quota()))
            except aiohttp.ServerDisconnectedError:
                continue
            assert answer == 200
            break

    story(authority, files, test, idle=0.1)


def test_a_connection_above_the_limit_is_closed(
    authority: Authority, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MOST_CONNECTIONS", 2)

    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        connections = [await client.connected() for _ in range(2)]
        with pytest.raises((aiohttp.ClientError, OSError)):
            await client.post(review(quota()))
        for _, writer in connections:
            writer.close()
            await writer.wait_closed()

    story(authority, files, test)


def test_with_a_configured_authority_only_its_callers_are_answered(
    authority: Authority, files: tuple[Path, Path], tmp_path: Path
) -> None:
    callers = Authority.make(tmp_path / "callers")
    caller = callers.client("kube-apiserver")
    strangers = Authority.make(tmp_path / "strangers").client("kube-apiserver")

    async def run() -> None:
        certificate = Certificate(chain=files[0], key=files[1], client_ca=callers.certificate_file)
        async with Webhook(address("127.0.0.1:0"), certificate, FakeReviewer()) as server:
            for identity, answered in ((caller, True), (None, False), (strangers, False)):
                async with aiohttp.ClientSession() as session:
                    context = authority.client_context(identity)
                    client = Client(session, f"https://127.0.0.1:{server.port}", context)
                    if answered:
                        assert (await client.post(review(quota())))[0] == 200
                    else:
                        with pytest.raises((aiohttp.ClientError, OSError)):
                            await client.post(review(quota()))

    asyncio.run(run())


def test_an_invalid_authority_for_callers_is_reported_at_the_start(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        Certificate(chain=files[0], key=files[1], client_ca=tmp_path / "ca.pem")
    with pytest.raises(UsageError, match="--webhook-client-ca needs --webhook-address"):
        OperatorSettings(
            identity="a", operator_namespace="b", webhook_client_ca=tmp_path / "ca.pem"
        )


def test_a_hung_api_server_costs_the_time_budget_and_a_warning(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        reviewer.gate.clear()
        _, body = await client.post(review(quota()))
        assert body["response"]["allowed"] is True
        assert "in time" in body["response"]["warnings"][0]

    # A second, because the request itself must arrive within the budget too.
    story(authority, files, test, budget=1.0)


def test_a_fault_of_the_program_is_a_warning_and_is_logged(
    authority: Authority, files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, _: Certificate) -> None:
        reviewer.error = ZeroDivisionError("planted")
        _, body = await client.post(review(quota()))
        assert body["response"]["allowed"] is True
        assert "internal error" in body["response"]["warnings"][0]
        assert "planted" not in json.dumps(body)

    story(authority, files, test)
    assert "ZeroDivisionError" in caplog.text


def test_a_renewed_certificate_is_used_without_a_restart(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, certificate: Certificate) -> None:
        assert await client.subject() == "first"
        placed(authority, files[0].parent, "second")
        assert certificate.renewed()
        assert await client.subject() == "second"

    story(authority, files, test)


def test_a_renewed_key_without_its_certificate_keeps_the_old_certificate_in_use(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    async def test(client: Client, reviewer: FakeReviewer, certificate: Certificate) -> None:
        identity = authority.server("second")
        shutil.copy(identity.certificate, files[0])
        assert not certificate.renewed()
        assert await client.subject() == "first"
        files[0].unlink()
        assert not certificate.renewed()
        shutil.copy(identity.certificate, files[0])
        shutil.copy(identity.key, files[1])
        assert certificate.renewed()
        assert await client.subject() == "second"

    story(authority, files, test)


def test_the_operators_webhook_reads_the_clusters_of_its_class_once_in_ten_seconds(
    authority: Authority, files: tuple[Path, Path]
) -> None:
    settings = OperatorSettings(
        identity="pod-1",
        operator_namespace="kafka",
        webhook_address="127.0.0.1:0",
        webhook_cert=files[0],
        webhook_key=files[1],
    )

    async def run() -> None:
        api, clock = FakeKubeApi(), FakeClock()
        foreign: Any = {
            "metadata": {"name": "prod"},
            "spec": {"bootstrapServers": "b:1", "operatorClass": "another"},
        }
        api.put(QUOTA_CLUSTERS, foreign)

        async def warnings(client: Client) -> list[str]:
            return (await client.post(review(quota())))[1]["response"].get("warnings", [])

        async with (
            serving(api, settings, clock=clock) as server,
            aiohttp.ClientSession() as session,
        ):
            client = Client(session, f"https://127.0.0.1:{server.port}", authority.client_context())
            assert await warnings(client) == ["QuotaCluster prod does not exist yet"]
            del foreign["spec"]["operatorClass"]
            api.put(QUOTA_CLUSTERS, foreign)
            assert await warnings(client) != []
            clock.advance(KEPT_SECONDS)
            assert await warnings(client) == []

            def away(*_: str) -> None:
                raise KubernetesUnavailable("10.0.0.1 is away")

            clock.advance(KEPT_SECONDS)
            api.before = away
            assert await warnings(client) == [
                "the operator did not review this, because the QuotaClusters cannot be listed"
            ]
        without = OperatorSettings(identity="pod-1", operator_namespace="kafka")
        with pytest.raises(UsageError):
            async with serving(api, without, clock=clock):
                pass

    asyncio.run(run())
