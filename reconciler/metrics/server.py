"""Serves ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, for probes and Prometheus.

Responses to probes are short and contain no names of entities: every client that reaches the port may read them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self

from aiohttp import web
from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.base.listeners import close_listeners
from reconciler.errors import ConfigError
from reconciler.metrics.registry import Metrics

MOST_LINES: Final = 20
"""Maximum number of problems in a response; the rest is counted."""

LONGEST_LINE: Final = 200
"""Maximum characters of a problem; longer ones are cut."""

_REQUEST_BYTES: Final = 1024
_KEEP_ALIVE_SECONDS: Final = 75.0  # longer than usual scrape intervals of 15 to 60 s
_SHUTDOWN_SECONDS: Final = 1.0

Problems = Callable[[], Sequence[str]]
"""Returns the present problems, one sentence each; empty = none. Called for every probe, so it must be fast."""


class ListenAddress(Struct, frozen=True, kw_only=True):
    """The address to listen on; port 0 = a free one."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"{self.port} is not a port", key="metrics-address")


def address(text: str) -> ListenAddress:
    """Parse ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT`` (every address of this machine).

    Raises:
        ConfigError: It is none of these.
    """
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or (":" in bare) != bracketed:
        raise ConfigError(
            f"{escaped(text)} is not a listen address",
            key="metrics-address",
            hint="write HOST:PORT, for example 127.0.0.1:9180, or :9180 for every address",
        )
    return ListenAddress(host=bare, port=int(port))


class HealthServer:
    """The server, as a context: it listens inside and is closed after it.

    Args:
        healthy: Returns problems that require a restart of the process.
        ready: Returns problems that prevent work at present.

    Raises:
        ConfigError: On entering, if the address cannot be bound.
    """

    def __init__(
        self, address: ListenAddress, *, metrics: Metrics, healthy: Problems, ready: Problems
    ) -> None:
        self._address = address
        self._metrics = metrics
        application = web.Application(client_max_size=_REQUEST_BYTES)
        application.router.add_get("/healthz", _probe(healthy))
        application.router.add_get("/readyz", _probe(ready))
        application.router.add_get("/metrics", self._scrape)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        self._listener: asyncio.Server | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port, once the server listens."""
        return self._port

    async def __aenter__(self) -> Self:
        handler = await set_up(self._runner)
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                handler, self._address.host or None, self._address.port
            )
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"cannot listen on {self._address.host}:{self._address.port}: {error.strerror}",
                key="metrics-address",
                hint="choose another address, or stop the process that uses it",
            ) from error
        self._port = int(self._listener.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            await close_listeners([self._listener])
        await self._runner.cleanup()

    async def _scrape(self, request: web.Request) -> web.Response:
        answer = self._metrics.answer(",".join(request.headers.getall("Accept", ())))
        # The header is set as it is: `content_type=` would refuse the parameters that Prometheus looks for.
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type})


async def set_up(runner: web.AppRunner) -> web.Server:
    """Set a runner up, and return what handles its connections."""
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - set by `setup`
    return runner.server


def _probe(problems: Problems) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        try:
            problem_lines = list(problems())
        except Exception as error:  # noqa: BLE001 - a check that fails is a problem, not a reason to be silent
            problem_lines = [f"the check itself failed: {type(error).__name__}"]
        return web.Response(status=503 if problem_lines else 200, text=_lines(problem_lines))

    return answer


def _lines(problems: Sequence[str]) -> str:
    if not problems:
        return "ok\n"
    lines = [_cut(escaped(problem)) for problem in problems[:MOST_LINES]]
    if len(problems) > MOST_LINES:
        lines.append(f"and {len(problems) - MOST_LINES} more")
    return "\n".join(lines) + "\n"


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
