"""Listeners are closed without a leak, whatever connection is being accepted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from reconciler.base.listeners import close_listeners
from tests.leaked_sockets import STEPS, leaks


@asynccontextmanager
async def listening() -> AsyncIterator[asyncio.Server]:
    """A server that closes each connection."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Closing, "127.0.0.1", 0)
    yield server
    await close_listeners([server])


class _Closing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@pytest.mark.parametrize("steps", STEPS)
def test_a_connection_in_any_step_of_being_accepted_reaches_its_handler(steps: int) -> None:
    server = listening()
    assert leaks(server, lambda running: running.sockets[0].getsockname()[1], steps=steps) == []


def test_a_cancelled_end_closes_the_listeners() -> None:
    async def cancel() -> None:
        server = await asyncio.get_running_loop().create_server(_Closing, "127.0.0.1", 0)
        closing = asyncio.ensure_future(close_listeners([server]))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not server.is_serving()

    asyncio.run(cancel())


def test_no_listener_is_closed_twice() -> None:
    async def close_twice() -> None:
        async with listening() as server:
            await close_listeners([server])
            assert not server.is_serving()

    asyncio.run(close_twice())
