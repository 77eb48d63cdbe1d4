"""The transport on the standard library, for the client library, which has no dependencies. Call it in a thread.

`urllib` restarts its timeouts with every byte, so a peer that sends a byte now and then keeps it waiting indefinitely.
Here a timer shuts the socket down: the reading thread sees the end of the stream, and the caller gets a timeout.
"""

import contextlib
import errno
import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from typing import Any, Self

from reconciler.base.http.addresses import proxy_for
from reconciler.base.http.messages import HttpRequest, HttpResponse, NoResponse, NoResponseKind


class HttpDeadline:
    """The deadline of one exchange. Use it as a context around everything that is sent and read."""

    def __init__(self, seconds: float) -> None:
        self.passed = False  # whether the time was up before the context ended
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, opened: socket.socket) -> None:
        """Shut this socket down at the deadline.

        Raises:
            TimeoutError: The deadline has passed.
        """
        with self._lock:
            self._socket = opened
            if self.passed:
                raise TimeoutError("the deadline has passed")

    def _end(self) -> None:
        with self._lock:
            self.passed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    # Not ``SSLSocket.shutdown``, which would take the TLS state from the reading thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def send(
    request: HttpRequest, *, seconds: float, tls: ssl.SSLContext | None = None
) -> HttpResponse | NoResponse:
    """Send a request once, through the proxy of the environment.

    Args:
        request: The request, to a URL whose scheme was checked.
        seconds: Maximum time from connecting to the last byte.
        tls: ``None`` = the authorities of the machine.
    """
    with HttpDeadline(seconds) as deadline:
        response = _exchange(request, seconds, deadline, tls)
        if deadline.passed:  # the end of the stream is not the end of the answer
            return _too_late(seconds)
        return response


def _too_late(seconds: float) -> NoResponse:
    return NoResponse(kind=NoResponseKind.TIMEOUT, text=f"no answer within {seconds:.3g} s")


def _exchange(
    request: HttpRequest, seconds: float, deadline: HttpDeadline, tls: ssl.SSLContext | None
) -> HttpResponse | NoResponse:
    proxy = proxy_for(request.url)
    proxies = urllib.request.ProxyHandler(
        {urllib.parse.urlsplit(request.url).scheme: proxy} if proxy else {}
    )
    opener = urllib.request.build_opener(
        proxies, _NoRedirects, _PlainHandler(deadline), _TlsHandler(deadline, tls)
    )
    outgoing = urllib.request.Request(  # noqa: S310 - the scheme is checked when settings are made
        request.url, data=request.body, headers=dict(request.headers), method=request.method
    )
    try:
        try:
            answer = opener.open(outgoing, timeout=seconds)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read(request.max_bytes + 1)
            if len(body) > request.max_bytes:
                return NoResponse(
                    kind=NoResponseKind.TOO_LARGE,
                    text=f"the answer is larger than {request.max_bytes:,} bytes",
                )
            if getattr(answer, "length", 0):
                return NoResponse(kind=NoResponseKind.BROKEN, text="the answer ends too early")
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return HttpResponse(status=answer.status, headers=headers, body=body)
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return _too_late(seconds) if isinstance(reason, TimeoutError) else _no_response(reason)
    except (http.client.HTTPException, ValueError) as error:
        return NoResponse(kind=NoResponseKind.BROKEN, text=type(error).__name__)


def _no_response(error: BaseException | str) -> NoResponse:
    match error:
        case ssl.SSLCertVerificationError():
            kind = NoResponseKind.TLS
            return NoResponse(kind=kind, text=f"the certificate is not accepted: {error}")
        case socket.gaierror():
            return NoResponse(kind=NoResponseKind.NAME, text="the host name does not resolve")
        case ConnectionRefusedError():
            return NoResponse(kind=NoResponseKind.CONNECT, text=os.strerror(errno.ECONNREFUSED))
        case _:
            return NoResponse(kind=NoResponseKind.BROKEN, text=str(error))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would send secrets to an address that is not configured."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Return no request."""


class _WatchedConnection(http.client.HTTPConnection):
    """A connection whose socket is shut down at a deadline."""

    def __init__(self, host: str, *, deadline: HttpDeadline, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(host, **options)
        self._deadline = deadline

    def connect(self) -> None:
        super().connect()
        self._deadline.watch(self.sock)


class _WatchedTlsConnection(_WatchedConnection, http.client.HTTPSConnection):
    """A TLS connection whose socket is shut down at a deadline; watched once the handshake is done."""


class _PlainHandler(urllib.request.HTTPHandler):
    def __init__(self, deadline: HttpDeadline) -> None:
        super().__init__()
        self._open = partial(_WatchedConnection, deadline=deadline)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._open, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def __init__(self, deadline: HttpDeadline, tls: ssl.SSLContext | None) -> None:
        super().__init__(context=tls)
        self._open = partial(_WatchedTlsConnection, deadline=deadline, context=tls)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._open, req)
