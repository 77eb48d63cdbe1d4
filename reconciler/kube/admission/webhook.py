"""The validating webhook over HTTPS: bounded connections and bytes, a time limit per request, certificates reloaded.

It runs on every replica, leading or not, and fails open: any failure here is a warning to the author of the document,
and the operator judges the document again. `review` has the warnings. No broker is asked, and no Secret is read.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias

from aiohttp import web

from reconciler.base import bounded_json
from reconciler.base.listeners import close_listeners
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, KquotaError, UsageError
from reconciler.kube.admission.review import (
    AdmissionRequest,
    MalformedReview,
    answer,
    parse,
    warnings_about,
)
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.configuration.cluster_references import read_clusters
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.metrics import ListenAddress, address
from reconciler.metrics.server import set_up

PATH: Final = "/validate"
BUDGET_SECONDS: Final = 4.0
"""Seconds for one request. The webhook configuration allows 5; the API server should receive a warning, not a timeout."""

LARGEST_BODY: Final = 1024 * 1024
"""A review contains the old and the new object, some 20 KB together. Above this the API server ignores the webhook."""

MOST_BYTES: Final = 4 * LARGEST_BODY
"""Of all bodies that are read or judged at the same time; as parsed JSON they take up to 25 times as much."""

MOST_CONNECTIONS: Final = 128
"""An API server opens a handful. Further connections are closed before anything is read."""

HANDSHAKE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 15.0
"""A connection without a request in flight is closed after this time; it also bounds the time of a request header."""

RELOAD_SECONDS: Final = 10.0

KEPT_SECONDS: Final = 10.0
"""Seconds for which QuotaClusters are cached: manifests are often applied by the hundred."""

_log = logging.getLogger("reconciler.kube")

Reviewer: TypeAlias = Callable[[Resource], Awaitable[tuple[str, ...]]]
"""Returns the warnings about a ClientQuota."""


class ServedClusters:
    """The QuotaClusters that an operator serves, as read some seconds ago; of every replica, leading or not."""

    def __init__(self, api: KubernetesApi, settings: OperatorSettings, *, clock: Clock) -> None:
        self._api, self._settings, self._clock = api, settings, clock
        self._until = float("-inf")
        self._clusters: Mapping[str, Resource] = {}
        if settings.quota_clusters is not None:
            self._until = float("inf")
            self._clusters = self._own(read_clusters(settings.quota_clusters))
        self._lock = asyncio.Lock()

    async def review(self, obj: Resource) -> tuple[str, ...]:
        """Return the warnings about a ClientQuota."""
        try:
            async with self._lock:
                if self._clock.monotonic() >= self._until:
                    listing = await self._api.list(QUOTA_CLUSTERS)
                    self._clusters = self._own(map(parsed, listing.items))
                    self._until = self._clock.monotonic() + KEPT_SECONDS
        except KquotaError as error:
            _log.warning("admission: QuotaClusters cannot be listed: %s", error)
            return (f"{_UNREVIEWED} the QuotaClusters cannot be listed",)
        return warnings_about(obj, self._clusters, allow_references=self._settings.allow_references)

    def _own(self, objects: Iterable[Resource]) -> Mapping[str, Resource]:
        own_class = self._settings.operator_class
        return {obj.name: obj for obj in objects if obj.operator_class == own_class}


_UNREVIEWED: Final = "the operator did not review this, because"


@contextlib.asynccontextmanager
async def serving(
    api: KubernetesApi, settings: OperatorSettings, *, clock: Clock
) -> AsyncIterator["Webhook"]:
    """Run the webhook of an operator while the context lasts.

    Raises:
        ConfigError: The certificate or key cannot be used, or the address cannot be bound.
        UsageError: The address, certificate or key is missing.
    """
    if settings.webhook_address is None or not settings.webhook_cert or not settings.webhook_key:
        raise UsageError("the webhook needs an address, a certificate and a key")
    certificate = Certificate(
        chain=settings.webhook_cert, key=settings.webhook_key, client_ca=settings.webhook_client_ca
    )
    clusters = ServedClusters(api, settings, clock=clock)
    async with Webhook(address(settings.webhook_address), certificate, clusters.review) as webhook:
        yield webhook


class Certificate:
    """A TLS context that reloads its certificate when cert-manager or the kubelet replaces the files.

    Args:
        chain: PEM certificates, the server's first.
        key: Its PEM key.
        client_ca: PEM certificates; only callers with a certificate of one of these authorities are accepted. ``None``
            = anyone.

    Raises:
        ConfigError: They cannot be used.
    """

    def __init__(self, *, chain: Path, key: Path, client_ca: Path | None = None) -> None:
        self._chain, self._key, self._client_ca = chain, key, client_ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._load()
        except OSError as error:  # Those of TLS are of this class.
            raise ConfigError(
                f"the webhook's certificate cannot be used: {error.strerror or type(error).__name__}",
                location=", ".join(map(str, filter(None, (chain, key, client_ca)))),
                hint="it needs a PEM chain and its unencrypted PEM key; --webhook-client-ca needs PEM certificates",
            ) from None

    def _load(self) -> None:
        # A separate context first: a mismatched pair must not replace the working one.
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for context in (trial, self.context):
            context.load_cert_chain(self._chain, self._key)
            if self._client_ca is not None:
                context.load_verify_locations(self._client_ca)
                context.verify_mode = ssl.CERT_REQUIRED

    def renewed(self) -> bool:
        """Load the files again; return whether they are in use. A pair that does not match yet is tried again later."""
        try:
            self._load()
        except OSError as error:
            text = error.strerror or type(error).__name__
            _log.warning("the webhook's new certificate cannot be used yet: %s", text)
            return False
        return True


class _RejectedConnection(asyncio.Protocol):
    """Aborts a connection above the limit, so that the API server continues without the webhook at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def _closing(status: int, words: str) -> web.Response:
    """Return a response after which the connection is closed."""
    response = web.Response(status=status, text=f"{words}\n")
    response.force_close()
    return response


class Webhook:
    """The server. Use it as a context.

    Args:
        reviewer: Returns the warnings about a document.
        budget: Seconds for one request: for its body, and again for the response.
        idle: Seconds that a connection may be open without a request.
    """

    def __init__(
        self,
        address: ListenAddress,
        certificate: Certificate,
        reviewer: Reviewer,
        *,
        budget: float = BUDGET_SECONDS,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.port = 0  # the port, once it listens
        self._address = address
        self._certificate = certificate
        self._reviewer = reviewer
        self._budget = budget
        self._idle = idle
        self._bytes = 0
        self._idle_since: dict[asyncio.BaseProtocol, float] = {}
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=LARGEST_BODY)
        _ = application.router.add_post(PATH, self._validate)
        # Data that a caller sends after the response is not read.
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=self._budget, lingering_time=0.0
        )
        handler = await set_up(runner)
        self._runner = runner
        try:
            self._server = await asyncio.get_running_loop().create_server(
                partial(self._connection, handler),
                self._address.host or None,
                self._address.port,
                ssl=self._certificate.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"the webhook cannot listen on {self._address.host or '*'}:{self._address.port}:"
                f" {error.strerror or 'unknown'}",
                key="webhook-address",
            ) from None
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._tasks = (
            asyncio.create_task(self._renew()),
            asyncio.create_task(self._close_idle(handler)),
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tasks:
            _ = task.cancel()
            _ = await asyncio.wait({task})
        if self._server is not None:
            await close_listeners([self._server])
        if self._runner is not None and self._runner.server is not None:
            transports = [connection.transport for connection in self._runner.server.connections]
            await self._runner.cleanup()
            # A TLS connection whose client does not confirm its end would stay open.
            for transport in filter(None, transports):
                transport.abort()
            await asyncio.sleep(0)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            _ = self._certificate.renewed()

    def _connection(self, handler: web.Server) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection: aiohttp, or a rejection if too many are open."""
        if len(handler.connections) >= MOST_CONNECTIONS:
            return _RejectedConnection()
        connection = handler()
        self._idle_since[connection] = asyncio.get_running_loop().time()
        return connection

    async def _close_idle(self, handler: web.Server) -> None:
        """Close connections that send no complete request header in time."""
        while True:
            await asyncio.sleep(self._idle / 4)
            limit = asyncio.get_running_loop().time() - self._idle
            open_ = {
                candidate for candidate in handler.connections if candidate.transport is not None
            }
            for connection, since in list(self._idle_since.items()):
                if since < limit:
                    del self._idle_since[connection]
                    for idle in open_ & {connection}:
                        idle.force_close()

    async def _validate(self, request: web.Request) -> web.Response:
        size = LARGEST_BODY if request.content_length is None else request.content_length
        if size > LARGEST_BODY:
            return _closing(413, f"the body has more than {LARGEST_BODY} bytes")
        if self._bytes + size > MOST_BYTES:
            return _closing(503, "too many requests are under way")
        self._bytes += size
        _ = self._idle_since.pop(request.protocol, None)
        try:
            async with asyncio.timeout(self._budget):
                body = await request.read()
            return await self._answered(body)
        except TimeoutError:
            return _closing(408, f"the body did not come within {self._budget:g} s")
        finally:
            self._bytes -= size
            self._idle_since[request.protocol] = asyncio.get_running_loop().time()

    async def _answered(self, body: bytes) -> web.Response:
        try:
            review = parse(bounded_json.parse(body, most_bytes=LARGEST_BODY))
        except (MalformedReview, bounded_json.InvalidJson) as error:
            reason = str(error) if isinstance(error, MalformedReview) else "the body is not JSON"
            return web.Response(status=400, text=f"{reason}\n")
        warnings = () if review.obj is None else await self._warnings(review, review.obj)
        return web.json_response(answer(review, warnings))

    async def _warnings(self, review: AdmissionRequest, obj: Resource) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._budget):
                return await self._reviewer(obj)
        except TimeoutError:
            return (f"{_UNREVIEWED} the API server did not list the QuotaClusters in time",)
        except Exception:  # noqa: BLE001 - a bug here must not block the author
            _log.exception("admission %s failed", review.uid)
            return (f"{_UNREVIEWED} of an internal error; see its log",)
