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
STEPS = range(-8, 6)
"""Steps of the event loop from a connection to the end of the server; negative = the connection comes later."""


def leaks(
    server: AbstractAsyncContextManager[Server], port_of: Callable[[Server], int], *, steps: int
) -> list[str]:
    """Return the warnings about sockets that were not closed; they would appear in another test."""

    async def connect_and_stop() -> socket.socket:
        client = socket.socket()
        client.setblocking(False)

        async def connect(port: int) -> None:
            for _ in range(-steps):
                await asyncio.sleep(0)
            code = client.connect_ex(("127.0.0.1", port))
            assert code in {0, errno.EINPROGRESS, errno.ECONNREFUSED}

        async with server as running:
            connecting = asyncio.ensure_future(connect(port_of(running)))
            if steps >= 0:
                await connecting
            for _ in range(steps):
                await asyncio.sleep(0)
        await connecting
        return client

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        client = asyncio.run(connect_and_stop())
        _ = gc.collect()
        messages = [str(warning.message) for warning in caught]
    client.close()
    return messages
