"""Opens a connection to one of several addresses, negotiated and logged in."""

import ssl
from collections.abc import Sequence

from reconciler.base.protocols import Clock
from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.events import ClientEvents, Connected, emit
from reconciler.client.network.connection import Connection
from reconciler.client.network.dialer import NoteCause, dial
from reconciler.client.network.login import Login
from reconciler.client.network.requests import RequestFailed
from reconciler.client.network.transport import Transport, open_transport
from reconciler.errors import KquotaError


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
