"""The transport on aiohttp. Needs an extra, so only adapters that need it too import this module.

Each attempt is one request: `retry` repeats it, the adapter interprets the response.
"""

import asyncio
import io
import os
import ssl
from collections.abc import Mapping
from typing import Final, Self

import aiohttp
from msgspec import Struct
from yarl import URL

from reconciler.base.http.messages import (
    HttpRequest,
    HttpResponse,
    NoResponse,
    NoResponseKind,
    proxy_for,
)
from reconciler.base.redaction import QuietRepr, redact_urls

_CHUNK: Final = 256 * 1024
_MAX_TEXT: Final = 300


class Route(QuietRepr, Struct, frozen=True, kw_only=True):
    """How a server is reached."""

    # None = the authorities of the machine.
    tls: ssl.SSLContext | None = None
    server_name: str = ""  # the name in the server's certificate; "" = the host of the URL
    # None = the environment's proxy for the URL, "" = none. It may contain a login.
    proxy: str | None = None


DEFAULT_ROUTE: Final = Route()


class HttpClient:
    """HTTP connections, opened by the first request, closed by :meth:`close` or the context.

    Args:
        seconds: Maximum time of one attempt, from connecting to the last byte; ``None`` = the caller limits each
            attempt.
        connections: Maximum number of connections; 0 = unlimited.
    """

    def __init__(
        self,
        *,
        seconds: float | None,
        connect_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
        route: Route = DEFAULT_ROUTE,
        connections: int = 100,
    ) -> None:
        self._seconds = seconds
        self._connect_seconds = connect_seconds
        self._headers = dict(headers or {})
        self._route = route
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self, request: HttpRequest, *, seconds: float | None = None, route: Route | None = None
    ) -> HttpResponse | NoResponse:
        """Send a request once.

        Args:
            seconds: Seconds until the deadline of all attempts, if they are fewer than the client's limit.
        """
        limits = [limit for limit in (self._seconds, seconds) if limit is not None]
        limit = max(min(limits), 0.001) if limits else None
        try:
            async with asyncio.timeout(limit):
                return await self._exchange(request, self._route if route is None else route)
        except aiohttp.ConnectionTimeoutError:
            return NoResponse(
                kind=NoResponseKind.CONNECT_TIMEOUT,
                text=f"no connection within {self._connect_seconds or 0:g} s",
            )
        except TimeoutError:
            return NoResponse(
                kind=NoResponseKind.TIMEOUT, text=f"no answer within {limit or 0:.3g} s"
            )
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            return _no_response(error)

    async def _exchange(self, request: HttpRequest, route: Route) -> HttpResponse | NoResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=75),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,  # it would also read ~/.netrc, and send its logins
            )
        proxy = proxy_for(request.url) if route.proxy is None else route.proxy
        async with self._session.request(
            request.method,
            URL(request.url, encoded=request.is_encoded),
            headers={**self._headers, **request.headers},
            data=request.body,
            ssl=route.tls if route.tls is not None else True,
            server_hostname=route.server_name or None,
            proxy=proxy or None,
            allow_redirects=False,
        ) as response:
            body = io.BytesIO()  # Its value is no copy: a listing of 96 MiB is in memory once.
            async for part in response.content.iter_chunked(_CHUNK):
                _ = body.write(part)
                if body.tell() > request.max_bytes and not request.is_cut:
                    return NoResponse(
                        kind=NoResponseKind.TOO_LARGE,
                        text=f"the answer is larger than {request.max_bytes:,} bytes",
                    )
                if body.tell() > request.max_bytes:
                    _ = body.truncate(request.max_bytes)
                    break
            return HttpResponse(
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=body.getvalue(),
            )


def _no_response(error: Exception) -> NoResponse:
    """Map an exception of aiohttp; several of them quote the whole URL, which is redacted."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            kind = NoResponseKind.TLS
            text = f"the certificate is not accepted: {error.certificate_error}"
        case aiohttp.ClientConnectorDNSError():
            kind, text = NoResponseKind.NAME, "the host name does not resolve"
        case aiohttp.ClientSSLError():
            kind, text = NoResponseKind.TLS, str(error)
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno  # asyncio's own words name the address instead
            kind, text = NoResponseKind.CONNECT, os.strerror(number) if number else "no connection"
        case aiohttp.InvalidURL():
            kind, text = NoResponseKind.REQUEST, "the URL is not valid"
        case aiohttp.ClientError() | OSError() | EOFError():
            kind = NoResponseKind.BROKEN
            text = (isinstance(error, OSError) and error.strerror) or str(error)
        case _:  # what aiohttp finds wrong with a request before it leaves
            kind, text = NoResponseKind.REQUEST, str(error)
    line = " ".join(redact_urls(text).split())[:_MAX_TEXT]
    return NoResponse(kind=kind, text=line or type(error).__name__)
