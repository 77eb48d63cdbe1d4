"""Real Kafka clusters of one or three combined KRaft nodes on loopback.

`KafkaCluster` is a context manager; inside, nodes can be paused, killed and started again. Processes end
with the test run (`processes`), and the data of a cluster is deleted with it.
`python -m tests.servers.kafka 4.3.1` runs a cluster in the foreground (`foreground`).
"""

import contextlib
import signal
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from tests.servers import certs, exporter, jars, ping, tokens, tools
from tests.servers.node import Jvm, Node, ServerFailed, class_data_name, random_uuid, shared_classes
from tests.servers.ports import free_ports
from tests.servers.processes import ScratchFolder
from tests.servers.properties import (
    CALLBACK_KEY,
    USERS,
    Listener,
    NodePorts,
    NodeSettings,
    TlsFiles,
    login,
)

READY_SECONDS = 240.0
STOP_SECONDS = 10.0  # a single node stops in 1.3-2.5 s; the last of three never stops, because it has no quorum
PACE_SECONDS = 0.05
START_ATTEMPTS = 3  # another process may bind a chosen port first
HEAP_MEGABYTES = {1: 384, 3: 256}

# Exactly the permissions that the documentation requires.
GRANTS = (
    ping.Grant(principal="User:planner", operation="DescribeConfigs"),
    ping.Grant(principal="User:planner", operation="Describe"),
    ping.Grant(principal="User:applier", operation="AlterConfigs"),
    ping.Grant(principal="User:applier", operation="Describe"),
)


class KafkaCluster:
    """A cluster as a context manager. Node ids start at 1."""

    def __init__(
        self,
        version: str,
        *,
        nodes: int = 1,
        listeners: Iterable[Listener | str] = (Listener.PLAINTEXT,),
        users: Mapping[str, str] = USERS,
        acls: bool = False,
        grants: Iterable[ping.Grant] = GRANTS,
        extra: Mapping[str, str] | None = None,
        heap_megabytes: int | None = None,
        callback: tools.JavaSource | None = None,
        advertised: Mapping[int, Mapping[Listener, int]] | None = None,
        jvm: Iterable[str] | None = None,
        metrics: Path | None = None,
    ) -> None:
        """Configure the cluster without starting it.

        Args:
            version: One of `jars.VERSIONS`.
            nodes: 1, or 3 with a quorum of three.
            listeners: Listeners for clients; see `Listener`.
            users: Name -> password, for PLAIN and (from 3.5) SCRAM. `admin` is a super user.
            acls: Enables the authorizer; ANONYMOUS (the plaintext listener) is a super user.
            grants: ACLs to create, with `acls`.
            extra: Additional server properties for every node.
            heap_megabytes: Per node; 768 or more for 100,000 entities.
            callback: A Java class for `client.quota.callback.class`.
            advertised: Node -> listener -> advertised port, for proxies.
            jvm: JVM flags instead of those that share the class-data archive.
            metrics: Configuration of the JMX agent, which then serves metrics at `metrics_port`.
        """
        self.version = version
        self.numbers = tuple(range(1, nodes + 1))
        self.listeners = tuple(Listener(name) for name in listeners)
        self.users = users
        self.grants = tuple(grants) if acls else ()
        self.acls = acls
        self.extra = dict(extra or {})
        self.heap_megabytes = heap_megabytes or HEAP_MEGABYTES.get(nodes, 256)
        self.callback = callback
        self.advertised = advertised or {}
        self.cluster_id = random_uuid()
        self.authority: certs.Authority | None = None
        self.issuer: tokens.Issuer | None = None
        self._flags = None if jvm is None else tuple(jvm)
        self._metrics = metrics
        self._metrics_ports: dict[int, int] = {}
        self._scratch: ScratchFolder | None = None
        self._nodes: dict[int, Node] = {}

    # ---- start and stop ---------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Format and start all nodes; wait until each responds and its metadata lists all brokers."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_all()
            except ServerFailed as failure:
                self.__exit__()
                if attempt == START_ATTEMPTS or "Address already in use" not in str(failure):
                    raise
            except BaseException:
                self.__exit__()
                raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes without a controlled shutdown, and delete the data."""
        for node in self._nodes.values():
            if node.child is not None:
                node.child.kill()
        if self.issuer is not None:
            self.issuer.stop()
        if self._scratch is not None:
            self._scratch.remove()
        self._nodes, self._scratch, self.issuer, self.authority = {}, None, None, None

    def _start_all(self) -> None:
        jvm = self._jvm()
        self._scratch = ScratchFolder.make(f"kafka-{self.version}-")
        if any(listener.encrypted for listener in self.listeners):
            self.authority = certs.Authority.make(self.folder / "certificates")
        if Listener.OAUTHBEARER in self.listeners:
            self.issuer = tokens.Issuer.start(self.folder / "tokens", self.users)
            jvm = Jvm(
                classpath=jvm.classpath,
                heap_megabytes=jvm.heap_megabytes,
                flags=(*jvm.flags, *self.issuer.jvm_flags()),
            )
        self._nodes = {
            settings.node: Node(settings, folder=self.folder, jvm=self._watched(jvm, settings.node))
            for settings in self._settings()
        }
        for node in self._nodes.values():
            node.format(self.cluster_id)
            node.launch()
        self.wait_ready()
        nodes = self._nodes.values()
        self._wait(lambda: all(node.knows(self.numbers) for node in nodes), "know one another")
        if self.grants:
            ping.create_acls(self._nodes[1].settings.ports.internal, self.grants)
            self._wait(lambda: all(node.enforces(self.grants) for node in nodes), "show the ACLs")

    def _jvm(self) -> Jvm:
        classpath = jars.resolve(self.version).classpath
        if self.callback is not None:
            classpath += f":{tools.compile_jar(self.version, self.callback)}"
            self.extra.setdefault(CALLBACK_KEY, self.callback.class_name)
        flags = class_data(self.version) if self._flags is None else self._flags
        return Jvm(classpath=classpath, heap_megabytes=self.heap_megabytes, flags=flags)

    def _watched(self, jvm: Jvm, number: int) -> Jvm:
        if self._metrics is None:
            return jvm
        (self._metrics_ports[number],) = free_ports(1)
        agent = exporter.flag(self._metrics_ports[number], self._metrics)
        return replace(jvm, broker_flags=(agent,))

    # ---- properties -------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether the cluster is started."""
        return self._scratch is not None

    @property
    def folder(self) -> Path:
        """A folder that is deleted with the cluster."""
        if self._scratch is None:
            raise ServerFailed("the cluster is not started")
        return self._scratch.path

    def bootstrap(self, listener: Listener | str = Listener.PLAINTEXT) -> str:
        """Return the advertised bootstrap servers of a client listener."""
        client_listener = Listener(listener)
        return ",".join(
            f"127.0.0.1:{node.advertised_port(client_listener)}" for node in self._nodes.values()
        )

    def port(self, node: int = 1, listener: Listener | str = Listener.PLAINTEXT) -> int:
        """Return the port that the node listens on, even if it advertises another."""
        return self._nodes[node].settings.ports.clients[Listener(listener)]

    def metrics_port(self, node: int = 1) -> int:
        """Return the port of a node's JMX agent, for a cluster with `metrics`."""
        return self._metrics_ports[node]

    def inside(self, node: int = 1) -> int:
        """Return the port of the inter-broker listener: plaintext, with super user rights, not advertised to clients."""
        return self._nodes[node].settings.ports.internal

    def pid(self, node: int = 1) -> int:
        return self._nodes[node].process.pid

    def log(self, node: int = 1) -> str:
        """Return the output of a node over all its starts."""
        return self._nodes[node].process.log_text()

    def running(self, node: int = 1) -> bool:
        """Whether the node's process exists, paused or not."""
        return self._nodes[node].running

    def active_controller(self, *, seconds: float = READY_SECONDS) -> int:
        """Return the node that leads the metadata quorum; waits for the end of an election."""
        leaders: list[int] = []

        def elected() -> bool:
            leaders[:] = [node.number for node in self._nodes.values() if node.leads()]
            return len(leaders) == 1

        self._wait(elected, "elect a controller", seconds=seconds)
        return leaders[0]

    def client_properties(
        self,
        listener: Listener | str = Listener.PLAINTEXT,
        *,
        user: str = "admin",
        mechanism: str = "PLAIN",
    ) -> dict[str, str]:
        """Return Java properties of a client, with bootstrap servers."""
        client_listener = Listener(listener)
        properties = {
            "bootstrap.servers": self.bootstrap(client_listener),
            "security.protocol": client_listener.protocol,
        }
        if client_listener.encrypted and self.authority is not None:
            properties |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.certificate_file),
            }
        if client_listener.passwords:
            properties |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": login(mechanism, user, self.users[user]),
            }
        if client_listener is Listener.OAUTHBEARER and self.issuer is not None:
            properties |= self.issuer.client_properties(user)
        return properties

    # ---- actions ----------------------------------------------------------------------------

    def pause(self, node: int) -> None:
        """Send SIGSTOP: the node keeps its connections and does not respond."""
        self._nodes[node].process.signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Send SIGCONT."""
        self._nodes[node].process.signal(signal.SIGCONT)

    def kill(self, node: int) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        self._nodes[node].process.kill()

    def terminate(self, node: int, *, grace_seconds: float = STOP_SECONDS) -> None:
        """Send SIGTERM for a controlled shutdown of one node; SIGKILL after `grace_seconds`."""
        self._nodes[node].terminate(grace_seconds)

    def start(self, node: int, *, wait: bool = True) -> None:
        """Start a dead node again on its ports and data; with `wait`, wait until it responds."""
        self._nodes[node].launch()
        if wait:
            self.wait_ready(node)

    def upgrade(self, node: int, version: str) -> None:
        """Stop a node by SIGTERM and start it with another version of Kafka on its ports and data.

        Waits until it responds and the metadata of each running node lists all brokers again.
        """
        earlier = self._nodes[node]
        self.terminate(node)
        jvm = replace(
            earlier.jvm,
            classpath=jars.resolve(version).classpath,
            flags=class_data(version) if self._flags is None else self._flags,
        )
        settings = replace(earlier.settings, version=version)
        self._nodes[node] = Node(settings, folder=self.folder, jvm=jvm)
        try:
            self.start(node)
        except ServerFailed:
            # A node of Kafka 4 may end at its start with "Unknown metadata version for FeaturesImage", if it reads
            # records before that of metadata.version. What supervises a broker starts it again.
            if self._nodes[node].running:
                raise
            self.start(node)
        running = [running_node for running_node in self._nodes.values() if running_node.running]
        self._wait(
            lambda: all(running_node.knows(self.numbers) for running_node in running),
            "know one another",
        )

    def wait_ready(self, *nodes: int) -> None:
        """Wait until the given nodes (all without arguments) respond on every client port."""
        waiting_nodes = [self._nodes[number] for number in nodes or self.numbers]
        tls = None
        if self.authority is not None:  # a test may require client certificates
            tls = self.authority.client_context(self.authority.client("readiness"))
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        self._wait(lambda: all(node.answers(tls) for node in waiting_nodes), "answer")

    def stop(self, *, grace_seconds: float = STOP_SECONDS) -> None:
        """Send SIGTERM to all nodes at once; SIGKILL after `grace_seconds`."""
        children = [node.child for node in self._nodes.values() if node.child is not None]
        for child in children:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        for child in children:
            if not child.ended_within(max(0.0, deadline - time.monotonic())):
                child.kill()

    # ---- private ----------------------------------------------------------------------------

    def _settings(self) -> list[NodeSettings]:
        each = 2 + len(self.listeners)
        free = iter(free_ports(each * len(self.numbers)))
        ports = {
            number: NodePorts(
                controller=next(free),
                internal=next(free),
                clients={listener: next(free) for listener in self.listeners},
                advertised=self.advertised.get(number, {}),
            )
            for number in self.numbers
        }
        return [
            NodeSettings(
                version=self.version,
                node=number,
                ports=ports[number],
                voters={
                    other_number: ports[other_number].controller for other_number in self.numbers
                },
                data=self.folder / f"data-{number}",
                users=self.users,
                acls=self.acls,
                tls=self._tls_files(number),
                tokens=None if self.issuer is None else self.issuer.rules,
                extra=self.extra,
            )
            for number in self.numbers
        ]

    def _tls_files(self, number: int) -> TlsFiles | None:
        if self.authority is None:
            return None
        identity = self.authority.server(f"node-{number}")
        return TlsFiles(keystore=identity.bundle, truststore=self.authority.certificate_file)

    def _wait(
        self, claim: Callable[[], bool], verb: str, *, seconds: float = READY_SECONDS
    ) -> None:
        """Poll `claim`; fail early if a running node ends."""
        deadline = time.monotonic() + seconds
        watched = [node.process for node in self._nodes.values() if node.running]
        while True:
            with contextlib.suppress(OSError, ping.CallFailed):
                if claim():
                    return
            ended = [child for child in watched if child.ended_within(PACE_SECONDS / len(watched))]
            if ended or not watched or time.monotonic() > deadline:
                logs = "\n".join(child.log_text()[-3000:] for child in ended or watched)
                why = "a node ended" if ended else f"waited {seconds} s"
                raise ServerFailed(f"the brokers did not {verb}: {why}\n{logs}")


StartKafka = Callable[
    ..., KafkaCluster
]  # type of the fixture `kafka`: version and options -> cluster


def class_data(version: str) -> tuple[str, ...]:
    """Return JVM flags that use the class-data archive of a version; it saves about a second per start.

    Created on first use by starting a broker and stopping it by SIGTERM.
    """

    def fill(folder: Path) -> None:
        dump = f"-XX:ArchiveClassesAtExit={folder / 'archive.jsa'}"
        with KafkaCluster(version, jvm=(dump,)) as cluster:
            cluster.stop(grace_seconds=60)

    jars.cached(class_data_name(version), fill)
    return shared_classes(version)


if __name__ == "__main__":
    from tests.servers.foreground import main

    raise SystemExit(main())
