"""The best size of a request with changes: ``python -m tests.bench --only requests`` prints the table.

10,000 entities with three keys each are altered on three brokers, in requests of different sizes and over one or
several connections, by frames that are encoded before the clock starts. Meanwhile a second writer changes one entity
repeatedly, always over the same connection, and waits for each response.
"""

import itertools
import random
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from reconciler.quota.entity import entity, parts
from reconciler.wire.messages import alter_client_quotas
from tests.bench.harness import say, short
from tests.servers import ping, raw_quotas
from tests.servers.kafka import KafkaCluster

VERSION = "4.3.1"
ENTITIES = 10_000
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
API_VERSION = 1
OTHER = raw_quotas.entity(user="other-writer")
QUIET_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How changes are sent."""

    operations: int  # maximum number of operations of a request; 0 = only the second writer sends
    connections: int = 1  # number of concurrent requests, each on its own connection
    is_spread: bool = False  # whether the connections go to different brokers

    @property
    def name(self) -> str:
        where = "to three brokers" if self.is_spread else "to one broker"
        return f"{self.operations:,} operations, {self.connections} in flight {where}"


CHOICES = (
    Choice(operations=2_000),
    Choice(operations=5_000),
    Choice(operations=10_000),
    Choice(operations=2_000, connections=3),
    Choice(operations=2_000, connections=3, is_spread=True),
    Choice(operations=10_000, connections=3, is_spread=True),
)


@dataclass(slots=True, kw_only=True)
class Samples:
    """Samples of one choice, in seconds."""

    acknowledged: list[float]
    visible: list[float]
    answers: list[float]


def bodies(operations: int, turn: int, *, validate_only: bool = False) -> list[bytes]:
    """Encoded requests for all entities; ``turn`` shifts every value, so that each key changes."""
    entries = alter_client_quotas.encode_entries(
        API_VERSION,
        [
            (
                parts(entity(user=f"user-{number:05d}", client_id=f"client-{number:05d}")),
                tuple((key, float(1_000_000 + number + turn)) for key in KEYS),
            )
            for number in range(ENTITIES)
        ],
    )
    most = operations // len(KEYS)
    return [
        alter_client_quotas.join_entries(
            API_VERSION, entries[first : first + most], validate_only=validate_only
        )
        for first in range(0, ENTITIES, most)
    ]


def send(connection: socket.socket, body: bytes) -> None:
    """Send one request; decode only the first error of the response.

    Raises:
        CallFailed: The first entity was refused.
    """
    answer = ping.exchange(connection, raw_quotas.ALTER, API_VERSION, body, flexible=True)
    (error,) = struct.unpack_from(">h", answer, 4 + _varint_size(answer, 4))
    if error:
        raise ping.CallFailed(f"a request was refused with error {error}")


def _varint_size(raw: bytes, at: int) -> int:
    return next(size for size in range(1, 6) if raw[at + size - 1] < 0x80)


def send_all(ports: Sequence[int], requests: Sequence[bytes]) -> None:
    """Send all requests, one at a time on each connection."""
    waiting = iter(requests)
    lock = threading.Lock()
    failures: list[Exception] = []

    def work(port: int) -> None:
        try:
            with ping.connected(port, seconds=120) as connection:
                while True:
                    with lock:
                        body = next(waiting, None)
                    if body is None:
                        return
                    send(connection, body)
        except Exception as failure:  # noqa: BLE001 - raised by the caller
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(port,)) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class SecondWriter:
    """Changes one entity repeatedly between ``__enter__`` and ``__exit__``; ``seconds`` has the response times."""

    def __init__(self, port: int) -> None:
        self.seconds: list[float] = []
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with ping.connected(self._port, seconds=120) as connection:
            for number in itertools.count(1):
                if self._stop.is_set():
                    return
                operations = ((KEYS[0], float(number)),)
                body = alter_client_quotas.encode_request(
                    API_VERSION, [(OTHER, operations)], validate_only=False
                )
                start = time.perf_counter()
                send(connection, body)
                self.seconds.append(time.perf_counter() - start)


def last_is_visible(port: int, turn: int) -> bool:
    """Whether a broker shows the entity that was sent last."""
    last = f"user-{ENTITIES - 1:05d}".encode()
    components = (b"user", last), (b"client-id", last.replace(b"user", b"client"))
    body = struct.pack(">i", 2)
    for kind, name in components:
        body += ping.short_string(kind.decode()) + b"\0" + ping.short_string(name.decode())
    answer = ping.call(port, raw_quotas.DESCRIBE, 0, body + b"\1", seconds=30)
    return struct.pack(">d", float(1_000_000 + ENTITIES - 1 + turn)) in answer


def sample(cluster: KafkaCluster, choice: Choice, turn: int, samples: Samples) -> None:
    """One run of a choice during writes of the second writer."""
    ports = [cluster.port(node) for node in cluster.numbers]
    requests = bodies(choice.operations, turn)
    used = [ports[at % 3] if choice.is_spread else ports[0] for at in range(choice.connections)]
    never = threading.Event()
    with SecondWriter(ports[1]) as writer:
        start = time.perf_counter()
        send_all(used, requests)
        samples.acknowledged.append(time.perf_counter() - start)
        while not all(last_is_visible(port, turn) for port in ports):
            never.wait(0.02)
        samples.visible.append(time.perf_counter() - start)
    samples.answers += writer.seconds
    say(
        f"  {choice.name}: {samples.acknowledged[-1]:.2f} {samples.visible[-1]:.2f} {milliseconds(writer.seconds, 0.99)}"
    )


def quiet(port: int) -> list[float]:
    """Times of the second writer without other writes."""
    with SecondWriter(port) as writer:
        threading.Event().wait(QUIET_SECONDS)
    return writer.seconds


def measured(rounds: int) -> Iterator[tuple[str, Samples]]:
    """Samples of all choices, interleaved in a new order each round, and of the second writer alone."""
    with KafkaCluster(VERSION, nodes=3, heap_megabytes=512) as cluster:
        port = cluster.port(2)
        turn = 1
        send_all([port], bodies(5_000, turn))
        samples = {choice: Samples(acknowledged=[], visible=[], answers=[]) for choice in CHOICES}
        alone = Samples(acknowledged=[], visible=[], answers=[])
        generator = random.Random(1)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            alone.answers += quiet(port)
            for choice in generator.sample(CHOICES, len(CHOICES)):
                turn += 1
                sample(cluster, choice, turn, samples[choice])
        yield "the second writer alone", alone
        for choice in CHOICES:
            yield choice.name, samples[choice]


def milliseconds(seconds: Sequence[float], part: float | None = None) -> str:
    """The median, or another part of the samples, in milliseconds."""
    if not seconds:
        return ""
    value = (
        statistics.median(seconds)
        if part is None
        else sorted(seconds)[int(part * (len(seconds) - 1))]
    )
    return short(1000 * value)


def table(rounds: int) -> str:
    """All choices, one line each: medians of the rounds, and the waiting time of the second writer."""
    lines = [
        "| requests | acknowledged, ms | visible on three brokers, ms | second writer p50, ms | p99, ms | most, ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, samples in measured(rounds):
        cells = (
            milliseconds(samples.acknowledged),
            milliseconds(samples.visible),
            milliseconds(samples.answers),
            milliseconds(samples.answers, 0.99),
            milliseconds(samples.answers, 1.0),
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
