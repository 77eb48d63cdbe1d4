"""Closes the listeners of an asyncio server without a leak."""

import asyncio
from collections.abc import Iterable
from typing import Final

_STEPS_TO_HANDLER: Final = 3
"""Steps of the event loop from an accepted connection to its handler."""


async def close_listeners(servers: Iterable[asyncio.Server]) -> None:
    """Close listeners after every accepted connection has reached its handler.

    The event loop creates the transport of an accepted connection one step later, and leaks its socket if the server was
    closed in between. The connections stay open.
    """
    closing = tuple(servers)
    loop = asyncio.get_running_loop()
    for server in closing:
        for listening in server.sockets:
            _ = loop.remove_reader(listening)
    try:
        for _ in range(_STEPS_TO_HANDLER):
            await asyncio.sleep(0)
    finally:
        for server in closing:
            server.close()
