"""Connections to a cluster: selects a broker, reconnects, retries until the deadline, bootstraps again.

A call has one deadline and any number of attempts within it (KIP-533, KIP-580). These errors are final
at once: a refused login, a certificate error, a missing right, an unsupported version, a violated protocol. A refused
login stays final for the client's whole life: repeated wrong passwords could lock the account.
"""

import asyncio
import math
import random
import ssl
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from reconciler.base.backoff import Deadline
from reconciler.base.protocols import Clock
from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.events import ClientEvents, Connecting, Rebootstrapped, Retried, emit
from reconciler.client.network.connection import Connection
from reconciler.client.network.connector import FirstFlight, RequestSeconds, connect
from reconciler.client.network.login import Login
from reconciler.client.network.nodes import (
    MAX_CONNECTING,
    METADATA_REQUEST,
    ClusterMetadata,
    DialChoice,
    Nodes,
)
from reconciler.client.network.requests import (
    ClientRequest,
    ConnectAttempts,
    RequestFailed,
    can_retry,
    listed_text,
    turn,
)
from reconciler.errors import (
    AuthenticationError,
    BrokerError,
    ClientError,
    ControllerUnavailable,
    DnsError,
    RequestTimeout,
    WrongCluster,
)
from reconciler.quota.state import Node
from reconciler.wire.error_codes import (
    NOT_CONTROLLER,
    REBOOTSTRAP_REQUIRED,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)
from reconciler.wire.handshake import ListenerHint
from reconciler.wire.messages.api_versions import OfferedVersions

Answer = TypeVar("Answer")

LAST_TRY_SECONDS: Final = 1.0
"""A request that must not be repeated is not started with less time than this: its outcome would probably be unknown."""

_LOGIN_HINT: Final = (
    "check sasl.jaas.config, or sasl.username and sasl.password; the login is not retried"
)


class ClusterConnections:
    """The connections of one client.

    Attributes:
        login_error: The final refusal of its login.
        other_cluster: Set after its addresses led to another cluster than before.
    """

    def __init__(self, config: ClientConfig, *, events: ClientEvents, clock: Clock) -> None:
        self._config = config
        self._events = events
        self._clock = clock
        self._nodes = Nodes(config)
        self._connections: dict[int | None, Connection] = {}  # None: the connection to any broker
        # One lock per broker: connecting to one broker does not block calls to the others.
        self._dialing: dict[int | None, asyncio.Lock] = {}
        self._setting_up = asyncio.Semaphore(MAX_CONNECTING)
        self.login_error: AuthenticationError | None = None
        self.other_cluster: WrongCluster | None = None
        self._cluster_id = ""
        self.login = Login(config, clock)
        self._context: ssl.SSLContext | None = None
        self._flight = FirstFlight()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Brokers of the last Metadata, sorted by id."""
        return self._nodes.brokers

    @property
    def cluster_id(self) -> str:
        """Id of the cluster that answered first; "" before."""
        return self._cluster_id

    def deadline(self, seconds: float | None, *, least: float = 0.0) -> Deadline:
        """Return the deadline of a call that begins now; without ``seconds`` the configured one, at least ``least``."""
        now = self._clock.monotonic()
        if seconds is not None:
            return Deadline(at=now + seconds)
        return Deadline(
            at=now + max(self._config.call_seconds, least),
            connect_at=now + self._config.call_seconds,
            refused_at=now + self._config.refused_seconds,
        )

    async def call(
        self, ask: ClientRequest[Answer], *, deadline: Deadline, node: int | None = None
    ) -> Answer:
        """Send a request to any broker, or to the one with the id ``node``; return the decoded response.

        Raises:
            ClientError: No usable response was received; ``attempt`` is the number of attempts.
            WrongCluster: A broker of another cluster answered.
            RequestFailed: Only for requests that must not be repeated, once a byte may have been sent.
        """
        tries = unknown_error_count = 0
        last: ClientError | None = None
        while True:
            tries += 1
            used: Connection | None = None
            try:
                used = await self._connect(node, deadline, last)
                answer = await self._ask(used, ask, deadline)
                refusal = ask.refusal(ask.verdict(answer), used.node, used.scrubbed)
                if refusal is None:
                    self._nodes.record_success(used.address, self._clock.monotonic())
                    return answer
                error: ClientError = refusal
                unknown_error_count += refusal.code == UNKNOWN_SERVER_ERROR
            except RequestFailed as broken:
                if broken.written and not ask.repeatable:
                    raise
                error = broken.error
            except ControllerUnavailable as away:
                error = away
            error.attempt = tries
            last = error
            if not can_retry(error, unknown_error_count):
                raise error
            pause = self._config.retry.pause(tries, random.random)
            reserve = 0.0 if ask.repeatable else LAST_TRY_SECONDS
            if deadline.seconds_remaining(self._clock.monotonic()) <= pause + reserve:
                raise error
            await self._step_back(used, error)
            location = used.node if used is not None else error.node
            event = Retried(
                api=ask.api.name, node=location, attempt=tries, pause=pause, reason=error.message
            )
            emit(self._events.retry, event)
            await self._clock.sleep(pause)

    async def open(self, first_requests: RequestSeconds, deadline: Deadline) -> bool:
        """Open a connection if needed and return whether it was; then Metadata and these requests were sent right after login.

        The requests change nothing; the next :meth:`call` of each returns its response.
        """
        if await self._usable(None) is not None:
            return False

        now, seconds = self._clock.monotonic, self._config.request_seconds
        flight = self._flight = FirstFlight(first_requests, lambda: deadline.within(now(), seconds))
        try:
            _ = await self._connection(None, deadline)
        finally:
            flight.requests = {}
        return True

    async def refresh(self, deadline: Deadline) -> ClusterMetadata:
        """Return Metadata, requested again: cluster id and live brokers."""
        cluster_metadata = await self.call(METADATA_REQUEST, deadline=deadline)
        self._take(cluster_metadata)
        return cluster_metadata

    async def offered(self, deadline: Deadline) -> OfferedVersions:
        """Return the versions that the working broker offers."""
        return (await self._connection(None, deadline)).offered

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()

    async def _ask(
        self, used: Connection, ask: ClientRequest[Answer], deadline: Deadline
    ) -> Answer:
        if (started := self._flight.take(used, ask)) is not None:
            return await started
        seconds = max(self._config.request_seconds, ask.least_seconds)
        remaining = deadline.within(self._clock.monotonic(), seconds)
        return await used.ask(ask, seconds=remaining)

    async def _step_back(self, used: Connection | None, error: ClientError) -> None:
        """Prefer another broker next: the one that failed is avoided for a while."""
        if used is None:
            return
        code = error.code if isinstance(error, BrokerError) else 0
        if used.is_open and code not in {NOT_CONTROLLER, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT}:
            await used.close()
        if used.is_open and len(self._nodes.brokers) < 2:
            return
        self._nodes.record_failure([used.address], self._clock.monotonic())
        if self._connections.get(None) is used:
            del self._connections[None]
            await used.close()
        if code == REBOOTSTRAP_REQUIRED:
            self._rebootstrap("the broker asked for it")

    # connections ------------------------------------------------------------------------------

    async def _connection(self, node: int | None, deadline: Deadline) -> Connection:
        """Return an open connection, or a new one; failed attempts to connect are retried here until the deadline."""
        if self.login_error is not None:
            raise self.login_error
        connection = await self._usable(node)
        if connection is not None:
            return connection
        deadline = deadline.to_connect
        async with self._turn(self._dialing.setdefault(node, asyncio.Lock()), node, deadline):
            return await self._usable(node) or await self._new(node, deadline)

    def _turn(
        self, lock: asyncio.Lock | asyncio.Semaphore, node: int | None, deadline: Deadline
    ) -> AbstractAsyncContextManager[None]:
        seconds = deadline.seconds_remaining(self._clock.monotonic())
        return turn(lock, seconds, lambda: self._nodes.causes(node))

    async def _new(self, node: int | None, deadline: Deadline) -> Connection:
        """Return a new connection and store it for the next call."""
        if node is not None and self._nodes.address(node) is None:
            _ = await self.refresh(deadline)
            if (connection := await self._usable(node)) is not None:
                return connection
        connection = self._connections[node] = await self._open(node, deadline)
        return connection

    async def _connect(
        self, node: int | None, deadline: Deadline, last: ClientError | None
    ) -> Connection:
        """Return a connection; without time left for one, raise the previous error instead of the timeout."""
        try:
            return await self._connection(node, deadline)
        except RequestTimeout as error:
            raise last or error from None

    async def _usable(self, node: int | None) -> Connection | None:
        """Return the open connection to any broker, or to ``node``; those that cannot be used any more are closed."""
        candidates = [self._connections.get(node)]
        any_broker = self._connections.get(None)
        if any_broker is not None and any_broker.node_id == node:
            candidates.insert(0, any_broker)
        for connection in candidates:
            if connection is not None:
                if connection.is_open and connection.is_fresh:
                    return connection
                await connection.close()
        return None

    async def _open(self, node: int | None, deadline: Deadline) -> Connection:
        attempts = ConnectAttempts(began=self._clock.monotonic())
        while True:
            now = self._clock.monotonic()
            choice = self._choose(node, now)
            never_worked = not self._cluster_id
            is_refused = never_worked and attempts.refused_addresses >= set(self._config.bootstrap)
            remaining = min(
                deadline.seconds_remaining(now),
                deadline.refused_at - now if is_refused else math.inf,
            )
            if remaining <= 0 or choice.wait >= remaining:
                raise attempts.gave_up(now, self._nodes.causes(node))
            if choice.wait:
                await self._clock.sleep(choice.wait)
            attempts.tries += 1
            try:
                async with self._turn(self._setting_up, node, deadline):
                    return await self._attempt(choice, attempts.tries, deadline)
            except ClientError as error:
                event = Retried(
                    api="", node=error.node, attempt=attempts.tries, pause=0.0, reason=error.message
                )
                emit(self._events.retry, event)
                attempts.note(error, choice.addresses)
                self._judge(error, attempts, node)

    async def _attempt(self, choice: DialChoice, number: int, deadline: Deadline) -> Connection:
        seconds = deadline.within(self._clock.monotonic(), choice.setup_seconds)
        event = Connecting(node=listed_text(choice.addresses), attempt=number, seconds=seconds)
        emit(self._events.connecting, event)
        return await self._set_up(choice.addresses, seconds)

    def _judge(self, error: ClientError, attempts: ConnectAttempts, node: int | None) -> None:
        """Decide whether connecting may be retried.

        Raises:
            ClientError: The same error, if not.
        """
        if isinstance(error, AuthenticationError):
            if not attempts.renewed and self.login.forget_token():
                # The cached token may have been revoked: fetch one new token, no more.
                attempts.renewed = True
                return
            error.hint = error.hint or _LOGIN_HINT
            self.login_error = error
            raise error
        never_worked = not self._cluster_id
        is_final = isinstance(error, DnsError) or attempts.is_misconfigured
        if not error.retriable:
            raise error
        if never_worked and is_final:
            raise attempts.gave_up(self._clock.monotonic(), self._nodes.causes(node))

    def _choose(self, node: int | None, now: float) -> DialChoice:
        if node is not None:
            address = self._nodes.address(node)
            if address is None:
                node_ids = ", ".join(str(node.id) for node in self._nodes.brokers)
                raise ClientError(
                    f"the cluster has no live broker with the id {node}, only {node_ids}"
                )
            return self._nodes.choose_node(address, now)
        reason = self._nodes.must_rebootstrap(now)
        if reason:
            self._rebootstrap(reason)
        return self._nodes.choose(now)

    def _rebootstrap(self, reason: str) -> None:
        if self._config.rebootstrap:
            self._nodes.forget()
            emit(self._events.rebootstrap, Rebootstrapped(reason=reason))

    async def _set_up(self, addresses: tuple[Address, ...], seconds: float) -> Connection:
        """Dial, negotiate, log in and request Metadata."""
        connection: Connection | None = None
        if self._context is None and self._config.tls is not None:
            self._context = self._config.tls.context()
        try:
            async with asyncio.timeout(seconds):
                connection = await connect(
                    addresses,
                    config=self._config,
                    context=self._context,
                    login=self.login,
                    events=self._events,
                    clock=self._clock,
                    note_cause=self._nodes.note_cause,
                )
                self._take(await self._flight.send(connection, METADATA_REQUEST, seconds))
        except TimeoutError:
            await self._failed_set_up(addresses, connection)
            address_list = listed_text(addresses)
            raise RequestTimeout(
                f"no usable connection to {address_list} within {seconds:.1f} s",
                phase="connect",
                node=address_list,
                hint=ListenerHint.TIMEOUT,
            ) from None
        except RequestFailed as broken:
            if connection is not None:
                self._nodes.note_cause(connection.address, broken.error.message)
            await self._failed_set_up(addresses, connection)
            raise broken.error from None
        except BaseException:
            await self._failed_set_up(addresses, connection)
            raise
        now = self._clock.monotonic()
        self._nodes.record_success(connection.address, now)
        connection.node_id = self._nodes.id_of(connection.address)
        return connection

    async def _failed_set_up(
        self, addresses: tuple[Address, ...], connection: Connection | None
    ) -> None:
        failed = addresses if connection is None else (connection.address,)
        self._nodes.record_failure(failed, self._clock.monotonic())
        if connection is not None:
            await connection.close()

    def _take(self, cluster_metadata: ClusterMetadata) -> None:
        """Store Metadata, unless it is that of another cluster."""
        if self._cluster_id and cluster_metadata.cluster_id != self._cluster_id:
            self.other_cluster = WrongCluster(
                f"the addresses now belong to cluster {cluster_metadata.cluster_id}, but this client connected to"
                f" {self._cluster_id}",
                expected=self._cluster_id,
                actual=cluster_metadata.cluster_id,
            )
            raise self.other_cluster
        self._cluster_id = cluster_metadata.cluster_id
        self._nodes.learn(cluster_metadata.nodes, self._clock.monotonic())
