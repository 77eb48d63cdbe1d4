"""A TCP proxy in front of a broker that parses Kafka's frames and injects faults.

It runs an asyncio loop in a separate thread, so that tests with and without a loop, and programs that
tests start, can connect through it. It does not support TLS: use it for PLAINTEXT and SASL_PLAINTEXT ports.
"""

import asyncio
import contextlib
import struct
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self

from tests.servers.faults import WITH_BROKER_ADDRESSES, Action, Fault, Request, show_ports
from tests.servers.kafka import KafkaCluster
from tests.servers.properties import Listener

LARGEST_FRAME = 256 * 1024 * 1024
STEPS_TO_HANDLER = 3  # of the event loop, from an accepted connection to its handler


class CutError(Exception):
    """What was received is no frame: the connection is closed."""


@dataclass(slots=True, kw_only=True)
class Planted:
    """A fault in a running proxy, with an event that it occurred and the release of what it holds."""

    fault: Fault
    loop: asyncio.AbstractEventLoop
    reached: threading.Event = field(default_factory=threading.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    counted: int = 0

    def wait_reached(self, seconds: float = 30.0) -> None:
        """Wait until the fault occurred; raise TimeoutError otherwise."""
        if not self.reached.wait(seconds):
            raise TimeoutError(f"{self.fault.action} was not reached in {seconds} s")

    def release(self) -> None:
        """Release what HOLD_REQUEST or HOLD_ANSWER holds, now and later."""
        self.loop.call_soon_threadsafe(self.let_go.set)

    async def hold(self) -> None:
        """Report that the fault occurred, and wait for the release."""
        self.reached.set()
        await self.let_go.wait()

    def strikes(self, request: Request) -> bool:
        """Count a matching request; return whether the fault applies to it."""
        if not self.fault.matches(request):
            return False
        self.counted += 1
        return self.counted == self.fault.nth


class FaultProxy:
    """A proxy as a context manager; clients connect to `port`."""

    def __init__(
        self, upstream: int | None = None, *, advertised_ports: Mapping[int, int] | None = None
    ) -> None:
        """Forward to the loopback port `upstream`; `shown` maps ports in responses to replacements.

        Without `upstream`, call `point_at` before the first client connects.
        """
        self.upstream = upstream
        self.advertised_ports: dict[int, int] = dict(advertised_ports or {})
        self.requests: list[Request] = []
        self.connections = 0
        self.round_trips = (
            0  # connections, and bursts of requests that begin while no response is awaited
        )
        self.answer_bytes = 0
        self.port = 0
        self._refuses = False
        self._planted: list[Planted] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    # ---- for tests --------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._thread.start()
        self.port = self._started.result()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections and stop listening; raise errors of the proxy itself."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failures:
            raise self._failures[0]

    def point_at(self, upstream: int) -> None:
        """Forward new connections to another port."""
        self.upstream = upstream

    def plant(self, fault: Fault) -> Planted:
        """Add a fault; of several that match a request, the first applies."""
        planted = Planted(fault=fault, loop=self._loop)
        self._planted.append(planted)
        return planted

    def heal(self) -> None:
        """Remove all faults, release what they hold, and accept connections again."""
        self._refuses = False
        planted, self._planted = self._planted, []
        for rule in planted:
            rule.release()

    def refuse(self) -> None:
        """Close all connections, and new ones as soon as they are accepted."""
        self._refuses = True
        self.cut_all()

    def cut_all(self) -> None:
        """Close all current connections."""
        self._loop.call_soon_threadsafe(self._cancel_all)

    def count(self, api_key: int) -> int:
        """Return the number of requests with this API key."""
        return sum(request.api_key == api_key for request in self.requests)

    # ---- the loop ---------------------------------------------------------------------------

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        except OSError as failure:
            self._started.set_exception(failure)
            return
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        await _close_listeners(server)
        self._cancel_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.round_trips += 1
        task = self._loop.create_task(self._serve(self.connections, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        # A task that is cancelled before it starts closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self._failures.append(failure)

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(_close, writer)
            if self._refuses or self.upstream is None:
                return
            try:
                upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
            except OSError:
                return
            closing.push_async_callback(_close, upstream[1])
            waiting: deque[tuple[Request, Planted | None]] = deque()
            pumps = [
                self._loop.create_task(self._upwards(number, reader, upstream[1], waiting)),
                self._loop.create_task(self._downwards(upstream[0], writer, waiting)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                ends = await asyncio.gather(*pumps, return_exceptions=True)
            _raise_unexpected(ends)

    async def _upwards(
        self,
        number: int,
        client: asyncio.StreamReader,
        broker: asyncio.StreamWriter,
        waiting: deque[tuple[Request, Planted | None]],
    ) -> None:
        while True:
            request = Request.parse(await _read_frame(client), connection=number)
            self.requests.append(request)
            self.round_trips += not waiting
            struck = self._strike(request)
            if struck is not None and struck.fault.action is Action.HOLD_REQUEST:
                await struck.hold()
                struck = None
            waiting.append((request, struck))
            _send(broker, request.frame)
            await broker.drain()

    async def _downwards(
        self,
        broker: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        waiting: deque[tuple[Request, Planted | None]],
    ) -> None:
        while True:
            answer = await _read_frame(broker)
            self.answer_bytes += len(answer)
            request, struck = waiting.popleft()
            if self.advertised_ports and request.api_key in WITH_BROKER_ADDRESSES:
                answer = show_ports(answer, self.advertised_ports)
            if struck is not None:
                await struck.hold()
            _send(client, answer)
            await client.drain()

    def _strike(self, request: Request) -> Planted | None:
        struck = [planted for planted in self._planted if planted.strikes(request)]
        return struck[0] if struck else None


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= size <= LARGEST_FRAME:
        raise CutError
    return await reader.readexactly(size)


def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


async def _close_listeners(server: asyncio.Server) -> None:
    """Stop listening once each accepted connection has its handler; the event loop leaks the socket of one without."""
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(STEPS_TO_HANDLER):
        await asyncio.sleep(0)
    server.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _raise_unexpected(ends: Iterable[object]) -> None:
    """Raise errors other than closed connections and injected faults."""
    expected = (CutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, expected):
            raise end


@contextmanager
def in_front_of(
    cluster: KafkaCluster, listener: Listener | str = Listener.PLAINTEXT
) -> Iterator[dict[int, FaultProxy]]:
    """Start a proxy in front of each node: node -> proxy.

    Metadata and DescribeCluster responses list the proxies instead of the brokers, so that clients use only proxies.
    """
    with ExitStack() as running:
        proxies = {
            number: running.enter_context(FaultProxy(cluster.port(number, listener)))
            for number in cluster.numbers
        }
        advertised_ports = {
            cluster.port(number, listener): proxy.port for number, proxy in proxies.items()
        }
        for proxy in proxies.values():
            proxy.advertised_ports.update(advertised_ports)
        yield proxies
