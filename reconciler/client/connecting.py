"""From addresses to a connection that is negotiated and logged in."""

import ssl
from collections.abc import Sequence

from reconciler.client.config import Address, ClientConfig
from reconciler.client.connection import Connection
from reconciler.client.dialing import dial
from reconciler.client.events import Connected, Events, tell
from reconciler.client.login import Login
from reconciler.client.transport import open_transport
from reconciler.errors import KquotaError
from reconciler.ports import Clock


async def connect(
    addresses: Sequence[Address],
    *,
    config: ClientConfig,
    context: ssl.SSLContext | None,
    login: Login,
    events: Events,
    clock: Clock,
) -> Connection:
    """A connection to the first of the addresses that accepts, negotiated and logged in.

    Raises:
        ClientError: None could be had.
        Broken: The peer hung up or broke the protocol.
    """
    started = clock.monotonic()
    made = Connection(config, login=login, events=events, clock=clock)
    opened, target = await dial(addresses, config)
    made.address = target.address
    transport = await open_transport(opened, target, context, made)
    tell(
        events.connected,
        Connected(
            node=made.node,
            address=transport.peer,
            tls=transport.tls,
            seconds=clock.monotonic() - started,
        ),
    )
    try:
        await made.begin(transport)
    except KquotaError as error:
        await made.close(error.message)
        transport.close()
        raise
    except BaseException:
        await made.close()
        transport.close()
        raise
    return made
