"""One node of a test cluster: its files, its Java process, and how to see that it works."""

import contextlib
import signal
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import jars, ping
from tests.servers.processes import Child
from tests.servers.properties import (
    Listener,
    NodeSettings,
    scram_supported,
    server_properties,
    to_text,
)

# A test broker lives for seconds: quick to start beats quick to run.
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class ServerFailed(Exception):
    """A broker ended, or did not do in time what it was asked; carries the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """How a cluster's brokers are run: class path, heap in MiB, more flags, and those of brokers only."""

    classpath: str
    heap_megabytes: int
    flags: tuple[str, ...] = ()
    broker_flags: tuple[str, ...] = ()

    def command(self, *arguments: str) -> list[str]:
        """A `java` command line with this class path."""
        return [jars.java(), *QUICK_JVM, *self.flags, LOG_LEVEL, "-cp", self.classpath, *arguments]

    def broker(self, properties: Path) -> list[str]:
        """The command line of a broker."""
        heap = (f"-Xmx{self.heap_megabytes}m", "-Xms64m")
        return self.command(*self.broker_flags, *heap, "kafka.Kafka", str(properties))


class Node:
    """A combined broker and controller with its ports and data; it may be dead or alive."""

    def __init__(self, settings: NodeSettings, *, folder: Path, jvm: Jvm) -> None:
        """Writes `server-N.properties` to `folder`; starts nothing."""
        self.settings = settings
        self.jvm = jvm
        self.folder = folder
        self.file = folder / f"server-{settings.node}.properties"
        self.file.write_text(to_text(server_properties(settings)), encoding="utf-8")
        self.child: Child | None = None

    @property
    def number(self) -> int:
        """The node id."""
        return self.settings.node

    @property
    def running(self) -> bool:
        """Whether the process exists (also while paused)."""
        return self.child is not None and self.child.running

    @property
    def process(self) -> Child:
        """The process, alive or not.

        Raises:
            ServerFailed: the node was never started.
        """
        if self.child is None:
            raise ServerFailed(f"node {self.number} was never started")
        return self.child

    def format(self, cluster_id: str) -> Child:
        """Starts `kafka-storage format`, which also makes the SCRAM users."""
        users = self.settings.users if self._scram else {}
        accounts = _scram_accounts(users)
        command = ("format", "-t", cluster_id, "-c", str(self.file), *accounts)
        return Child(
            self.jvm.command("kafka.tools.StorageTool", *command),
            log=self.folder / f"format-{self.number}.log",
        )

    def launch(self) -> None:
        """Starts the broker's process; does not wait.

        Raises:
            ServerFailed: it is running already.
        """
        if self.running:
            raise ServerFailed(f"node {self.number} is running")
        self.child = Child(self.jvm.broker(self.file), log=self.folder / f"node-{self.number}.log")

    def shown(self, listener: Listener) -> int:
        """The port that clients are told."""
        ports = self.settings.ports
        return ports.advertised.get(listener, ports.clients[listener])

    def answers(self, tls: ssl.SSLContext | None) -> bool:
        """Whether the node answers ApiVersions on every port but the controller's."""
        ports = self.settings.ports
        return ping.answers(ports.internal) and all(
            ping.answers(port, tls=tls if listener.encrypted else None)
            for listener, port in ports.clients.items()
        )

    def knows(self, nodes: Sequence[int]) -> bool:
        """Whether the node's metadata lists exactly the brokers `nodes`."""
        return set(ping.broker_ports(self.settings.ports.internal)) == set(nodes)

    def enforces(self, grants: Sequence[ping.Grant]) -> bool:
        """Whether the node's authorizer has the ACLs."""
        return ping.visible_grants(self.settings.ports.internal) >= set(grants)

    def leads(self) -> bool:
        """Whether the node is the active controller, by its own word."""
        with contextlib.suppress(OSError, ping.CallFailed):
            return ping.quorum_leader(self.settings.ports.controller) == self.number
        return False

    def terminate(self, grace_seconds: float) -> None:
        """SIGTERM, a controlled shutdown; SIGKILL after the grace."""
        self.process.signal(signal.SIGCONT)
        self.process.signal(signal.SIGTERM)
        if not self.process.ended_within(grace_seconds):
            self.process.kill()

    @property
    def _scram(self) -> bool:
        offered = any(listener.passwords for listener in self.settings.ports.clients)
        return offered and scram_supported(self.settings.version)


def _scram_accounts(users: Mapping[str, str]) -> list[str]:
    return [
        f"--add-scram={mechanism}=[name={name},password={word}]"
        for mechanism in SCRAM
        for name, word in users.items()
    ]
