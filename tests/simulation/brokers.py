"""Three brokers with one metadata log: the sandbox's rules and responses, with replication lag, failover and lost responses."""

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from msgspec.structs import replace

from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.broker_rules.image import Image, QuotaRecord
from reconciler.sandbox.cluster import SandboxBroker, SandboxCluster
from reconciler.sandbox.connection import ServerConnection
from reconciler.sandbox.faults import CutAfter, CutBefore, Delay, Effect, Faults, Refuse, Throttle
from reconciler.sandbox.sasl_session import SaslReply
from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from reconciler.wire.error_codes import NOT_CONTROLLER, REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR
from reconciler.wire.frames import RequestHeader
from tests.simulation.network import Network, NetworkConnection

NODES = (1, 2, 3)
CLUSTER_ID, OTHER_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
BROKER_RETRY_SECONDS = 60.0
"""Time for which a broker retries to forward a request to the controller (BrokerServer, 3.4 to 4.4)."""

WRITER: contextvars.ContextVar[str] = contextvars.ContextVar("writer", default="?")
USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="")
"""The process and the principal of a request."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch of the metadata log."""

    at: float
    writer: str
    records: tuple[QuotaRecord, ...]
    before: Image
    after: Image
    user: str = ""


class LoggedCluster(SandboxCluster):
    """The sandbox's cluster with a callback for every batch of its log."""

    def __init__(self, settings: SandboxSettings, now: Callable[[], float]) -> None:
        super().__init__(settings)
        self._now = now
        self.on_commit: Callable[[Commit], None] = lambda _: None

    def commit(self, records: Iterable[QuotaRecord]) -> None:
        record_tuple, before = tuple(records), self.image
        super().commit(record_tuple)
        if record_tuple:
            self.on_commit(
                Commit(self._now(), WRITER.get(), record_tuple, before, self.image, USER.get())
            )


class FaultyAnswers(Faults):
    """Random faults of single requests.

    Attributes:
        chances: Kind of fault -> share of the requests.
        failover_until: Time until which there is no active controller.
        landing_seconds: Name of a process -> seconds after which its alterations are carried out.
    """

    def __init__(self, chance: random.Random, now: Callable[[], float]) -> None:
        super().__init__()
        self._chance, self._now = chance, now
        self.chances: dict[str, float] = {}
        self.failover_until = 0.0
        self.landing_seconds: dict[str, float] = {}

    def effects_for(self, api: int, node: int) -> tuple[Effect, ...]:
        effects: list[Effect] = []
        if api == ALTER_CLIENT_QUOTAS.key and WRITER.get() in self.landing_seconds:
            effects.append(Delay(seconds=self.landing_seconds[WRITER.get()]))
        if api == ALTER_CLIENT_QUOTAS.key and self._now() < self.failover_until:
            effects += self._failover()
        for kind, share in self.chances.items():
            if self._chance.random() < share:
                effects += self._effects(kind, api)
        return tuple(effects)

    def _failover(self) -> list[Effect]:
        """Return the effects of an alteration while there is no active controller."""
        fate = self._chance.random()
        if fate < 0.3:
            return [
                _refusal(NOT_CONTROLLER, "This is not the correct controller for this cluster.")
            ]
        wait = min(self.failover_until - self._now() + self._chance.random(), BROKER_RETRY_SECONDS)
        if fate < 0.6:
            return [Delay(seconds=wait)]
        failure = BrokerFailure(code=REQUEST_TIMED_OUT, message="The request timed out.")
        return [Delay(seconds=wait), Refuse(failure=failure, applied=fate < 0.8)]

    def _effects(self, kind: str, api: int) -> list[Effect]:
        chance, longest = self._chance, BROKER_RETRY_SECONDS
        seconds = chance.random() * (longest if chance.random() < 0.3 else 5.0)
        code = chance.choice((UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT))
        refused = BrokerFailure(code=code, message="injected")
        effects: dict[str, Effect] = {
            "lost request": CutBefore(),
            "lost answer": CutAfter(),
            "delayed answer": Delay(seconds=seconds),
            "throttle": Throttle(milliseconds=chance.randint(10, 20_000)),
        }
        if kind == "refusal" and api == ALTER_CLIENT_QUOTAS.key:
            return [Refuse(failure=refused, applied=chance.random() < 0.5)]
        if kind == "refusal" and api == DESCRIBE_CLIENT_QUOTAS.key:
            return [_refusal(UNKNOWN_SERVER_ERROR, "injected")]
        return [effects[kind]] if kind in effects else []


def _refusal(code: int, message: str) -> Refuse:
    return Refuse(failure=BrokerFailure(code=code, message=message))


Question = tuple[object, ...]
"""A request that changes nothing, and the state of the cluster that its response depends on."""

MOST_ANSWERS = 1_000
"""Responses that are remembered before all are forgotten."""


class RememberingConnection(ServerConnection, kw_only=True):
    """A connection to a broker that computes each response once, for all brokers and connections in the same state.

    Attributes:
        answers: Question -> the image that it depends on, and the response.
        on_request: Called with process and user of each request for quotas.
    """

    answers: dict[Question, tuple[Image, SaslReply]]
    on_request: Callable[[str, str], None]

    async def _reply(
        self, header: RequestHeader, body: bytes, principal: str, effects: tuple[Effect, ...]
    ) -> SaslReply:
        if header.api_key in {ALTER_CLIENT_QUOTAS.key, DESCRIBE_CLIENT_QUOTAS.key}:
            _ = USER.set(principal)
            self.on_request(WRITER.get(), principal)
        if effects or header.api_key == ALTER_CLIENT_QUOTAS.key:
            return await super()._reply(header, body, principal, effects)
        image = self.broker.visible_image
        state: tuple[object, ...] = (id(image),)
        if header.api_key != DESCRIBE_CLIENT_QUOTAS.key:
            running = (broker.node for broker in self.cluster.live())
            state = (self.cluster.cluster_id, self.broker.node, *running)
        question = (header.api_key, header.api_version, body, principal, *state)
        answer = self.answers.get(question)
        if answer is None:
            if len(self.answers) >= MOST_ANSWERS:
                self.answers.clear()
            # The image is kept, so that no other one gets its identity.
            answer = image, await super()._reply(header, body, principal, effects)
            self.answers[question] = answer
        return answer[1]


class SimulatedBrokers:
    """The cluster on the simulated network, and another one that a wrong address reaches.

    Args:
        network: The network.
        chance: Determines the faults of answers.
        now: Returns the time in seconds since the epoch.
        users: Passwords by name, which may change; empty = no login.

    Attributes:
        cluster: The cluster.
        other: The other cluster.
        is_misdirected: Whether processes that connect for the first time reach the other cluster.
        on_request: Called with process and user of each request for quotas.
    """

    def __init__(
        self,
        network: Network,
        chance: random.Random,
        now: Callable[[], float],
        users: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.on_request: Callable[[str, str], None] = lambda *_: None
        self.network, self._chance, self._now = network, chance, now
        self.lag: dict[int, float] = {}
        settings = SandboxSettings(
            nodes=NODES, listeners=(Listener(host="kafka"),), cluster_id=CLUSTER_ID, lag=self.lag
        )
        if users:
            listener = Listener(
                host="kafka",
                protocol=ListenerProtocol.SASL_PLAINTEXT,
                mechanisms=("SCRAM-SHA-256",),
            )
            settings = replace(settings, listeners=(listener,), users=users)
        self.cluster = LoggedCluster(settings, now)
        self.other = LoggedCluster(replace(settings, cluster_id=OTHER_CLUSTER_ID, lag={}), now)
        self.is_misdirected = False
        self._cluster_of: dict[str, LoggedCluster] = {}
        self.answers = FaultyAnswers(chance, now)
        for cluster in (self.cluster, self.other):
            for node, broker in cluster.brokers.items():
                broker.ports["PLAINTEXT"] = 9092 + node
                broker.running = True
        network.serve = self._serve
        self._remembered: dict[Question, tuple[Image, SaslReply]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def image(self) -> Image:
        """The quotas at the end of the log."""
        return self.cluster.image

    def running(self) -> frozenset[int]:
        """Return the brokers that Metadata lists."""
        return frozenset(broker.node for broker in self.cluster.live())

    def stop(self, node: int) -> None:
        """Stop a broker: Metadata does not list it, connections are reset."""
        self.cluster.brokers[node].running = False
        self.network.refusing.add(node)
        self.network.cut(node)

    def start(self, node: int) -> None:
        """Start a broker; it shows the whole log."""
        self.cluster.brokers[node].running = True
        self.network.refusing.discard(node)
        self.cluster.release(node)

    def direct(self) -> None:
        """Let every process reach the cluster again."""
        self.is_misdirected = False
        for connection in list(self.network.connections.values()):
            name = "" if connection.process is None else connection.process.name
            if self._cluster_of.get(name) is self.other:
                connection.cut()
        self._cluster_of.clear()

    def heal(self) -> None:
        """End all faults."""
        self.direct()
        self.answers.chances.clear()
        self.answers.failover_until = 0.0
        self.lag.clear()
        self.network.heal()
        for node in NODES:
            self.start(node)

    def commit(self, writer: str, record: QuotaRecord) -> None:
        """Commit a record of another writer."""
        token = WRITER.set(writer)
        try:
            self.cluster.commit((record,))
        finally:
            WRITER.reset(token)

    def _serve(self, node: int, connection: NetworkConnection) -> None:
        writer = connection.process.name if connection.process is not None else "?"
        present = self.other if self.is_misdirected else self.cluster
        cluster = self._cluster_of.setdefault(writer, present)
        context = contextvars.Context()
        context.run(WRITER.set, writer)
        context.run(self._accept, cluster, cluster.brokers[node], connection)

    def _accept(
        self, cluster: LoggedCluster, broker: SandboxBroker, connection: NetworkConnection
    ) -> None:
        loop = self.network.loop
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        end = connection.server
        end.context = contextvars.copy_context()
        end.begin(protocol)
        writer = asyncio.StreamWriter(end, protocol, reader, loop)
        server = RememberingConnection(
            answers=self._remembered,
            on_request=self.on_request,
            cluster=cluster,
            broker=broker,
            listener=cluster.settings.listeners[0],
            faults=self.answers,
            clock=loop.time,
            reader=reader,
            writer=writer,
        )

        async def serve() -> None:
            with contextlib.suppress(ConnectionError):
                await server.serve()
            writer.close()

        task = loop.create_task(serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
