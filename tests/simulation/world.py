"""A simulated world: built from a scenario, run until it converges after its faults, checked by the laws."""

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import Mailbox
from reconciler.kube.records.stored_records import StoredRows
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.results.report import Outcome
from reconciler.quota.state import limits_of
from tests.policies import CHANGING
from tests.reconcile.scenarios import OPEN
from tests.simulation import actors
from tests.simulation.brokers import Commit, SimulatedBrokers
from tests.simulation.convergence import difference
from tests.simulation.faults import inject_faults
from tests.simulation.laws import LawBroken, Laws, Run, entity_of
from tests.simulation.memory_files import MemoryDisk
from tests.simulation.network import Network
from tests.simulation.plan_laws import PlanLaws
from tests.simulation.processes import ProcessKilled, SimulatedProcess, adopt
from tests.simulation.scenario import (
    ADDRESSES,
    EPOCH,
    IN_SCOPE,
    MORE_KEYS,
    NEAR,
    Scenario,
    settings_of,
)
from tests.simulation.virtual_loop import VirtualLoop

Documents = dict[str, Declaration]
"""Name -> document."""

REST_SECONDS = 4 * 3_600.0
"""Maximum time of convergence after the last fault: a window of corrections and two of retries."""

HEALED_INTERVAL, LONG_INTERVAL = 300.0, 1_800.0
"""Shortest interval of the loop after the faults, in seconds, and that of worlds with operators."""

CALM_INTERVALS = 2.5
"""Time after convergence without any write, in intervals of the loop."""

END_SECONDS = 60.0
"""Simulated time of cancelled tasks at the end of a world."""


class LoopClock:
    """The loop's time as a clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return EPOCH + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """The result of a simulation.

    Attributes:
        scenario: The scenario.
        violation: The violated law; "" = none.
        seconds: Simulated seconds.
        own_commits: Number of the product's batches in the brokers' log.
        callbacks: Number of executed callbacks; equal for equal runs.
        trace: Events as ``(seconds, actor, sentence)``.
    """

    scenario: Scenario
    violation: str
    seconds: float
    own_commits: int
    callbacks: int
    trace: list[tuple[float, str, str]] = field(repr=False)


class World:
    """A running simulation."""

    fault_table: ClassVar[Mapping[str, Callable[[Any], None]]] = {}
    """Additional faults of this kind of world."""

    programs: ClassVar[Mapping[str, Callable[[Any], Coroutine[Any, Any, None]]]] = actors.PROGRAMS
    """Actors of this kind of world, except the loop."""

    client_keys: ClassVar[tuple[Key, ...]] = MORE_KEYS
    entities: tuple[Entity, ...] = (*IN_SCOPE, *ADDRESSES)
    rest_seconds: ClassVar[float] = REST_SECONDS
    healed_interval: ClassVar[float] = HEALED_INTERVAL

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.settings = settings_of(scenario)
        random.seed(f"{scenario.seed} product")
        self.loop = VirtualLoop(scenario.chance("tasks"), adopt)
        self.loop.set_exception_handler(self._failed)
        self.clock = LoopClock(self.loop)
        self.network = Network(self.loop, scenario.chance("network"))
        self.loop.sockets = self.network
        self.users = self.first_users()
        self.brokers = SimulatedBrokers(
            self.network, scenario.chance("brokers"), self.clock.now, self.users
        )
        self.disk = MemoryDisk(scenario.chance("disk"))
        self.laws = Laws(
            self.settings.rules, self.brokers.image, max_removals=self.settings.removals
        )
        self.file_laws = self.laws
        self.plan_laws = PlanLaws(self.laws, self.brokers)
        self.last_outcome: Outcome | None = None
        self.removals = StoredRows[RemovalCount]()
        self.mailboxes: list[Mailbox] = []
        self.documents: dict[str, Declaration] = {}
        self.processes: dict[str, SimulatedProcess] = {}
        self.violation = ""
        self.calm = False
        self.is_healed = False
        self._revisions: list[Documents] = []
        self._events: list[tuple[float, str, str, tuple[object, ...]]] = []
        self._number = 0
        self._broken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.brokers.cluster.on_commit = self._on_commit
        self.brokers.other.on_commit = self._on_other_commit
        self.disk.on_replace = self._on_replace
        self.disk.on_append = self._on_append

    def first_users(self) -> dict[str, str]:
        """Return the passwords of the brokers' users; empty = no login."""
        return {}

    # -- for actors ----------------------------------------------------------------------------------

    def trace(self, actor: str, sentence: str, *values: object) -> None:
        """Add a line to the trace."""
        self._events.append((self.loop.time(), actor, sentence, values))

    def process(self, name: str) -> SimulatedProcess:
        """Create a process."""
        self._number += 1
        process = SimulatedProcess(f"{name}-{self._number}", self.loop, self._on_kill)
        self.processes[process.name] = process
        return process

    def begin(
        self,
        process: SimulatedProcess,
        documents: Documents,
        *,
        overrides: frozenset[Pair] = frozenset(),
        is_complete: bool = True,
        is_forced: bool = False,
    ) -> Run:
        """Record the start of a run."""
        run = Run(
            process=process.name,
            started=self.clock.now(),
            documents=documents,
            overrides=overrides,
            is_complete=is_complete,
            is_forced=is_forced,
        )
        self.laws.began(run)
        return run

    def end(self, run: Run) -> None:
        """Record the end of a run, unless a kill ended it before."""
        if run.ended is None:
            run.ended = self.clock.now()

    def running(self) -> list[SimulatedProcess]:
        """Return the processes whose main task has not ended."""
        return [
            process
            for process in self.processes.values()
            if process.alive and process.main is not None and not process.main.done()
        ]

    async def rest(self, chance: random.Random, factor: float = 1.0) -> bool:
        """Wait for the next event of an actor; return false if the time of events is over."""
        await asyncio.sleep(chance.expovariate(1 / (self.settings.event_rate * factor)))
        return self.loop.time() < self.scenario.seconds

    @property
    def guards(self) -> Guards:
        """The guards now: after the faults everything is permitted."""
        if self.is_healed:
            return OPEN
        return replace(self.settings.guards, max_removals=self.settings.removals)

    def begins(self, fault: str, until: float) -> None:
        """Note a fault that begins now and ends at a time of the loop."""

    def keys_of(self, entity: Entity) -> tuple[Key, ...]:
        """Return the quota keys that writers set for an entity."""
        return self.client_keys if entity[2] is ABSENT else (Key.CONNECTION_CREATION_RATE,)

    def value(self, key: Key, chance: random.Random) -> float:
        """Return a value for a quota key."""
        value = chance.choice(self.settings.values)
        return value / 1_000.0 if key is Key.REQUEST_PERCENTAGE else value

    def foreign_value(self, key: Key, chance: random.Random) -> float:
        """Return a value of another writer, sometimes near a declared one."""
        return self.value(key, chance) + (NEAR if chance.random() < 0.1 else 0.0)

    def documents_read(self, chance: random.Random, *, may_differ: bool) -> tuple[Documents, bool]:
        """Return the documents that a run reads, and whether these are all.

        A run may fail to read some of them. If ``may_differ`` is set, another branch may contain two declarations of one
        quota key.
        """
        documents = dict(self.documents)
        fate = 1.0 if self.is_healed or not documents else chance.random()
        if fate < 0.05:
            for name in chance.sample(sorted(documents), k=len(documents) // 2 + 1):
                del documents[name]
            return documents, False
        if may_differ and fate < 0.1:
            document = documents[chance.choice(sorted(documents))]
            documents["branch/copy"] = replace(document, document="branch/copy", suspended=False)
        return documents, True

    def change_documents(self, chance: random.Random) -> None:
        """Create, change or remove one or more documents, or go back to an earlier revision."""
        fate = chance.random()
        if fate < 0.08 and self._revisions:
            self.documents = dict(chance.choice(self._revisions))
            self.trace("author", "goes back to a revision with %s documents", len(self.documents))
        elif fate < 0.1:
            self.documents = {}
            self.trace("author", "removes all documents")
        else:
            for _ in range(chance.choice((1, 1, 2, 4, 8))):
                self._change_document(chance)
        self._revisions = [*self._revisions[-4:], dict(self.documents)]

    @staticmethod
    def _names_of(entity: Entity) -> tuple[str, str]:
        """Return the names of the documents that may declare an entity."""
        tenant = "shop" if entity[0] == "alice" else "team"
        return f"{tenant}/{entity}", f"{tenant}/{entity} too"

    def _change_document(self, chance: random.Random) -> None:
        entity = chance.choice(self.entities)
        names = self._names_of(entity)
        name, other_name = names if chance.random() < 0.8 else reversed(names)
        if name in self.documents and chance.random() < 0.3:
            del self.documents[name]
            self.trace("author", "removes %s", name)
            return
        sibling = self.documents.get(other_name)
        if sibling is not None and name not in self.documents and chance.random() < 0.5:
            self.documents[name] = replace(self.documents.pop(other_name), document=name)
            self.trace("author", "renames %s", other_name)
            return
        keys = self.keys_of(entity)
        values = {
            key: self.value(key, chance)
            for key in keys
            if chance.random() < 0.7
            and (sibling is None or sibling.limits[COLUMNS.index(key)] is None)
        }
        if values:
            self._declare(name, entity, values, chance)

    def _declare(
        self, name: str, entity: Entity, values: Mapping[Key, float], chance: random.Random
    ) -> None:
        """Create or replace a document."""
        policy = chance.choice((None, DeletionPolicy.DELETE, DeletionPolicy.RETAIN))
        suspended = chance.random() < 0.05
        self.documents[name] = Declaration(
            document=name,
            entity=entity,
            limits=limits_of(dict(values)),
            path=f"{name}.yaml",
            line=1,
            deletion_policy=policy,
            suspended=suspended,
            labels=chance.choice(((), (("owner", ""),), (("owner", "payments"),))),
        )
        self.trace(
            "author",
            "declares %s %s, %s%s",
            entity,
            values,
            policy,
            ", suspended" if suspended else "",
        )

    # -- the run -------------------------------------------------------------------------------------

    def run(self, *, traces: bool = True) -> WorldResult:
        """Run until the end, or until a law is violated; without a violation there is a trace only if ``traces`` is set."""
        # Garbage collections take a twentieth of the time; what they close would depend on what ran before this world.
        gc.disable()
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._history())
            for laws in dict.fromkeys((self.laws, self.file_laws)):
                if not self.violation:
                    laws.check_histories()
        except LawBroken as error:
            self.violation = self.violation or str(error)
        finally:
            self._close()
            gc.enable()
            _ = gc.collect()
        return WorldResult(
            scenario=self.scenario,
            violation=self.violation,
            seconds=self.loop.time(),
            own_commits=self.laws.own_commits,
            callbacks=self.loop.callbacks,
            trace=[
                (at, actor, sentence % values if values else sentence)
                for at, actor, sentence, values in self._events
                if traces or self.violation
            ],
        )

    async def _history(self) -> None:
        story = asyncio.ensure_future(self._story())
        broken = asyncio.ensure_future(self._broken.wait())
        await asyncio.wait({story, broken}, return_when=asyncio.FIRST_COMPLETED)
        for task in (story, broken):
            if task.done():
                task.result()
            else:
                task.cancel()

    async def _story(self) -> None:
        self._prepare()
        background: list[asyncio.Task[None]] = []
        for name in self.scenario.actors:
            if name == "watch":
                self._start_watch()
            else:
                background.append(asyncio.ensure_future(self.programs[name](self)))
        background.append(asyncio.ensure_future(inject_faults(self)))
        await asyncio.sleep(self.scenario.seconds)
        self._heal()
        self.trace("world", "the faults are over")
        await self._comes_to_rest()

    def _prepare(self) -> None:
        chance = self.scenario.chance("first documents")
        if self.settings.declares_everything:
            for entity in (*IN_SCOPE, *ADDRESSES):
                values = {key: self.value(key, chance) for key in self.keys_of(entity)}
                self._declare(self._names_of(entity)[0], entity, values, chance)
        self.change_documents(chance)

    def _heal(self) -> None:
        self.is_healed = True
        self.laws.max_removals = self.file_laws.max_removals = OPEN.max_removals
        interval = max(self.settings.interval, self.healed_interval)
        self.settings = replace(self.settings, interval=interval)
        self.brokers.heal()
        self.disk.full = False

    def _start_watch(self) -> None:
        process = self.process("watch")
        self.trace(process.name, "starts")
        process.start(actors.watch(self, process)).add_done_callback(self._watch_ended)

    def _watch_ended(self, task: asyncio.Task[None]) -> None:
        if self.calm or task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, ProcessKilled):
            self._break(f"the loop died: {type(error).__name__}: {error}")

    @property
    def calm_seconds(self) -> float:
        """Time after convergence without any write."""
        return CALM_INTERVALS * self.settings.interval

    def difference(self) -> str:
        """Return the first difference between documents, brokers and records; "" = none."""
        return difference(self.laws, self.documents)

    async def _comes_to_rest(self) -> None:
        """Check that the product converges after the faults, and then writes nothing."""
        if self.settings.rules.in_force not in CHANGING:
            return
        end = self.loop.time() + self.rest_seconds
        problem, image = "?", self.laws.image
        records: OwnershipRecords | None = None
        while problem:
            if self.loop.time() > end:
                self._break(
                    f"not as declared {self.rest_seconds:.0f} s after the last fault: {problem}"
                )
            if "watch" not in self.scenario.actors:
                process = self.process("apply")
                await actors.ended(process.start(actors.command(self, process)))
            await asyncio.sleep(61.0)
            if self.laws.image is not image or self.laws.records is not records:
                image, records = self.laws.image, self.laws.records
                problem = self.difference()
        self.trace("world", "everything is as declared")
        await asyncio.sleep(self.settings.interval)
        before = self.laws.own_commits, self.laws.record_writes
        overridden = set(self.laws.records.overrides)  # of suspended documents; each expires
        await asyncio.sleep(self.calm_seconds)
        overrides_end = overridden != set(self.laws.records.overrides)
        if (self.laws.own_commits, self.laws.record_writes) != before and not overrides_end:
            self._break("writes although nothing has changed")

    # -- checks --------------------------------------------------------------------------------------

    def _on_kill(self, process: SimulatedProcess) -> None:
        self.trace(process.name, "is killed")
        for run in self.laws.runs:
            if run.process == process.name:
                self.end(run)
        if process.name.startswith("watch"):
            wait = self.scenario.chance(f"restart {process.name}").choice((1.0, 5.0, 20.0, 100.0))
            self.loop.call_later(wait, self._start_watch)

    def _on_commit(self, commit: Commit) -> None:
        if commit.writer != "foreign":
            self.trace(
                "brokers",
                "commit by %s: %s",
                commit.writer,
                [(entity_of(record.names), record.key, record.value) for record in commit.records],
            )
        self.judge(self.laws.committed, commit)

    def _on_other_commit(self, commit: Commit) -> None:
        self._break(f"a write to another cluster by {commit.writer}")

    def _on_replace(self, process: SimulatedProcess, path: object, content: bytes) -> None:
        if path == actors.INVENTORY:
            self.judge(self.file_laws.recorded, self.clock.now(), process.name, content)

    def _on_append(self, process: SimulatedProcess, path: object, content: bytes) -> None:
        if path == actors.AUDIT:
            self.judge(self.file_laws.audited, self.clock.now(), process.name, content)

    def judge(self, law: Callable[..., None], *facts: object) -> None:
        """Check a law, and end the world if it is violated."""
        if self.violation:
            return
        try:
            law(*facts)
        except LawBroken as error:
            self._break(str(error))

    def _break(self, violation: str) -> None:
        if not self.violation:
            self.violation = violation
            self.trace("law", "BROKEN: %s", violation)
            self._broken.set()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, ProcessKilled) or self.calm:
            return
        self._break(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _close(self) -> None:
        """Cancel all tasks, and run until they have ended."""
        self.calm = True
        for process in self.processes.values():
            if process.alive:
                process._on_kill = lambda _: None
                process.kill()
        for connection in list(self.network.connections.values()):
            connection.cut()
        for _ in range(20):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=END_SECONDS))
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False
        asyncio.set_event_loop(None)
        self.loop.close()
