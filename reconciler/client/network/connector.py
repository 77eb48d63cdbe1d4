"""Opens a connection to one of several addresses, negotiated and logged in."""

import asyncio
import math
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.base.protocols import Clock
from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.events import ClientEvents, Connected, emit
from reconciler.client.network.connection import Connection
from reconciler.client.network.dialer import NoteCause, dial
from reconciler.client.network.login import Login
from reconciler.client.network.requests import Answer, ClientRequest, RequestFailed
from reconciler.client.network.transport import Transport, open_transport
from reconciler.errors import KquotaError

RequestSeconds = Mapping[ClientRequest[Any], float]
"""Requests that change nothing, in the order of sending, and the timeout in seconds of each response."""


class FirstFlight:
    """The requests in flight on a new connection; the first caller of each gets its response.

    Args:
        requests: Requests to send after the first request of the next connection.
        remaining: Returns the remaining seconds of the call when they are sent.
    """

    def __init__(
        self,
        requests: RequestSeconds | None = None,
        remaining: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.requests = requests or {}
        self._remaining = remaining
        self._connection: Connection | None = None
        self._tasks: dict[ClientRequest[Any], asyncio.Task[Any]] = {}

    def send(
        self, connection: Connection, first: ClientRequest[Answer], seconds: float
    ) -> asyncio.Task[Answer]:
        """Send a request and all others right after it.

        Returns:
            The task that waits for the response to the first one.
        """
        self._connection = connection
        first_task = asyncio.create_task(connection.ask(first, seconds=seconds))
        self._tasks = {
            request: asyncio.create_task(
                connection.ask(request, seconds=min(most, self._remaining()))
            )
            for request, most in self.requests.items()
        }
        for task in self._tasks.values():
            task.add_done_callback(_retrieve)
        return first_task

    def take(
        self, connection: Connection, request: ClientRequest[Answer]
    ) -> asyncio.Task[Answer] | None:
        """Return the task that waits for the response to a request; ``None`` if not sent on this connection, or already taken."""
        return self._tasks.pop(request, None) if connection is self._connection else None


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a response that no caller takes, so that asyncio does not log it."""
    if not task.cancelled():
        _ = task.exception()


async def connect(
    addresses: Sequence[Address],
    *,
    config: ClientConfig,
    context: ssl.SSLContext | None,
    login: Login,
    events: ClientEvents,
    clock: Clock,
    note_cause: NoteCause,
) -> Connection:
    """Return a connection to the first of the addresses that accepts, negotiated and logged in.

    Raises:
        ClientError: No connection could be opened.
        RequestFailed: The peer closed the connection or violated the protocol.
    """
    started = clock.monotonic()
    connection = Connection(config, login=login, events=events, clock=clock)
    opened, target = await dial(addresses, config, note_cause)
    connection.address = target.address
    try:
        transport = await open_transport(opened, target, context, connection)
        event = Connected(
            node=connection.node,
            address=transport.peer,
            tls=transport.tls,
            seconds=clock.monotonic() - started,
        )
        emit(events.connected, event)
        await _begin(connection, transport)
    except RequestFailed as failure:
        note_cause(target.address, failure.error.message)
        raise
    except KquotaError as error:
        note_cause(target.address, error.message)
        raise
    return connection


async def _begin(connection: Connection, transport: Transport) -> None:
    try:
        await connection.begin(transport)
    except KquotaError as error:
        await connection.close(error.message)
        transport.close()
        raise
    except BaseException:
        await connection.close()
        transport.close()
        raise
