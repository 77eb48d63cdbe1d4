"""The validating webhook over HTTPS: bounded bodies, a budget per request, certificates reloaded. What is answered is `admission`.

It runs on every replica, leading or not, and fails open: whatever goes wrong here is a warning to the author of the
document, and the operator judges it again.
"""

import asyncio
import contextlib
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from reconciler.client.clock import SystemClock
from reconciler.errors import ConfigError, UsageError
from reconciler.kube.admission import (
    FINE,
    Broker,
    Decision,
    Malformed,
    Request,
    answer,
    decide,
    parse,
)
from reconciler.kube.api import Api
from reconciler.kube.cluster_file import read_clusters
from reconciler.kube.consulting import Consultant
from reconciler.kube.resources import Obj, name_of
from reconciler.kube.session import SessionKeeper
from reconciler.kube.settings import Settings
from reconciler.metrics import Address, address
from reconciler.ports import Clock

PATH: Final = "/validate"
BUDGET_SECONDS: Final = 4.0
"""For one request. The webhook configuration gives 5; the API server should hear a warning, not a timeout."""

LARGEST_BODY: Final = 4 * 1024 * 1024
"""The API server takes objects of up to 1.5 MiB; a review holds the old one and the new one."""

AT_ONCE: Final = 64
RELOAD_SECONDS: Final = 10.0

_log = logging.getLogger("reconciler.kube")
_BUSY: Final = Decision(
    warnings=("the broker was not asked, because too many requests are under way",)
)
_LATE: Final = Decision(warnings=("the broker was not asked, because it did not answer in time",))
_FAULT: Final = Decision(warnings=("the broker was not asked, because of a fault in the operator; its log says more",))  # fmt: skip


@contextlib.asynccontextmanager
async def serving(
    api: Api, settings: Settings, sessions: SessionKeeper, *, clock: Clock | None = None
) -> AsyncIterator["Webhook"]:
    """The webhook of an operator, listening while the context lasts.

    Raises:
        ConfigError: The certificate or key cannot be used, or the address cannot be listened on.
        UsageError: There is no address, certificate or key.
    """
    if settings.webhook_address is None or not settings.webhook_cert or not settings.webhook_key:
        raise UsageError("the webhook needs an address, a certificate and a key")
    objects = None if settings.quota_clusters is None else read_clusters(settings.quota_clusters)
    broker = Consultant(
        api,
        sessions,
        clock=clock or SystemClock(),
        operator_class=settings.operator_class,
        allow_references=settings.allow_references,
        from_file=None if objects is None else {name_of(one): one for one in objects},
    )
    certificate = Certificate(chain=settings.webhook_cert, key=settings.webhook_key)
    async with Webhook(address(settings.webhook_address), certificate, broker) as webhook:
        yield webhook


class Certificate:
    """A TLS context whose certificate follows its files, as cert-manager and the kubelet replace them.

    Args:
        chain: PEM certificates, our own first.
        key: Its PEM key.

    Raises:
        ConfigError: They cannot be used.
    """

    def __init__(self, *, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._marks()
        try:
            self.context.load_cert_chain(chain, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the webhook's certificate cannot be used: {_words(error)}",
                where=f"{chain}, {key}",
                hint="it needs a PEM chain and its unencrypted PEM key",
            ) from None

    def renewed(self) -> bool:
        """Whether the files changed and are in use now. A pair that does not fit yet is tried again later."""
        marks = self._marks()
        if marks == self._seen:
            return False
        try:
            # A context of its own first: half a pair must not replace the one that works.
            trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            trial.load_cert_chain(self._chain, self._key)
            self.context.load_cert_chain(self._chain, self._key)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the webhook's new certificate cannot be used yet: %s", _words(error))
            return False
        self._seen = marks
        return True

    def _marks(self) -> tuple[tuple[int, int, int], ...]:
        """What changes when a file does; links are followed, because the kubelet swaps a link."""
        found = []
        for path in (self._chain, self._key):
            try:
                stat = os.stat(path)  # noqa: PTH116 - one call for all three
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return tuple(found)


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__


class Webhook:
    """The server. Use it as a context.

    Args:
        where: Address to listen on.
        certificate: What it shows.
        broker: Whom it asks.
        budget: Seconds for one request.

    Attributes:
        port: Where it listens, once it does.
    """

    def __init__(
        self,
        where: Address,
        certificate: Certificate,
        broker: Broker,
        *,
        budget: float = BUDGET_SECONDS,
    ) -> None:
        self.port = 0
        self._where = where
        self._certificate = certificate
        self._broker = broker
        self._budget = budget
        self._under_way = 0
        self._runner: web.AppRunner | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=LARGEST_BODY)
        _ = application.router.add_post(PATH, self._validate)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=self._budget)
        await runner.setup()
        self._runner = runner
        site = web.TCPSite(
            runner,
            self._where.host or None,
            self._where.port,
            ssl_context=self._certificate.context,
        )
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"the webhook cannot listen on {self._where.host or '*'}:{self._where.port}:"
                f" {error.strerror or 'unknown'}",
                key="webhook-address",
            ) from None
        self.port = int(runner.addresses[0][1])
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._renewing is not None:
            _ = self._renewing.cancel()
            _ = await asyncio.wait({self._renewing})
        if self._runner is not None:
            await self._runner.cleanup()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            if self._certificate.renewed():
                _log.info("the webhook shows a new certificate")

    async def _validate(self, request: web.Request) -> web.Response:
        try:
            asked = parse(json.loads(await request.read()))
        except (Malformed, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, Malformed) else "the body is no JSON"
            return web.Response(status=400, text=f"{why}\n")
        decision = FINE if asked.obj is None else await self._decided(asked, asked.obj)
        return web.json_response(answer(asked, decision))

    async def _decided(self, asked: Request, obj: Obj) -> Decision:
        if self._under_way >= AT_ONCE:
            return _BUSY
        self._under_way += 1
        try:
            async with asyncio.timeout(self._budget):
                return await decide(obj, self._broker)
        except TimeoutError:
            return _LATE
        except Exception:  # noqa: BLE001 - a fault of ours must not be the author's
            _log.exception("admission %s failed", asked.uid)
            return _FAULT
        finally:
            self._under_way -= 1
