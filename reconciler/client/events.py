"""Events of the client and their callbacks, which do nothing by default. No event contains payload or secrets."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec


class Connecting(msgspec.Struct, frozen=True):
    """A connection is about to be set up."""

    node: str  # every `host:port` that is dialed
    attempt: int  # number of the attempt, from 1
    seconds: float  # timeout of this attempt


class Connected(msgspec.Struct, frozen=True):
    """A transport is connected, TLS included; nothing was sent to the broker yet."""

    node: str  # `host:port` as configured or advertised
    address: str  # the IP address of the peer
    tls: str  # protocol version such as `TLSv1.3`, "" without TLS
    seconds: float  # since the first dial


class Disconnected(msgspec.Struct, frozen=True):
    """A connection ended; ``reason`` is "" if the client closed it because it was not needed."""

    node: str
    reason: str


class Authenticated(msgspec.Struct, frozen=True):
    """SASL succeeded; ``lifetime`` is the session's in seconds, 0 for no end; ``again`` on re-authentication."""

    node: str
    mechanism: str
    lifetime: float
    again: bool


class RequestSent(msgspec.Struct, frozen=True):
    """A request was sent. SASL requests are not reported, not even their sizes."""

    node: str
    api: str
    version: int
    bytes: int


class ResponseReceived(msgspec.Struct, frozen=True):
    """A response was read, ``seconds`` after its request was sent."""

    node: str
    api: str
    seconds: float
    bytes: int


class Retried(msgspec.Struct, frozen=True):
    """A call will be retried after ``pause`` seconds; ``attempt`` is the number of attempts so far."""

    api: str
    node: str
    attempt: int
    pause: float
    reason: str


class Throttled(msgspec.Struct, frozen=True):
    """The broker mutes this connection for ``seconds`` (KIP-219)."""

    node: str
    api: str
    seconds: float


class Rebootstrapped(msgspec.Struct, frozen=True):
    """The known brokers were dropped and the bootstrap addresses are used again (KIP-899, KIP-1102)."""

    reason: str


def _nothing(_: object, /) -> None:
    """Do nothing: the default of every event."""


class ClientEvents(msgspec.Struct, frozen=True, kw_only=True):
    """One callback per event. They run on the event loop between two steps of the protocol, so they must be quick."""

    connecting: Callable[[Connecting], None] = _nothing
    connected: Callable[[Connected], None] = _nothing
    disconnected: Callable[[Disconnected], None] = _nothing
    authenticated: Callable[[Authenticated], None] = _nothing
    request: Callable[[RequestSent], None] = _nothing
    response: Callable[[ResponseReceived], None] = _nothing
    retry: Callable[[Retried], None] = _nothing
    throttled: Callable[[Throttled], None] = _nothing
    rebootstrap: Callable[[Rebootstrapped], None] = _nothing


SILENT: Final = ClientEvents()

_Event = TypeVar("_Event")


def emit(listener: Callable[[_Event], None], event: _Event) -> None:
    """Call a listener; its exception goes to the loop's exception handler and never into the protocol."""
    try:
        listener(event)
    except Exception as error:  # noqa: BLE001 - a callable of the caller may raise anything
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a listener of {type(event).__name__} failed", "exception": error}
        )
