"""Bytes between one socket and one receiver: TLS, buffered reading, closing. Independent of Kafka's protocol.

``BufferedProtocol`` lets the kernel write directly into the receiver's frame; reading a
15 MB response takes a quarter of the time of streams.
"""

import asyncio
import socket
import ssl
from typing import Final, Protocol

from reconciler.client.network.dialer import DialTarget
from reconciler.errors import ClientError, ConnectError, TlsError
from reconciler.wire.handshake import ListenerHint

_NAME_MISMATCH: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH
_SHUTDOWN_SECONDS: Final = 1.0
"""Timeout of the TLS shutdown; asyncio's default is 30 s, for a peer that may not answer."""

_EXPIRED: Final = 10
_NOT_YET: Final = 9
_UNTRUSTED: Final = frozenset({18, 19, 20, 21})  # self-signed, unknown issuer, incomplete chain
_NOT_TLS: Final = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "UNKNOWN_PROTOCOL",
        "RECORD_LAYER_FAILURE",
        "PACKET_LENGTH_TOO_LONG",
        "UNEXPECTED_EOF_WHILE_READING",
    }
)
_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
    "HANDSHAKE_FAILURE",
)


class TransportReceiver(Protocol):
    """Receiver of the bytes."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        ...

    def buffer_updated(self, count: int) -> None:
        """Process ``count`` bytes that were written into the last buffer."""
        ...

    def transport_lost(self, error: ClientError) -> None:
        """Handle the end of the connection; called once, also after the client closed it."""
        ...


class Transport(asyncio.BufferedProtocol):
    """One connected socket, created by :func:`open_transport`."""

    def __init__(self, receiver: TransportReceiver, target: DialTarget) -> None:
        self._receiver = receiver
        self._target = target
        self._wire: asyncio.Transport | None = None
        self._closing = ""
        self.received = 0

    @property
    def node(self) -> str:
        """``host:port``."""
        return str(self._target.address)

    @property
    def tls(self) -> str:
        """Protocol version, "" without TLS."""
        ssl_object = self._wire.get_extra_info("ssl_object") if self._wire is not None else None
        return (ssl_object.version() or "") if ssl_object is not None else ""

    @property
    def peer(self) -> str:
        """The IP address of the peer."""
        peer_name = self._wire.get_extra_info("peername") if self._wire is not None else None
        return str(peer_name[0]) if peer_name else ""

    @property
    def is_open(self) -> bool:
        """Whether bytes can still be sent."""
        return self._wire is not None and not self._wire.is_closing()

    def write(self, frame: bytes) -> None:
        """Send bytes, or buffer them until the kernel accepts them."""
        if self._wire is not None:
            self._wire.write(frame)

    def close(self, reason: str = "") -> None:
        """Close at once: unsent data is dropped, a pending response is not read."""
        if self._wire is not None and not self._wire.is_closing():
            self._closing = reason or "closed by this client"
            self._wire.abort()

    # asyncio's side ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the event loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._wire = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._receiver.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes."""
        self.received += nbytes
        self._receiver.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        """Close after the peer's end of stream."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection with its error."""
        if self._closing:
            error: ClientError = ConnectError(self._closing, node=self.node)
        elif isinstance(exc, ssl.SSLError):
            error = tls_error(exc, self.node)
        elif isinstance(exc, OSError):
            error = ConnectError(
                f"the connection to {self.node} broke: {exc.strerror or type(exc).__name__}",
                node=self.node,
            )
        else:
            error = ConnectError(f"{self.node} closed the connection", node=self.node)
        self._receiver.transport_lost(error)


async def open_transport(
    opened: socket.socket,
    target: DialTarget,
    context: ssl.SSLContext | None,
    receiver: TransportReceiver,
) -> Transport:
    """Start TLS, if configured, on a connected socket and pass its bytes to the receiver.

    Raises:
        TlsError: The handshake failed for a permanent reason; the hint has the required change.
        ConnectError: The connection was lost.
    """
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    transport = Transport(receiver, target)
    loop = asyncio.get_running_loop()
    try:
        if context is None:
            _ = await loop.create_connection(lambda: transport, sock=opened)
        else:
            _ = await loop.create_connection(
                lambda: transport,
                sock=opened,
                ssl=context,
                server_hostname=target.server_name,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
    except ssl.SSLError as error:
        raise tls_error(error, transport.node) from None
    except OSError as error:
        moment = "in the TLS handshake" if context is not None else "at once"
        raise ConnectError(
            f"{transport.node} closed the connection {moment}: {error.strerror or type(error).__name__}",
            node=transport.node,
            hint=ListenerHint.NO_TLS if context is not None else "",
        ) from None
    return transport


def tls_error(error: ssl.SSLError, node: str) -> TlsError:
    """Translate a TLS failure to an error with a hint for the user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_error(error, node)
    reason = getattr(error, "reason", "") or type(error).__name__
    if reason in _NOT_TLS:
        return TlsError(f"{node} does not use TLS ({reason})", node=node, hint=ListenerHint.NO_TLS)
    if any(part in reason for part in _OUR_CERTIFICATE):
        return TlsError(
            f"{node} refused the client certificate, or requires one ({reason})",
            node=node,
            hint="check ssl.keystore.* (certificate chain and key) and that the broker trusts its issuer",
        )
    return TlsError(
        f"TLS with {node} failed ({reason})",
        node=node,
        hint="compare ssl.enabled.protocols and ciphers",
    )


def _certificate_error(error: ssl.SSLCertVerificationError, node: str) -> TlsError:
    code = error.verify_code
    if code in _NAME_MISMATCH:
        return TlsError(
            f"the certificate of {node} is for another host name",
            node=node,
            hint="connect by the name in the certificate; an empty ssl.endpoint.identification.algorithm"
            " disables this check",
        )
    if code in {_EXPIRED, _NOT_YET}:
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return TlsError(
            f"the certificate of {node} {when}",
            node=node,
            hint="renew it, or check this machine's clock",
        )
    if code in _UNTRUSTED:
        return TlsError(
            f"the certificate of {node} is not signed by a trusted authority"
            f" ({error.verify_message})",
            node=node,
            hint="set the authority's certificate in ssl.truststore.location or ssl.truststore.certificates",
        )
    return TlsError(f"the certificate of {node} is refused: {error.verify_message}", node=node)
