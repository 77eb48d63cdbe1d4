"""One node of a test cluster: its files, its Java process, its readiness."""

import base64
import contextlib
import shutil
import signal
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.servers import jars, ping
from tests.servers.processes import HANG_SECONDS, Child
from tests.servers.properties import (
    Listener,
    NodeSettings,
    scram_supported,
    server_properties,
    to_text,
)

# A test broker runs for seconds: a short start is more important than speed.
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class ServerFailed(Exception):
    """A server ended or timed out; the message has the end of its log."""


def random_uuid() -> str:
    """Return a random id in Kafka's format: URL-safe base64 of a UUID without a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def class_data_name(version: str) -> str:
    """Return the name of the cache folder with the class-data archive of a version for this JVM."""
    classpath = jars.resolve(version).classpath
    return f"classes-{version}-{jars.digest(classpath, jars.java_identity(), *QUICK_JVM)}"


def shared_classes(version: str) -> tuple[str, ...]:
    """Return JVM flags that use the class-data archive of a version; none as long as there is none."""
    archive = jars.cache_root() / class_data_name(version) / "archive.jsa"
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """JVM options of a cluster: class path, heap in MiB, flags, and flags of brokers only."""

    classpath: str
    heap_megabytes: int
    flags: tuple[str, ...] = ()
    broker_flags: tuple[str, ...] = ()

    def command(self, *arguments: str) -> list[str]:
        """Return a `java` command line with this class path."""
        return [jars.java(), *QUICK_JVM, *self.flags, LOG_LEVEL, "-cp", self.classpath, *arguments]

    def broker(self, properties: Path) -> list[str]:
        """Return the command line of a broker."""
        heap = (f"-Xmx{self.heap_megabytes}m", "-Xms64m")
        return self.command(*self.broker_flags, *heap, "kafka.Kafka", str(properties))


class Node:
    """A combined broker and controller with its ports and data, running or not."""

    def __init__(self, settings: NodeSettings, *, folder: Path, jvm: Jvm) -> None:
        """Write `server-N.properties` to `folder`; start nothing."""
        self.settings = settings
        self.jvm = jvm
        self.folder = folder
        self.file = folder / f"server-{settings.node}.properties"
        self.file.write_text(to_text(server_properties(settings)), encoding="utf-8")
        self.child: Child | None = None

    @property
    def number(self) -> int:
        return self.settings.node

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self.child is not None and self.child.running

    @property
    def process(self) -> Child:
        """The process, running or ended.

        Raises:
            ServerFailed: the node was never started.
        """
        if self.child is None:
            raise ServerFailed(f"node {self.number} was never started")
        return self.child

    def format(self, cluster_id: str) -> None:
        """Write what `kafka-storage format` writes for this node of a cluster, with the SCRAM users.

        The command is a Java process of a second for each node; its output for other nodes differs in three ids.
        """
        shutil.copytree(self._formatted(), self.settings.data)
        file = self.settings.data / "meta.properties"
        lines = file.read_text(encoding="utf-8").splitlines()
        ids = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        ids |= {"cluster.id": cluster_id, "node.id": str(self.number)}
        if "directory.id" in ids:  # since 3.7
            ids["directory.id"] = random_uuid()
        file.write_text(to_text(ids), encoding="utf-8")

    def _formatted(self) -> Path:
        """Return the cached data folder of a formatted node of this version with these users."""
        accounts = _scram_accounts(self.settings.users) if self._scram else []
        version = self.settings.version

        def fill(folder: Path) -> None:
            settings = replace(self.settings, data=folder / "data", extra={}, tls=None, tokens=None)
            file = folder / "server.properties"
            file.write_text(to_text(server_properties(settings)), encoding="utf-8")
            command = ("format", "-t", random_uuid(), "-c", str(file), *accounts)
            child = Child(
                Jvm(classpath=self.jvm.classpath, heap_megabytes=256).command(
                    "kafka.tools.StorageTool", *command
                ),
                log=folder / "format.log",
            )
            if not child.ended_within(HANG_SECONDS):
                child.kill()
            if child.process.returncode != 0:
                raise ServerFailed(f"kafka-storage format failed:\n{child.log_text()}")

        name = f"formatted-{version}-{jars.digest(jars.resolve(version).classpath, *accounts)}"
        return jars.cached(name, fill) / "data"

    def launch(self) -> None:
        """Start the broker's process without waiting.

        Raises:
            ServerFailed: it is running already.
        """
        if self.running:
            raise ServerFailed(f"node {self.number} is running")
        self.child = Child(self.jvm.broker(self.file), log=self.folder / f"node-{self.number}.log")

    def advertised_port(self, listener: Listener) -> int:
        """Return the advertised port of a listener."""
        ports = self.settings.ports
        return ports.advertised.get(listener, ports.clients[listener])

    def answers(self, tls: ssl.SSLContext | None) -> bool:
        """Whether the node responds to ApiVersions on every port except the controller's."""
        ports = self.settings.ports
        return ping.answers(ports.internal) and all(
            ping.answers(port, tls=tls if listener.encrypted else None)
            for listener, port in ports.clients.items()
        )

    def knows(self, nodes: Sequence[int]) -> bool:
        """Whether the node's metadata lists exactly these brokers."""
        return set(ping.broker_ports(self.settings.ports.internal)) == set(nodes)

    def enforces(self, grants: Sequence[ping.Grant]) -> bool:
        """Whether the node's authorizer has the ACLs."""
        return ping.visible_grants(self.settings.ports.internal) >= set(grants)

    def leads(self) -> bool:
        """Whether the node reports itself as the active controller."""
        with contextlib.suppress(OSError, ping.CallFailed):
            return ping.quorum_leader(self.settings.ports.controller) == self.number
        return False

    def terminate(self, grace_seconds: float) -> None:
        """Send SIGTERM for a controlled shutdown; SIGKILL after `grace_seconds`."""
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
