"""Endpoints that send a byte now and then never reach the read timeout; the deadline of the exchange ends them."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.base.backoff import Backoff
from reconciler.base.http.blocking import HttpDeadline
from reconciler.base.secret import Secret
from reconciler.client.auth.oidc import OidcSettings, OidcTokens
from reconciler.errors import AuthenticationError
from tests.client.support import on_loop
from tests.fakes.clock import FakeClock
from tests.servers.certs import Authority

PAUSE = 0.05
HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def dripping(begin: bytes, byte: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port whose server sends `begin`, and then single bytes until the connection is closed."""
    stop = threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                opened, _ = listener.accept()
                with contextlib.suppress(OSError), opened:
                    served = opened if tls is None else tls.wrap_socket(opened, server_side=True)
                    with served:
                        served.sendall(begin)
                        while not stop.wait(PAUSE):
                            served.sendall(byte)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def source(url: str, tls: ssl.SSLContext | None = None) -> OidcTokens:
    settings = OidcSettings(
        url=url,
        client_id="us",
        client_secret=Secret("x"),
        connect_seconds=0.5,
        tries_for=0.0,
        retry=Backoff(first=1.0, cap=1.0),
        tls=tls,
    )
    return OidcTokens(settings, FakeClock())


@pytest.mark.parametrize(
    ("begin", "byte"),
    [
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
        (HEAD + b"\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
        (HEAD + b"X-Header: ", b"x"),
        (b"", b"H"),
        (b"HTTP/1.1 500 No\r\n\r\n", b"x"),
    ],
    ids=["body", "body without length", "chunks", "header", "status line", "error"],
)
@on_loop
async def test_an_endpoint_that_sends_slowly_is_aborted_at_the_deadline(
    begin: bytes, byte: bytes
) -> None:
    with (
        dripping(begin, byte) as port,
        pytest.raises(AuthenticationError, match=r"no answer within 0\.5 s"),
    ):
        await source(f"http://127.0.0.1:{port}/token")()


@on_loop
async def test_a_tls_endpoint_that_sends_slowly_is_aborted_at_the_deadline(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    server = authority.server("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    with (
        dripping(HEAD + b"Content-Length: 1000\r\n\r\n", b"x", context) as port,
        pytest.raises(AuthenticationError, match=r"no answer within 0\.5 s"),
    ):
        await source(f"https://localhost:{port}/token", authority.client_context())()


def test_a_socket_that_was_opened_too_late_is_not_used() -> None:
    client, peer = socket.socketpair()
    deadline = HttpDeadline(0.001)
    deadline.watch(client)  # before the time begins, because a busy machine may need longer for it
    with client, peer, deadline:
        assert peer.recv(1) == b""
        assert deadline.passed
        with pytest.raises(TimeoutError):
            deadline.watch(client)


def test_a_socket_that_is_already_closed_is_not_closed_again() -> None:
    client, peer = socket.socketpair()
    peer.close()
    client.close()
    deadline = HttpDeadline(0.001)
    deadline.watch(client)
    with deadline:
        deadline._timer.join()
        assert deadline.passed
