"""Actors of the simulation: the loop of ``kquota watch``, commands, another writer, the author of the documents.

Loop and commands are the product's use cases; only their ports are simulated.
"""

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import ClusterLoop, LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner, loop_outcome_of
from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.quota_client import QuotaClient
from reconciler.errors import ClientError, Interrupted, KquotaError, WrongCluster
from reconciler.inventory.audit_log import FileAuditLog
from reconciler.inventory.file import FileInventory, RecordsFile
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import SETTLING_SECONDS, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.results.report import RunOrigin
from reconciler.quota.state import (
    Alteration,
    Applied,
    ClusterDescription,
    QuotaState,
    Result,
    Unknown,
    Visibility,
)
from reconciler.reconcile import (
    NewOverride,
    ReconcileOptions,
    ReconcilePorts,
    apply,
    prepare,
    rollback_orders,
)
from reconciler.sandbox.broker_rules.image import QuotaRecord
from tests.simulation.brokers import CLUSTER_ID, NODES
from tests.simulation.laws import NAMES, Run
from tests.simulation.memory_files import ProcessFiles
from tests.simulation.plan_model import PlanInputs
from tests.simulation.processes import SimulatedProcess
from tests.simulation.scenario import ADDRESSES, IN_SCOPE, OUT_OF_SCOPE

if TYPE_CHECKING:
    from tests.simulation.world import World

INVENTORY, AUDIT = Path("/kquota/inventory.json"), Path("/kquota/audit.jsonl")
CONFIG = ClientConfig(bootstrap=tuple(Address(host="kafka", port=9092 + node) for node in NODES))


class ProcessPorts:
    """The ports of one process."""

    def __init__(self, world: "World", process: SimulatedProcess) -> None:
        files = ProcessFiles(world.disk, process)
        self.client = ObservedClient(world)
        self.inventory = ObservedInventory(
            RecordsFile(INVENTORY, files=files),
            clock=world.clock,
            command="kquota",
            lock=files.lock,
        )
        self.ports = ReconcilePorts(
            store=self.client,
            inventory=self.inventory,
            clock=world.clock,
            audit=FileAuditLog(AUDIT, files=files),
        )

    def begin(self) -> None:
        """Forget what earlier runs observed."""
        self.client.states.clear()
        self.client.sent.clear()
        self.inventory.loaded.clear()

    async def close(self) -> None:
        """Close inventory and client."""
        self.inventory.close()
        await self.client.close()


class ObservedInventory(FileInventory):
    """The product's inventory, which keeps the loaded records."""

    loaded: list[OwnershipRecords]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.loaded = []

    async def load(self, cluster_id: str) -> OwnershipRecords:
        self.loaded.append(await super().load(cluster_id))
        return self.loaded[-1]


class ObservedClient(QuotaClient):
    """The product's client, which keeps described quotas, and whose waits for visibility are judged."""

    def __init__(self, world: "World") -> None:
        super().__init__(CONFIG, clock=world.clock)
        self._world = world
        self.states: list[QuotaState] = []
        self.sent: list[Alteration] = []
        self.unseen: list[Alteration] = []

    async def alter(
        self, alterations: Sequence[Alteration], **options: Any
    ) -> Mapping[Entity, Result]:
        if options.get("validate_only"):
            return await super().alter(alterations, **options)
        described = self.states[-1] if self.states else None
        self._world.judge(self._world.plan_laws.alters, alterations, self.unseen, described)
        self.sent += alterations
        results = options.setdefault("results", {})
        try:
            return await super().alter(alterations, **options)
        finally:
            self.unseen += [
                alteration
                for alteration in alterations
                if isinstance(results.get(alteration.entity), Applied)
            ]

    async def observe(self, **options: Any) -> ClusterDescription:
        self.unseen.clear()  # What is sent after a describe belongs to another plan.
        description = await super().observe(**options)
        self.states.append(description.quotas)
        return description

    async def wait_visible(self, expected: Sequence[Alteration], **options: Any) -> Visibility:
        awaited = list(self.unseen)
        began, nodes = self._world.clock.now(), self._world.brokers.running()
        visibility = await super().wait_visible(expected, **options)
        self._world.judge(self._world.plan_laws.visible, began, nodes, expected, visibility)
        if visibility.everywhere:
            self.unseen = [each for each in self.unseen if each not in awaited]
        return visibility


def options(world: "World", process: SimulatedProcess, run: Run) -> ReconcileOptions:
    """Return the options of a reconciliation."""
    return ReconcileOptions(
        rules=replace(world.settings.rules, complete=run.is_complete, force=run.is_forced),
        guards=world.guards,
        expected_cluster_id=CLUSTER_ID,
        assess=False,
        origin=RunOrigin(author=process.name),
    )


async def watch(world: "World", process: SimulatedProcess) -> None:
    """Run the loop of one cluster as ``kquota watch`` does."""
    clock, chance = world.clock, world.scenario.chance("loop")
    runner = ReconcileRunner("prod", clock=clock, removals=world.removals)
    session: ProcessPorts | None = None

    async def work(trigger: LoopTrigger) -> LoopOutcome:
        nonlocal session
        session = session or ProcessPorts(world, process)
        session.begin()
        guards, counts = world.guards, world.removals.rows
        documents, is_complete = world.documents_read(chance, may_differ=False)
        run = world.begin(process, documents, is_complete=is_complete)
        try:
            reconciliation = await runner.run(
                session.ports, options(world, process, run), merge(documents.values())
            )
        finally:
            session.inventory.close()
            world.end(run)
        if session.client.states and session.inventory.loaded:
            preview, loaded = reconciliation.preview, session.inventory.loaded
            if preview is not None:
                at = preview.created_at
                inputs = inputs_of(world, run, session.client.states[0], loaded[0], at=at)
                world.judge(world.plan_laws.prepared, inputs, preview, guards)
                world.judge(world.plan_laws.withheld, inputs, reconciliation, counts, guards)
            if reconciliation.outcome is not None:
                inputs = inputs_of(world, run, session.client.states[-1], loaded[-1], at=0.0)
                sent, withheld = session.client.sent, reconciliation.withheld
                outcome = reconciliation.outcome
                world.judge(world.plan_laws.applied, inputs, outcome, withheld, sent)
        error = reconciliation.error
        if error is None:
            world.laws.completed(run)
        world.trace(
            process.name, "reconciled: %s", error or reconciliation.outcome or "nothing to do"
        )
        if isinstance(error, WrongCluster) or (
            isinstance(error, ClientError) and not error.retriable
        ):
            await session.close()
            session = None
        return loop_outcome_of(reconciliation)

    loop = ClusterLoop(
        "prod",
        work=work,
        pace=lambda: LoopIntervals(interval=world.settings.interval),
        clock=clock,
        random=chance.random,
    )
    world.mailboxes.append(loop.mailbox)
    try:
        await loop.run(asyncio.Event())
    finally:
        world.mailboxes.remove(loop.mailbox)
        if session is not None:
            await session.close()


def inputs_of(
    world: "World", run: Run, live: QuotaState, owned: OwnershipRecords, **fields: Any
) -> PlanInputs:
    """Return what the plan of a run is computed from."""
    rules = replace(world.settings.rules, complete=run.is_complete, force=run.is_forced)
    documents = tuple(run.documents.values())
    return PlanInputs(documents=documents, owned=owned, live=live, rules=rules, **fields)


async def command(
    world: "World",
    process: SimulatedProcess,
    *,
    waits: float = 0.0,
    only: frozenset[Pair] | None = None,
    **orders: Any,
) -> None:
    """Run ``kquota apply``, ``kquota override`` or ``kquota rollback``: prepare, wait ``waits`` seconds, apply."""
    session, chance = ProcessPorts(world, process), world.scenario.chance(process.name)
    overrides = only or frozenset()
    documents, is_complete = (
        world.documents_read(chance, may_differ=True)
        if only is None
        else (dict(world.documents), True)
    )
    is_forced = only is None and not world.is_healed and chance.random() < 0.05
    run = world.begin(
        process, documents, overrides=overrides, is_complete=is_complete, is_forced=is_forced
    )
    try:
        reported_options = replace(
            options(world, process, run),
            only=None if only is None else lambda *pair: pair in only,
            **orders,
        )
        prepared = await prepare(session.ports, reported_options, merge(documents.values()))
        observation = prepared.observation
        inputs = inputs_of(
            world,
            run,
            observation.live,
            observation.owned.with_changes(prepared.override_changes),
            at=observation.at,
            only=only,
        )
        world.judge(world.plan_laws.prepared, inputs, prepared.preview, reported_options.guards)
        await world.clock.sleep(waits)
        outcome = await apply(session.ports, reported_options, prepared)
        world.trace(process.name, "applied: %s", outcome)
        inputs = replace(inputs, live=session.client.states[-1], owned=session.inventory.loaded[-1])
        world.judge(world.plan_laws.accepted, prepared.preview)
        world.judge(world.plan_laws.applied, inputs, outcome, (), session.client.sent)
        world.last_outcome = outcome
        if outcome.complete and only is None:
            world.laws.completed(run)
    except Interrupted as error:
        world.trace(process.name, "interrupted: %s", error)
    except KquotaError as error:
        world.trace(process.name, "failed: %s", error)
    finally:
        world.end(run)
        await session.close()


async def operator_of_commands(world: "World") -> None:
    """Run ``kquota apply`` repeatedly, like a user or a CI pipeline."""
    chance = world.scenario.chance("apply")
    while await world.rest(chance):
        await _approach_end_of_write(world)
        if "foreign" in world.scenario.actors and chance.random() < 0.2:
            # Its plan then corrects drift that a lagging broker does not show.
            _write_as_another(world, chance, IN_SCOPE)
        process = world.process("apply")
        waits = chance.choice((0.0, 0.0, 0.0, 5.0, 45.0))
        task = process.start(command(world, process, waits=waits))
        if "interrupt" in world.scenario.faults and chance.random() < 0.2:
            world.loop.call_later(chance.random() * 3.0, task.cancel)


async def _approach_end_of_write(world: "World") -> None:
    """Sometimes wait until a write of unknown outcome is about to end, or has just ended."""
    chance = world.scenario.chance(f"end of a write {world.loop.time()}")
    intents = world.laws.records.intents.values()
    if not intents or chance.random() < 0.5:
        return
    at = chance.choice(sorted(intent.at for intent in intents)) + SETTLING_SECONDS
    seconds = at + chance.uniform(-1.5, 0.5) - world.clock.now()
    if 0 < seconds < world.scenario.seconds - world.loop.time():
        await world.clock.sleep(seconds)


async def night_shift(world: "World") -> None:
    """Set and end overrides, and roll outcomes back, repeatedly."""
    chance = world.scenario.chance("override")
    while await world.rest(chance, 3.0):
        process = world.process("override")
        overrides, fate = sorted(world.laws.records.overrides, key=str), chance.random()
        rolled_back = _rollback(world) if fate > 0.7 else ()
        orders: dict[str, Any]
        if overrides and fate < 0.3:
            pairs = frozenset({chance.choice(overrides)})
            orders = {"ended": pairs}
        elif rolled_back:
            orders = {"overrides": rolled_back}
            pairs = frozenset((order.entity, order.key) for order in rolled_back)
        else:
            entity = chance.choice(IN_SCOPE)
            key = chance.choice(world.client_keys)
            pairs = frozenset({(entity, key)})
            order = NewOverride(
                entity=entity,
                key=key,
                value=None if chance.random() < 0.2 else world.value(key, chance),
                until=world.clock.now() + chance.choice((30.0, 300.0, 1_800.0)),
                principal="oncall",
                reason="simulated",
            )
            orders = {"overrides": (order,)}
        process.start(command(world, process, only=pairs, **orders))


def _rollback(world: "World") -> tuple[NewOverride, ...]:
    """Return the overrides that undo the last outcome."""
    outcome, world.last_outcome = world.last_outcome, None
    if outcome is None:
        return ()
    return rollback_orders(
        (pair.change for pair in outcome.pairs if isinstance(pair.result, Applied | Unknown)),
        now=world.clock.now(),
        principal="oncall",
        reason="simulated",
        seconds=600.0,
    )


async def foreign_writer(world: "World") -> None:
    """Set and remove values repeatedly, like ``kafka-configs --alter`` of another user."""
    chance = world.scenario.chance("foreign")
    while await world.rest(chance, 1.5):
        _write_as_another(world, chance, (*IN_SCOPE, *OUT_OF_SCOPE, *ADDRESSES))


def _write_as_another(world: "World", chance: random.Random, entities: Sequence[Entity]) -> None:
    """Set or remove a value of one of the entities."""
    entity = chance.choice(entities)
    key = chance.choice(world.keys_of(entity))
    live = world.brokers.image.values.get(NAMES[entity], {}).get(key)
    value = None if live is not None and chance.random() < 0.4 else world.foreign_value(key, chance)
    if value != live:
        world.trace("foreign", "sets %s %s to %s", entity, key, value)
        world.brokers.commit("foreign", QuotaRecord(names=NAMES[entity], key=key, value=value))


async def author(world: "World") -> None:
    """Change documents repeatedly; usually wake the loops."""
    chance = world.scenario.chance("author")
    while await world.rest(chance):
        world.change_documents(chance)
        for mailbox in world.mailboxes:
            if chance.random() < 0.9:
                mailbox.put("documents")


PROGRAMS = {
    "apply": operator_of_commands,
    "override": night_shift,
    "foreign": foreign_writer,
    "author": author,
}
"""All actors except the loop, which is restarted after a kill."""


async def ended(task: asyncio.Task[object]) -> None:
    """Wait for the end of a task, and ignore its result."""
    with contextlib.suppress(BaseException):
        await task
