"""A TCP relay on loopback that delays bytes like a network with latency, and counts the round trips of its clients."""

import asyncio
import contextlib
from typing import Self

from reconciler.base.listeners import close_listeners


class Relay:
    """A relay as an async context manager; clients connect to `port`.

    Round trips are the connection itself and each burst of requests after a response.
    """

    def __init__(self, upstream: int, *, delay: float = 0.0) -> None:
        """Forward to the loopback port `upstream`; each direction takes `delay` seconds."""
        self.upstream = upstream
        self.delay = delay
        self.port = 0
        self.round_trips = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_listeners([self._server])
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_writer: asyncio.StreamWriter | None = None
        try:
            self.round_trips += 1
            await asyncio.sleep(self.delay * 2)
            upstream, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            burst = _Burst(self)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, upstream_writer, burst.request))
                group.create_task(self._forward(upstream, writer, burst.answer))
        except (OSError, ExceptionGroup):
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, upstream_writer):
                if end is not None:
                    end.close()
                    with contextlib.suppress(OSError, asyncio.CancelledError):
                        await end.wait_closed()

    async def _forward(self, source, sink, note) -> None:
        loop = asyncio.get_running_loop()
        while content := await source.read(65536):
            note()
            loop.call_later(self.delay, _write, sink, content)
        await asyncio.sleep(self.delay)
        sink.close()


class _Burst:
    """Counts a round trip for the first request after each response."""

    def __init__(self, relay: Relay) -> None:
        self._relay, self._sends = relay, False

    def request(self) -> None:
        if not self._sends:
            self._sends = True
            self._relay.round_trips += 1

    def answer(self) -> None:
        self._sends = False


def _write(sink: asyncio.StreamWriter, content: bytes) -> None:
    if not sink.is_closing():
        sink.write(content)
