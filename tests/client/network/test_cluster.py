"""The connections of one client: ``close`` closes all of them after any use and any failure."""

import asyncio
import contextlib
import gc
import random
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.client import ClientConfig, QuotaClient
from reconciler.client.network.nodes import MAX_CONNECTING
from reconciler.errors import ClientError, RequestTimeout
from reconciler.sandbox.faults import CutBefore, Fault
from reconciler.sandbox.server import Sandbox
from reconciler.sandbox.settings import SandboxSettings
from reconciler.wire.apis import API_VERSIONS, DESCRIBE_CLIENT_QUOTAS, METADATA
from reconciler.wire.session import MAX_IN_FLIGHT
from tests.client.support import Recorder, client, on_loop
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker, Turn, after

NODES = (1, 2, 3)
MANY = 3 * MAX_CONNECTING
IDLE_SECONDS = 60.0


class Describe(NamedTuple):
    """A request to a given broker, or to any."""

    node: int | None


class Cancelled(NamedTuple):
    """A request to a given broker that its caller cancels after some iterations of the event loop."""

    node: int | None
    turns: int


class Cut(NamedTuple):
    """The connection of the client's next request is closed."""


class Stop(NamedTuple):
    """A broker stops."""

    node: int


class Start(NamedTuple):
    """A broker starts again."""

    node: int


class Wait(NamedTuple):
    """A share of the maximum connection age passes without requests."""

    share: float


Step = Describe | Cancelled | Cut | Stop | Start | Wait

NODE = st.sampled_from(NODES)
STEPS = st.one_of(
    st.builds(Describe, st.none() | NODE),
    st.builds(Cancelled, st.none() | NODE, st.integers(0, 12)),
    st.builds(Cut),
    st.builds(Stop, NODE),
    st.builds(Start, NODE),
    st.builds(Wait, st.sampled_from([0.4, 0.7, 1.1])),
)


async def take(step: Step, sandbox: Sandbox, our: QuotaClient, clock: FakeClock) -> None:
    match step:
        case Describe(node=node):
            with contextlib.suppress(ClientError):
                await our.describe(node=node, timeout=5)
        case Cancelled(node=node, turns=turns):
            task = asyncio.create_task(our.describe(node=node, timeout=5))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        case Cut():
            sandbox.fail(Fault(effect=CutBefore(), times=1))
        case Stop(node=node):
            await sandbox.stop(node)
        case Start(node=node):
            await sandbox.stop(node)
            await sandbox.start(node)
        case Wait(share=share):
            clock.advance(share * IDLE_SECONDS)


async def connections(steps: list[Step]) -> tuple[int, int]:
    """The number of opened connections, and of those that were closed at the end."""
    recorder, clock = Recorder(), FakeClock()
    async with Sandbox(SandboxSettings(nodes=NODES)) as sandbox:
        config = ClientConfig.from_mapping(
            {
                "bootstrap.servers": sandbox.bootstrap(),
                "connections.max.idle.ms": int(IDLE_SECONDS * 1000),
                "reconnect.backoff.ms": 1,
                "reconnect.backoff.max.ms": 2,
            }
        )
        async with QuotaClient(config, events=recorder.events(), clock=clock) as our:
            for step in steps:
                await take(step, sandbox, our, clock)
        return len(recorder.of("connected")), len(recorder.of("disconnected"))


@given(st.lists(STEPS, max_size=15))
@example([Cut(), Stop(3), Describe(2), Wait(1.1), Describe(2)])
def test_every_connection_that_was_opened_is_closed(steps: list[Step]) -> None:
    random.seed(0)  # the client chooses brokers at random
    opened, closed = asyncio.run(connections(steps))
    assert opened == closed
    # A socket or transport that was never closed warns here, and a warning is an error.
    gc.collect()


@on_loop
async def test_connections_to_many_brokers_are_set_up_a_few_at_a_time() -> None:
    """A broker names the others; each would cost a connection and a login at the same time."""
    started = asyncio.Event()
    unfinished: list[int] = []

    async def greet(turn: Turn) -> None:
        unfinished.append(broker.count(API_VERSIONS) - broker.count(METADATA))
        if broker.count(API_VERSIONS) > MAX_CONNECTING:
            started.set()
        await started.wait()
        turn.send(turn.ordinary())

    async with ScriptedBroker() as broker, client(broker) as our:
        _ = await our.describe()
        broker.other_brokers = [
            ScriptedBroker(node_id=number, port=broker.port) for number in range(2, MANY + 1)
        ]
        broker.on(API_VERSIONS, *[greet] * MANY)
        visibility = await our.wait_visible([])
    assert len(visibility.visible) == MANY
    assert max(unfinished) <= MAX_CONNECTING


@on_loop
async def test_the_deadline_of_one_waiting_request_ends_no_other() -> None:
    answering = asyncio.Event()
    async with ScriptedBroker() as broker, client(broker) as our:
        _ = await our.describe()
        broker.on(DESCRIBE_CLIENT_QUOTAS, *[after(answering)] * MAX_IN_FLIGHT)
        sent = [asyncio.create_task(our.describe()) for _ in range(MAX_IN_FLIGHT)]
        await broker.until(DESCRIBE_CLIENT_QUOTAS, 2)
        hurried, patient = (asyncio.create_task(our.describe(timeout=at)) for at in (1.0, 50.0))
        with pytest.raises(RequestTimeout):
            await hurried
        answering.set()
        answers = await asyncio.gather(*sent, patient)
    assert len(answers) == MAX_IN_FLIGHT + 1
