"""A network in memory between processes and brokers, with latency, partitions, paused and reset connections.

Each direction of a connection preserves the order of its bytes, as TCP does. Bytes in transit may arrive after the client
has closed, so that a broker can execute a request whose sender has ended.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.processes import CURRENT, SimulatedProcess
from tests.simulation.virtual_loop import VirtualLoop

SYN_TIMEOUT_SECONDS = 127.0
"""Time after which Linux gives up connecting to an address that does not respond."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class NetworkEnd(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, connection: "NetworkConnection") -> None:
        super().__init__()
        self.connection = connection
        self.protocol: asyncio.BaseProtocol | None = None
        self.peer: NetworkEnd
        self.in_transit: deque[bytes | None] = deque()
        self.inbox: deque[bytes | None] = deque()
        self.context = contextvars.copy_context()
        self.closed = False
        self.paused = False
        self._arrives_at = 0.0

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Deliver bytes to the protocol from now on."""
        self.protocol = protocol
        protocol.connection_made(self)
        self.connection.flush()

    # -- asyncio.Transport --------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not self.closed:
            self.connection.sends(self, bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.connection.sends(self, None)
            self.lose(None)

    def abort(self) -> None:
        self.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (f"10.0.0.{self.connection.node}", 9092) if name == "peername" else default

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        self.connection.flush()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the buffer is unlimited."""

    def get_write_buffer_size(self) -> int:
        return 0

    # -- for the connection -------------------------------------------------------------------------

    def arrival(self, delay: float, now: float) -> float:
        """Return the arrival time of bytes that are sent to this end now; never before that of earlier ones."""
        self._arrives_at = max(self._arrives_at, now + delay)
        return self._arrives_at

    def take(self, chunk: bytes | None) -> None:
        """Deliver bytes to the protocol; ``None`` = the peer closed."""
        if self.closed or self.protocol is None:
            return
        if chunk is None:
            self.protocol.eof_received()
            self.lose(None)
        elif isinstance(self.protocol, asyncio.BufferedProtocol):
            remaining = memoryview(chunk)
            while remaining and not self.closed:
                room = self.protocol.get_buffer(-1)
                count = min(len(room), len(remaining))
                room[:count] = remaining[:count]
                self.protocol.buffer_updated(count)
                remaining = remaining[count:]
        else:
            self.protocol.data_received(chunk)

    def lose(self, error: Exception | None) -> None:
        """Close this end."""
        if self.closed:
            return
        self.closed = True
        self.connection.ended(self)
        if self.protocol is not None:
            self.connection.network.loop.call_soon(
                self.protocol.connection_lost, error, context=self.context
            )

    def sever(self) -> None:
        """Close this end after a kill of its process; sent bytes may still arrive."""
        if not self.closed:
            self.connection.client_vanished()
            self.lose(ConnectionResetError())


class NetworkConnection:
    """A connection between a process and a broker."""

    def __init__(self, network: "Network", process: SimulatedProcess | None, node: int) -> None:
        self.network, self.process, self.node = network, process, node
        self.client, self.server = NetworkEnd(self), NetworkEnd(self)
        self.client.peer, self.server.peer = self.server, self.client

    @property
    def blocked(self) -> bool:
        """Whether a partition blocks the connection."""
        return self.node in self.network.cut_off or (
            self.process is not None and self.process.name in self.network.isolated
        )

    def sends(self, sender: NetworkEnd, chunk: bytes | None) -> None:
        if sender is self.client and self.process is not None and chunk is not None:
            # A planned kill may occur before or after the bytes are sent.
            if self.network.chance.random() < 0.5:
                self.process.step()
                self._leave(sender, chunk)
                return
            self._leave(sender, chunk)
            self.process.step()
            return
        self._leave(sender, chunk)

    def _leave(self, sender: NetworkEnd, chunk: bytes | None) -> None:
        receiver, loop = sender.peer, self.network.loop
        at = receiver.arrival(self.network.latency(), loop.time())
        receiver.in_transit.append(chunk)
        loop.call_at(at, self._arrive, receiver, context=receiver.context)

    def _arrive(self, receiver: NetworkEnd) -> None:
        # Timers of equal times run in any order; bytes of one direction keep their order.
        receiver.inbox.append(receiver.in_transit.popleft())
        self._drain(receiver)

    def flush(self) -> None:
        """Deliver waiting bytes."""
        for end in (self.client, self.server):
            if end.inbox:
                self.network.loop.call_soon(self._drain, end, context=end.context)

    def _drain(self, end: NetworkEnd) -> None:
        stopped = end is self.server and self.node in self.network.stopped
        while end.inbox and not self.blocked and not stopped and not end.paused and end.protocol:
            end.take(end.inbox.popleft())

    def client_vanished(self) -> None:
        """Close after a kill of the client: its last bytes arrive, or a reset drops them."""
        if self.network.chance.random() < 0.5:
            self.server.inbox.clear()
        self._leave(self.client, None)

    def cut(self) -> None:
        """Reset both ends."""
        for end in (self.client, self.server):
            end.lose(ConnectionResetError())

    def ended(self, end: NetworkEnd) -> None:
        if end is self.client and self.process is not None:
            self.process.disown(end)
        if self.client.closed and self.server.closed:
            self.network.connections.pop(id(self), None)


class Network:
    """All connections and their faults.

    Attributes:
        cut_off: Brokers without connectivity.
        isolated: Names of processes without connectivity.
        stopped: Brokers paused with SIGSTOP: bytes wait until they resume.
        refusing: Brokers that are not running.
        slowness: Maximum additional latency of a fifth of the messages, in seconds.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.connections: dict[int, NetworkConnection] = {}
        self.cut_off: set[int] = set()
        self.isolated: set[str] = set()
        self.stopped: set[int] = set()
        self.refusing: set[int] = set()
        self.slowness = 0.0
        self.serve: Callable[[int, NetworkConnection], None] = lambda *_: None

    def latency(self) -> float:
        """Return a random latency in seconds."""
        seconds = 0.0005 + self.chance.random() * 0.002
        if self.slowness and self.chance.random() < 0.2:
            seconds += self.chance.random() * self.slowness
        return seconds

    async def connect(self, address: tuple[Any, ...]) -> NetworkConnection:
        """Connect the current process to a broker, whose port is 9092 plus its id."""
        process, node = CURRENT.get(), address[1] - 9092
        if process is not None:
            process.step()
        await asyncio.sleep(self.latency())
        connection = NetworkConnection(self, process, node)
        if connection.blocked:
            await asyncio.sleep(SYN_TIMEOUT_SECONDS)
            raise TimeoutError(110, "Connection timed out")
        if node in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections[id(connection)] = connection
        self.serve(node, connection)
        return connection

    def attach(self, connection: object, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        """Attach a protocol to the client's end, and return that end."""
        assert isinstance(connection, NetworkConnection)
        end = connection.client
        end.context = contextvars.copy_context()
        if connection.process is not None:
            connection.process.own(end)
            if not connection.process.alive:
                end.sever()
        if end.closed:
            raise ConnectionResetError(104, "Connection reset by peer")
        end.begin(protocol)
        return end

    def heal(self) -> None:
        """End all faults."""
        self.cut_off.clear()
        self.isolated.clear()
        self.stopped.clear()
        self.refusing.clear()
        self.slowness = 0.0
        self.flush()

    def flush(self) -> None:
        """Deliver bytes that waited for the end of a fault."""
        for connection in list(self.connections.values()):
            connection.flush()

    def cut(self, node: int) -> None:
        """Reset every connection of a broker."""
        for connection in list(self.connections.values()):
            if connection.node == node:
                connection.cut()
