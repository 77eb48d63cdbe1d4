"""Responses of a hostile or broken broker, with the memory of the operator's pod."""

import asyncio
import functools
import struct
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.client.network.nodes import MAX_BROKERS
from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    MAX_ENTITIES,
    METADATA,
    KafkaApi,
)
from reconciler.wire.frames import DEFAULT_LIMIT
from reconciler.wire.messages import describe_client_quotas as quotas
from reconciler.wire.messages import metadata
from reconciler.wire.varints import encode_varint
from tests.fakes import scripted_broker as acts
from tests.fakes.scripted_broker import ScriptedBroker
from tests.limits.process_limits import Measured, Prepared, assert_bounded

HEAD = b"\x00\x00\x00\x00\x00\x00\x00"  # no throttle, no error, no message


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def minimal(size: int) -> bytes:
    """A response of `size` bytes full of small entities, each with a different name and no value."""
    block = b"".join(b"\x02\x05user\x07~~%04x\x00\x01\x00" % n for n in range(65_536))
    blocks = size // len(block)
    prefixes = (b"%02x" % n for n in range(blocks))
    count = encode_varint(blocks * 65_536 + 1)
    return b"".join((HEAD, count, *(block.replace(b"~~", prefix) for prefix in prefixes), b"\x00"))


def frame(answer: Callable[[], bytes]) -> acts.Act:
    async def act(turn: acts.Turn) -> None:
        body = answer()
        turn.writer.write(struct.pack(">ii", len(body) + 5, turn.header.correlation_id) + b"\x00")
        turn.writer.write(body)

    return act


def announced(size: int) -> acts.Act:
    async def act(turn: acts.Turn) -> None:
        turn.writer.write(struct.pack(">ii", size, turn.header.correlation_id))
        block = bytes(1024 * 1024)
        while not turn.writer.is_closing():
            turn.writer.write(block)
            await turn.writer.drain()

    return act


def brokers_of(count: int, *, port: int = 0) -> bytes:
    """Metadata with a given number of brokers, all at one port of this machine."""
    brokers = tuple(
        metadata.MetadataBroker(node_id=number, host="127.0.0.1", port=port)
        for number in range(count)
    )
    answer = metadata.MetadataResponse(cluster_id="test-cluster", brokers=brokers)
    return metadata.encode_response(METADATA.highest, answer)


PROGRAM = """
import asyncio, sys
from reconciler.cli.main import main as run
from reconciler.client import ClientConfig, QuotaClient
async def read(address):
    async with QuotaClient(ClientConfig.from_mapping({"bootstrap.servers": address})) as client:
        state = await client.describe()
        print(len(state.limits) + len(state.foreign_entities))
async def wait(address):
    async with QuotaClient(ClientConfig.from_mapping({"bootstrap.servers": address})) as client:
        print(len((await client.wait_visible([])).visible))
def main(command, *arguments):
    if command == "kquota":
        sys.argv = [command, *arguments]
        sys.exit(run())
    asyncio.run(globals()[command](*arguments))
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Prepared]:
    with Prepared(PROGRAM) as prepared:
        yield prepared


async def kquota(program: Prepared, command: str, broker: ScriptedBroker, cwd: Path) -> Measured:
    arguments = ("kquota", command, "--bootstrap-server", broker.address)
    return await asyncio.to_thread(program.run, *arguments, cwd=cwd)


async def read(program: Prepared, broker: ScriptedBroker, command: str = "read") -> Measured:
    return await asyncio.to_thread(program.run, command, broker.address)


ATTACKS: dict[str, tuple[KafkaApi, acts.Act, str]] = {
    "95 MB of the smallest entities": (
        DESCRIBE_CLIENT_QUOTAS,
        frame(lambda: minimal(95_000_000)),
        "receive.message.max.bytes",
    ),
    "as many of the smallest entities as a frame holds": (
        DESCRIBE_CLIENT_QUOTAS,
        frame(lambda: minimal(DEFAULT_LIMIT - 1_000_000)),
        "receive.max.entities",
    ),
    "an endless stream in one frame": (DESCRIBE_CLIENT_QUOTAS, announced(2**31 - 1), "max.bytes"),
    "an endless greeting": (API_VERSIONS, announced(2**30), "bootstrap.servers"),
    "300,000 brokers": (METADATA, frame(lambda: brokers_of(300_000)), "bootstrap.servers"),
    "15,000 brokers": (METADATA, frame(lambda: brokers_of(15_000)), "a cluster may have 500"),
    "50 MB about the cluster": (DESCRIBE_CLUSTER, announced(50_000_000), "bootstrap.servers"),
}


@pytest.mark.parametrize("name", ATTACKS)
@on_loop
async def test_a_response_that_is_too_large_is_refused_with_little_memory(
    name: str, program: Prepared, tmp_path: Path
) -> None:
    api, act, words = ATTACKS[name]
    async with ScriptedBroker() as broker:
        broker.on(api, *[act] * 5)
        command = "doctor" if api is DESCRIBE_CLUSTER else "describe"
        run = await kquota(program, command, broker, tmp_path)
    assert_bounded(run, words="" if command == "doctor" else words)
    assert words in run.stderr + run.stdout


@on_loop
async def test_as_many_brokers_as_are_accepted_fit_the_memory_of_the_pod(program: Prepared) -> None:
    async with ScriptedBroker() as broker:
        answer = frame(lambda: brokers_of(MAX_BROKERS, port=broker.port))
        broker.on(METADATA, *[answer] * 2 * MAX_BROKERS)
        run = await read(program, broker, "wait")
        assert broker.connections <= MAX_BROKERS + 1
    assert_bounded(run, exit_code=0)
    assert int(run.stdout) == MAX_BROKERS


def single(entity_type: bytes, key: bytes, count: int = MAX_ENTITIES) -> bytes:
    """A given number of entities with one component and, if a key is given, one value."""
    values = b"\x02" + bytes((len(key) + 1,)) + key + b"%8.1f\x00" if key else b"\x01"
    entry = b"\x02" + bytes((len(entity_type) + 1,)) + entity_type + b"\x0aname%05x\x00" + values
    return list_bytes((entry + b"\x00") % ((n, n) if key else n) for n in range(count))


def list_bytes(entries: Iterable[bytes]) -> bytes:
    parts = tuple(entries)
    return HEAD + encode_varint(len(parts) + 1) + b"".join(parts) + b"\x00"


LONG_NAMES = (DEFAULT_LIMIT - 100_000) // 32_100


def long_names() -> bytes:
    """Names of 32,000 bytes; one letter of each makes the others four bytes wide in memory."""
    name = "\U0001f600" + "a" * 32_000
    return quotas.encode_response(
        1,
        entries=(
            ((("user", f"{name}{n}"),), (("producer_byte_rate", 1.0),)) for n in range(LONG_NAMES)
        ),
    )


AT_THE_LIMIT: dict[str, tuple[int, Callable[[], bytes]]] = {
    "entities with one limit": (MAX_ENTITIES, lambda: single(b"user", b"producer_byte_rate")),
    "entities of a foreign type": (MAX_ENTITIES, lambda: single(b"x", b"")),
    "entities with a foreign key": (MAX_ENTITIES, lambda: single(b"user", b"x")),
    "names that are four times as large in memory": (LONG_NAMES, long_names),
}


@pytest.mark.parametrize("name", AT_THE_LIMIT)
@on_loop
async def test_the_largest_accepted_response_fits_the_memory_of_the_pod(
    name: str, program: Prepared
) -> None:
    entities, answer = AT_THE_LIMIT[name]
    async with ScriptedBroker() as broker:
        broker.on(DESCRIBE_CLIENT_QUOTAS, frame(answer))
        run = await read(program, broker)
    assert_bounded(run, exit_code=0)
    assert int(run.stdout) == entities


@on_loop
async def test_100_000_entities_with_three_limits_fit_the_memory_of_the_pod(
    program: Prepared,
) -> None:
    keys = (b"producer_byte_rate", b"consumer_byte_rate", b"request_percentage")
    values = b"\x04" + b"".join(bytes((len(key) + 1,)) + key + b"%8.1f\x00" for key in keys)
    entity = b"\x03\x05user\x30CN=service-%010d,OU=team,O=example-company\x00\x0aclient-id\x0eclient-%06d\x00"
    entry = entity + values + b"\x00"
    answer = list_bytes(entry % ((n,) * 5) for n in range(100_000))
    async with ScriptedBroker() as broker:
        broker.on(DESCRIBE_CLIENT_QUOTAS, frame(lambda: answer))
        run = await read(program, broker)
    assert_bounded(run, exit_code=0)
    assert int(run.stdout) == 100_000
