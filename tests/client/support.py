"""Shared by tests of the client: a client for scripted brokers, a recorder of events, a function to run coroutines."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from reconciler.client import ClientConfig, ClientEvents, QuotaClient
from reconciler.quota.entity import Entity, entity
from reconciler.quota.state import Alteration
from tests.fakes.clock import FakeClock
from tests.fakes.manual_clock import TurnedClock
from tests.fakes.scripted_broker import ScriptedBroker

ALICE = entity(user="alice")
BOB = entity(user="bob", client_id=None)
RATE = "producer_byte_rate"
PAUSES: dict[str, object] = {
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 2,
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 2,
}
USUAL_PAUSES: dict[str, object] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
}


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine test; it fails as hanging after a minute."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


class Recorder:
    """Records all events by kind."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []
        self._something = asyncio.Event()

    def events(self) -> ClientEvents:
        kinds = ClientEvents.__struct_fields__
        return ClientEvents(**{kind: functools.partial(self._keep, kind) for kind in kinds})

    def _keep(self, kind: str, event: Any) -> None:
        self.entries.append((kind, event))
        self._something.set()

    async def until(self, kind: str, count: int = 1) -> None:
        while len(self.of(kind)) < count:
            self._something.clear()
            await self._something.wait()

    def of(self, kind: str) -> list[Any]:
        return [event for name, event in self.entries if name == kind]


def config(*brokers: ScriptedBroker, **settings: object) -> ClientConfig:
    properties: dict[str, object] = {
        "bootstrap.servers": ",".join(broker.address for broker in brokers),
        **PAUSES,
    }
    if brokers and brokers[0].password:
        properties |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": brokers[0].password,
        }
    properties |= {key.replace("_", "."): value for key, value in settings.items()}
    return ClientConfig.from_mapping(properties)


def client(
    *brokers: ScriptedBroker,
    recorder: Recorder | None = None,
    clock: FakeClock | TurnedClock | None = None,
    **settings: object,
) -> QuotaClient:
    """A client of scripted brokers; with a fake clock its pauses are Kafka's, so that a deadline has few attempts."""
    settings = ({} if clock is None else USUAL_PAUSES) | settings
    events = (recorder or Recorder()).events()
    return QuotaClient(config(*brokers, **settings), events=events, clock=clock)


def setting(subject: Entity, value: float | None = 1024.0, key: str = RATE) -> Alteration:
    return Alteration(entity=subject, operations=((key, value),))
