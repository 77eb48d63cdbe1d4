"""A byte-level broker on loopback whose response to each request a test can script.

It implements ApiVersions, Metadata, DescribeCluster, DescribeConfigs, DescribeUserScramCredentials, SASL PLAIN, and
describe and alter of quotas in a dictionary. `on(api, *acts)` queues acts that replace the default behaviour, one
for each request of that API.
"""

import asyncio
import struct
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from reconciler.base.listeners import close_listeners
from reconciler.errors import AuthenticationError
from reconciler.wire import frames
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    APIS,
    BY_KEY,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    KafkaApi,
)
from reconciler.wire.messages import (
    alter_client_quotas,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from reconciler.wire.sasl import plain

ALL_RIGHTS = 0b1111 << 8
Parts: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request."""

    connection: int
    api: str
    version: int
    client_id: str | None
    body: bytes


@dataclass
class Turn:
    """The request to which an act responds."""

    broker: "ScriptedBroker"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    connection: int
    api: KafkaApi
    header: frames.RequestHeader
    body: bytes

    def send(self, body: bytes, *, correlation_id: int | None = None) -> None:
        number = self.header.correlation_id if correlation_id is None else correlation_id
        self.writer.write(
            frames.encode_response(
                self.api, self.header.api_version, correlation_id=number, body=body
            )
        )

    def ordinary(self, *, throttle: int = 0) -> bytes:
        return self.broker.ordinary(self, throttle)


Act = Callable[[Turn], Awaitable[None]]


async def answer(turn: Turn) -> None:
    """Send the default response."""
    turn.send(turn.ordinary())


async def close(turn: Turn) -> None:
    """Close the connection without a response."""
    turn.writer.close()


async def reset(turn: Turn) -> None:
    """Reset the connection."""
    turn.writer.transport.abort()


async def silence(turn: Turn) -> None:
    """Send no response."""


async def wrong_id(turn: Turn) -> None:
    """Send a response with an unknown correlation id."""
    turn.send(turn.ordinary(), correlation_id=turn.header.correlation_id + 77)


def throttled(milliseconds: int) -> Act:
    async def act(turn: Turn) -> None:
        turn.send(turn.ordinary(throttle=milliseconds))

    return act


def body(content: bytes) -> Act:
    async def act(turn: Turn) -> None:
        turn.send(content)

    return act


def raw(content: bytes, *, then_close: bool = False) -> Act:
    async def act(turn: Turn) -> None:
        turn.writer.write(content)
        if then_close:
            await turn.writer.drain()
            turn.writer.close()

    return act


def truncated(by: int) -> Act:
    async def act(turn: Turn) -> None:
        turn.send(turn.ordinary()[:-by])

    return act


def after(event: asyncio.Event) -> Act:
    """Return an act that responds when the event is set."""

    async def act(turn: Turn) -> None:
        await event.wait()
        turn.send(turn.ordinary())

    return act


def applied_then(last: Act) -> Act:
    """Return an act that executes the request without sending its response, so that the outcome is unknown."""

    async def act(turn: Turn) -> None:
        _ = turn.ordinary()
        await last(turn)

    return act


def code(number: int, words: str | None = None) -> Act:
    """Return an act that responds with an error code for the whole request."""

    async def act(turn: Turn) -> None:
        version = turn.header.api_version
        if turn.api is DESCRIBE_CLIENT_QUOTAS:
            content = describe_client_quotas.encode_response(
                version, entries=None, error_code=number, error_message=words
            )
        elif turn.api is ALTER_CLIENT_QUOTAS:
            request = alter_client_quotas.decode_request(version, turn.body)
            content = alter_client_quotas.encode_response(
                version, results=[(parts, number, words) for parts, _ in request.alterations]
            )
        elif turn.api is DESCRIBE_CLUSTER:
            content = describe_cluster.encode_response(
                version,
                describe_cluster.DescribeClusterResponse(
                    cluster_id="", error_code=number, error_message=words
                ),
            )
        elif turn.api is METADATA:
            content = metadata.encode_response(
                version, metadata.MetadataResponse(error_code=number)
            )
        else:
            content = describe_user_scram_credentials.encode_response(
                version,
                describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
                    error_code=number, error_message=words
                ),
            )
        turn.send(content)

    return act


@dataclass
class ScriptedBroker:
    """A broker; `async with` starts and stops it."""

    node_id: int = 1
    cluster_id: str = "test-cluster"
    other_brokers: list["ScriptedBroker"] = field(default_factory=list)
    password: str = ""  # if set, SASL PLAIN is required with this password and any user
    lifetime_ms: int = 0
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)  # instead of the default ones
    operations: int = ALL_RIGHTS
    callback: str | None = None
    scram: dict[str, tuple[describe_user_scram_credentials.CredentialInfo, ...]] = field(
        default_factory=dict
    )
    quotas: dict[Parts, dict[str, float]] = field(default_factory=dict)
    tls: object = None
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._acts: dict[str, deque[Act]] = defaultdict(deque)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        await close_listeners([self._server])
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def on(self, api: KafkaApi, *acts: Act) -> None:
        self._acts[api.name].extend(acts)

    def count(self, api: KafkaApi) -> int:
        return sum(request.api == api.name for request in self.requests)

    async def until(self, api: KafkaApi, count: int) -> None:
        """Wait until `count` requests of an API were received."""
        while self.count(api) < count:
            self._arrived.clear()
            await self._arrived.wait()

    # ---- serving ----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readexactly(4)
                size = struct.unpack(">i", head)[0]
                if not 0 < size <= frames.DEFAULT_LIMIT:
                    break  # as brokers do with invalid sizes
                frame = await reader.readexactly(size)
                header, content = frames.decode_request(frame)
                api = BY_KEY[header.api_key]
                self.requests.append(
                    ReceivedRequest(number, api.name, header.api_version, header.client_id, content)
                )
                self._arrived.set()
                waiting = self._acts[api.name]
                act = waiting.popleft() if waiting else answer
                await act(Turn(self, reader, writer, number, api, header, content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except struct.error:
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    def ordinary(self, turn: Turn, throttle: int) -> bytes:
        version = turn.header.api_version
        if turn.api is API_VERSIONS:
            return self._versions(version)
        if turn.api is METADATA:
            return self._metadata(version, throttle)
        if turn.api is DESCRIBE_CLUSTER:
            return describe_cluster.encode_response(
                version,
                describe_cluster.DescribeClusterResponse(
                    cluster_id=self.cluster_id,
                    operations=self.operations,
                    throttle_time_ms=throttle,
                    brokers=tuple(
                        describe_cluster.ClusterNode(
                            node_id=broker.node_id, host="127.0.0.1", port=broker.port
                        )
                        for broker in self._all()
                    ),
                ),
            )
        if turn.api is DESCRIBE_CLIENT_QUOTAS:
            return describe_client_quotas.encode_response(
                version, entries=self._entries(turn), throttle_time_ms=throttle
            )
        if turn.api is ALTER_CLIENT_QUOTAS:
            return self._alter(version, turn.body, throttle)
        return self._rest(turn, version, throttle)

    def _rest(self, turn: Turn, version: int, throttle: int) -> bytes:
        if turn.api is SASL_HANDSHAKE:
            request = sasl_handshake.decode_request(version, turn.body)
            good = bool(self.password) and request.mechanism == "PLAIN"
            return sasl_handshake.encode_response(
                version,
                sasl_handshake.SaslHandshakeResponse(
                    error_code=0 if good else 33, mechanisms=("PLAIN",)
                ),
            )
        if turn.api is SASL_AUTHENTICATE:
            return self._login(version, turn.body)
        if turn.api is DESCRIBE_CONFIGS:
            setting = describe_configs.ConfigEntry(
                name="client.quota.callback.class", value=self.callback
            )
            return describe_configs.encode_response(
                version,
                describe_configs.DescribeConfigsResponse(
                    throttle_time_ms=throttle,
                    results=(
                        describe_configs.ConfigsResult(
                            resource_type=4, name=str(self.node_id), settings=(setting,)
                        ),
                    ),
                ),
            )
        assert turn.api is DESCRIBE_USER_SCRAM_CREDENTIALS
        expected_users = describe_user_scram_credentials.decode_request(version, turn.body).users
        names = list(expected_users or self.scram)
        return describe_user_scram_credentials.encode_response(
            version,
            describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
                users=tuple(
                    describe_user_scram_credentials.ScramUser(
                        name=name, credentials=self.scram[name]
                    )
                    if name in self.scram
                    else describe_user_scram_credentials.ScramUser(
                        name=name, error_code=91, error_message="unknown"
                    )
                    for name in names
                )
            ),
        )

    def _versions(self, version: int) -> bytes:
        ranges = self.ranges or {api.key: (api.lowest, api.highest) for api in APIS}
        lowest, highest = ranges.get(API_VERSIONS.key, (0, 5))
        offers = [
            api_versions.ApiRange(api_key=k, lowest=a, highest=b) for k, (a, b) in ranges.items()
        ]
        if not lowest <= version <= highest:
            offers = [offer for offer in offers if offer.api_key == API_VERSIONS.key]
            return api_versions.encode_response(
                version, api_versions.ApiVersionsResponse(error_code=35, apis=tuple(offers))
            )
        return api_versions.encode_response(
            version, api_versions.ApiVersionsResponse(error_code=0, apis=tuple(offers))
        )

    def _metadata(self, version: int, throttle: int) -> bytes:
        return metadata.encode_response(
            version,
            metadata.MetadataResponse(
                cluster_id=self.cluster_id,
                throttle_time_ms=throttle,
                brokers=tuple(
                    metadata.MetadataBroker(
                        node_id=broker.node_id, host="127.0.0.1", port=broker.port
                    )
                    for broker in self._all()
                ),
            ),
        )

    def _all(self) -> Iterable["ScriptedBroker"]:
        return sorted([self, *self.other_brokers], key=lambda broker: broker.node_id)

    def _entries(self, turn: Turn) -> list[describe_client_quotas.Entry]:
        request = describe_client_quotas.decode_request(turn.header.api_version, turn.body)
        entries = []
        for parts, values in self.quotas.items():
            names = dict(parts)
            if request.strict and len(names) != len(request.components):
                continue
            if all(
                kind in names and (match == 2 or names[kind] == (name if match == 0 else None))
                for kind, match, name in request.components
            ):
                entries.append((parts, tuple(values.items())))
        return entries

    def _alter(self, version: int, content: bytes, throttle: int) -> bytes:
        request = alter_client_quotas.decode_request(version, content)
        results = []
        for named, operations in request.alterations:
            parts = tuple(sorted(named))
            bad = next((key for key, _ in operations if key.startswith("bad")), None)
            if bad:
                results.append((parts, 42, f"Invalid configuration key {bad}"))
                continue
            results.append((parts, 0, None))
            if request.validate_only:
                continue
            values = self.quotas.setdefault(parts, {})
            for key, value in operations:
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            if not values:
                del self.quotas[parts]
        return alter_client_quotas.encode_response(
            version, results=results, throttle_time_ms=throttle
        )

    def _login(self, version: int, content: bytes) -> bytes:
        token = sasl_authenticate.decode_request(version, content).token
        try:
            _, password = plain.read_plain(token)
        except AuthenticationError as error:
            return sasl_authenticate.encode_response(
                version,
                sasl_authenticate.SaslAuthenticateResponse(error_code=58, error_message=str(error)),
            )
        if password != self.password:
            return sasl_authenticate.encode_response(
                version,
                sasl_authenticate.SaslAuthenticateResponse(
                    error_code=58, error_message="Invalid username or password"
                ),
            )
        return sasl_authenticate.encode_response(
            version,
            sasl_authenticate.SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms),
        )
