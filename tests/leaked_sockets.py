"""Whether a server that is closed while it accepts a connection leaks the socket of that connection."""

import asyncio
import errno
import gc
import socket
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

Server = TypeVar("Server")
STEPS = range(6)
"""Steps of the event loop between a connection and the end of the server."""


def leaks(
    server: AbstractAsyncContextManager[Server], port_of: Callable[[Server], int], *, steps: int
) -> list[str]:
    """Return the warnings about sockets that were not closed; they would appear in another test."""

    async def connect_and_stop() -> socket.socket:
        async with server as running:
            client = socket.socket()
            client.setblocking(False)
            address = "127.0.0.1", port_of(running)
            assert client.connect_ex(address) in {0, errno.EINPROGRESS}
            for _ in range(steps):
                await asyncio.sleep(0)
        return client

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client = asyncio.run(connect_and_stop())
        _ = gc.collect()
        messages = [str(warning.message) for warning in caught]
    client.close()
    return messages
