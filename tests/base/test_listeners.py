"""Listeners are closed without a leak, whatever connection is being accepted."""

import asyncio

import pytest

from reconciler.base.listeners import close_listeners


class _Closing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


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
