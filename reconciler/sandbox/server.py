"""The sandbox itself: brokers that listen, share one image and can be held back, stopped and made to fail.

async with Sandbox(SandboxSettings(users={"alice": "secret"})) as sandbox:
    client = QuotaClient(ClientConfig.from_mapping({"bootstrap.servers": sandbox.bootstrap()}))
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Self

from msgspec import Struct, field

from reconciler.base.listeners import close_listeners
from reconciler.errors import ConfigError
from reconciler.sandbox.broker_rules.image import Image, Names, QuotaRecord, names_of
from reconciler.sandbox.cluster import SandboxBroker, SandboxCluster
from reconciler.sandbox.connection import ServerConnection
from reconciler.sandbox.faults import Fault, Faults
from reconciler.sandbox.settings import Listener, SandboxSettings
from reconciler.wire.messages.entry_layout import Part


class _BrokerListeners(Struct):
    servers: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])


class Sandbox:
    """A cluster of embedded brokers; use it as an async context manager.

    Args:
        clock: Monotonic seconds, for the lifetime of sessions.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or SandboxSettings()
        self.faults = Faults()
        self._clock = clock
        self._cluster = SandboxCluster(self.settings)
        self._listeners = {node: _BrokerListeners() for node in self.settings.nodes}

    async def __aenter__(self) -> Self:
        """Start every broker.

        Raises:
            ConfigError: A port is in use or the host is not local.
        """
        try:
            for node in self.settings.nodes:
                await self.start(node)
        except BaseException:
            await self._stop_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every listener and connection."""
        await self._stop_all()

    @property
    def cluster_id(self) -> str:
        """22 characters of base64."""
        return self._cluster.cluster_id

    @property
    def image(self) -> Image:
        """The cluster's quotas; brokers may show them later."""
        return self._cluster.image

    def port(self, node: int | None = None, listener: str | None = None) -> int:
        """Return the port of a broker's listener: by default the first of both."""
        broker = self._cluster.brokers[self.settings.nodes[0] if node is None else node]
        return broker.ports[listener or self.settings.listeners[0].name]

    def bootstrap(self, listener: str | None = None) -> str:
        """Return ``host:port`` of every running broker, separated by commas."""
        name = listener or self.settings.listeners[0].name
        host = next(
            candidate.host for candidate in self.settings.listeners if candidate.name == name
        )
        host_text = f"[{host}]" if ":" in host else host
        return ",".join(f"{host_text}:{broker.ports[name]}" for broker in self._cluster.live())

    def fail(self, fault: Fault) -> None:
        """Add a fault."""
        self.faults.add(fault)

    def seed(self, values: Mapping[tuple[Part, ...], Mapping[str, float]]) -> None:
        """Put values into the image without any check, foreign entity types and keys included."""
        self._cluster.commit(
            QuotaRecord(names=names_of(parts), key=key, value=value)
            for parts, values_by_key in values.items()
            for key, value in values_by_key.items()
        )

    def values(self) -> dict[Names, dict[str, float]]:
        """Return a copy of the image as plain dictionaries."""
        return {
            names: dict(values_by_key)
            for names, values_by_key in self._cluster.image.values.items()
        }

    def hold(self, node: int) -> None:
        """Keep a broker on its present image."""
        self._cluster.hold(node)

    def release(self, node: int) -> None:
        """Let a held broker catch up at once."""
        self._cluster.release(node)

    async def start(self, node: int) -> None:
        """Open the listeners of a broker; a stopped broker keeps its ports.

        Raises:
            ConfigError: A port is in use or the host is not local.
        """
        broker = self._cluster.brokers[node]
        for listener in self.settings.listeners:
            port = broker.ports.get(listener.name) or self._requested_port(listener, node)
            try:
                server = await asyncio.start_server(
                    partial(self._accept, broker, listener), listener.host, port, ssl=listener.tls
                )
            except OSError as error:
                raise ConfigError(
                    f"the sandbox cannot listen on {listener.host}:{port}: {error.strerror}",
                    hint="choose another host or port; port 0 takes a free one",
                ) from error
            self._listeners[node].servers.append(server)
            broker.ports[listener.name] = server.sockets[0].getsockname()[1]
        broker.running = True

    async def stop(self, node: int) -> None:
        """Close the listeners and connections of a broker; Metadata no longer lists it."""
        self._cluster.brokers[node].running = False
        listeners = self._listeners[node]
        await close_listeners(listeners.servers)
        listeners.servers.clear()
        await self._cut(listeners)

    def _requested_port(self, listener: Listener, node: int) -> int:
        return listener.port and listener.port + self.settings.nodes.index(node)

    async def _stop_all(self) -> None:
        for node in self.settings.nodes:
            await self.stop(node)

    async def _cut(self, listeners: _BrokerListeners) -> None:
        tasks = tuple(listeners.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(
        self,
        broker: SandboxBroker,
        listener: Listener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Register a connection before it is served: the broker may be stopped in between."""
        listeners = self._listeners[broker.node]
        task = asyncio.ensure_future(self._serve(broker, listener, reader, writer))
        listeners.tasks.add(task)
        task.add_done_callback(listeners.tasks.discard)
        # A task that is cancelled before it starts closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(
        self,
        broker: SandboxBroker,
        listener: Listener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        connection = ServerConnection(
            cluster=self._cluster,
            broker=broker,
            listener=listener,
            faults=self.faults,
            clock=self._clock,
            reader=reader,
            writer=writer,
        )
        try:
            await connection.serve()
        except asyncio.CancelledError:
            writer.transport.abort()
