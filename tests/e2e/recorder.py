"""Records what brokers show during an apply, and checks that every client's limits were allowed at each time.

The check is an independent implementation of Kafka's list of levels, so that a mistake in the package's precedence
cannot hide one in its order.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from reconciler.base.protocols import Progress
from reconciler.client import ClientConfig, QuotaClient
from reconciler.errors import KquotaError
from reconciler.ports import QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.state import ALL, Alteration, Applied, Held, Rejected, Result
from tests.histories.register import Read, RegisterHistory, Write, WriteOutcome
from tests.servers.processes import HANG_SECONDS

Limits = Mapping[tuple[object, ...], tuple[float | None, ...]]
CLIENT_KEYS = range(4)
CONNECTION_RATE = 4
PAUSE_SECONDS = 0.01
"""Between two descriptions of a broker: a broker that is always asked takes a core, and is slower than in use."""


def effective(limits: Limits, user: str, client: str, column: int) -> float | None:
    """The limit of one client, by the eight levels of Kafka's documentation."""
    order = [
        (user, client),
        (user, None),
        (user, False),
        (None, client),
        (None, None),
        (None, False),
        (False, client),
        (False, None),
    ]
    for user_slot, client_slot in order:
        if client == "" and client_slot is not False:
            continue
        row = limits.get((user_slot, client_slot, False))
        if row is not None and row[column] is not None:
            return row[column]
    return None


def address_limit(limits: Limits, address: str) -> float | None:
    for name in (address, None):
        row = limits.get((False, False, name))
        if row is not None and row[CONNECTION_RATE] is not None:
            return row[CONNECTION_RATE]
    return None


def picture(
    limits: Limits, users: Iterable[str], clients: Iterable[str], addresses: Iterable[str]
) -> dict[object, float | None]:
    """Every client's limit for every key."""
    clients = list(clients)
    values: dict[object, float | None] = {
        (user, client, column): effective(limits, user, client, column)
        for user in users
        for client in clients
        for column in CLIENT_KEYS
    }
    values.update({address: address_limit(limits, address) for address in addresses})
    return values


NOTHING = (None,) * len(COLUMNS)


class RecordedStore:
    """A store that records each write with its response, for :meth:`Recording.contradictions`."""

    def __init__(self, store: QuotaStore) -> None:
        self._store = store
        self.observe, self.cluster, self.describe = store.observe, store.cluster, store.describe
        self.wait_visible = store.wait_visible
        self.writes: dict[tuple[Entity, str], list[Write]] = defaultdict(list)

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: dict[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        if validate_only:
            return await self._store.alter(alterations, validate_only=True)
        answers = {} if results is None else results
        began = time.monotonic()
        try:
            return await self._store.alter(alterations, progress=progress, results=answers)
        finally:
            self._note(alterations, answers, began)

    def _note(
        self, alterations: Sequence[Alteration], results: Mapping[Entity, Result], began: float
    ) -> None:
        for alteration in alterations:
            # Another attempt of the client may be executed after the response to its last one.
            lost = Write(value=None, began=began, outcome=WriteOutcome.UNKNOWN, is_sent_again=True)
            answers = {
                Applied: [lost, replace(lost, ended=time.monotonic(), outcome=WriteOutcome.DONE)],
                Rejected: [],
                Held: [],
            }
            writes = answers.get(type(results.get(alteration.entity)), [lost])
            for key, value in alteration.operations:
                self.writes[alteration.entity, key] += [
                    replace(write, value=value) for write in writes
                ]


@dataclass(slots=True)
class Recording:
    """Distinct states of each broker, in the order of observation."""

    states: dict[int, list[Limits]] = field(default_factory=dict)
    times: dict[int, list[float]] = field(default_factory=dict)
    looks: dict[int, int] = field(default_factory=dict)

    def take(self, node: int, limits: Limits) -> None:
        states = self.states.setdefault(node, [])
        self.looks[node] = self.looks.get(node, 0) + 1
        if not states or states[-1] != limits:
            states.append(limits)
            self.times.setdefault(node, []).append(time.monotonic())

    def contradictions(self, before: Limits, store: "RecordedStore") -> list[str]:
        """Each pair for which no order of the writes explains the brokers."""
        problems = []
        for (entity, key), writes in store.writes.items():
            column = COLUMNS.index(key)
            reads = {
                f"broker {node}": [
                    Read(value=limits.get(entity, NOTHING)[column], ended=at)
                    for limits, at in zip(states, self.times[node], strict=True)
                ]
                for node, states in self.states.items()
            }
            initial = before.get(entity, NOTHING)[column]
            problem = RegisterHistory(writes, reads, initial=initial).contradiction()
            if problem:
                problems.append(f"{entity} {key}: {problem}")
        return problems

    def unlawful(self, before: Limits, after: Limits) -> list[str]:
        """Each time at which a client had a limit that is neither its own from before nor from after."""
        names = {key for limits in (before, after) for key in limits}
        users = [*sorted({key[0] for key in names if isinstance(key[0], str)}), "somebody else"]
        clients = [
            *sorted({key[1] for key in names if isinstance(key[1], str)}),
            "something else",
            "",
        ]
        addresses = [*sorted({key[2] for key in names if isinstance(key[2], str)}), "192.0.2.99"]
        first = picture(before, users, clients, addresses)
        last = picture(after, users, clients, addresses)
        return [
            f"broker {node}, look {number}: {who} has {value}, not {first[who]} or {last[who]}"
            for node, states in self.states.items()
            for number, limits in enumerate(states)
            for who, value in picture(limits, users, clients, addresses).items()
            if value not in (first[who], last[who])
        ]


@contextmanager
def recording(bootstrap: Mapping[int, str]) -> Iterator[Recording]:
    """Describe every broker again and again, each in a separate thread, until the block ends."""
    new_recording = Recording()
    stop = threading.Event()
    started = threading.Barrier(len(bootstrap) + 1)

    async def watch(node: int, address: str) -> None:
        config = ClientConfig.from_mapping({"bootstrap.servers": address})
        async with QuotaClient(config) as client:
            new_recording.take(node, (await client.describe(ALL, node=node)).limits)
            await asyncio.to_thread(started.wait)
            while not stop.is_set():
                try:
                    state = await client.describe(ALL, node=node, timeout=2)
                except KquotaError:
                    continue  # a killed broker shows nothing, which is not a state
                new_recording.take(node, state.limits)
                await asyncio.to_thread(stop.wait, PAUSE_SECONDS)

    threads = [
        threading.Thread(target=asyncio.run, args=(watch(node, address),))
        for node, address in bootstrap.items()
    ]
    for thread in threads:
        thread.start()
    try:
        _ = started.wait(HANG_SECONDS)
        yield new_recording
    finally:
        stop.set()
        for thread in threads:
            thread.join(HANG_SECONDS)
