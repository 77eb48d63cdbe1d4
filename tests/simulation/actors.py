"""Actors of the simulation: the loop of ``kquota watch``, commands, another writer, the author of the documents.

Loop and commands are the product's use cases; only their ports are simulated.
"""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.app.loop.cluster_loop import ClusterLoop, LoopOutcome, LoopTrigger
from reconciler.app.loop.intervals import LoopIntervals
from reconciler.app.loop.loop_outcome import turn_of
from reconciler.app.loop.mailbox import Mailbox
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.removal_window import RemovalWindow
from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.quota_client import QuotaClient
from reconciler.errors import ClientError, Interrupted, KquotaError
from reconciler.inventory.audit_log import FileAuditLog
from reconciler.inventory.file import FileInventory
from reconciler.inventory.writers import InventoryWriter
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.results.report import RunOrigin
from reconciler.reconcile import NewOverride, ReconcileOptions, ReconcilePorts, apply, prepare
from reconciler.sandbox.broker_rules.image import QuotaRecord
from tests.reconcile.scenarios import OPEN
from tests.simulation.brokers import CLUSTER_ID, NODES
from tests.simulation.laws import NAMES
from tests.simulation.memory_files import ProcessFiles
from tests.simulation.processes import SimulatedProcess
from tests.simulation.scenario import ADDRESSES, IN_SCOPE, KEYS, OUT_OF_SCOPE

if TYPE_CHECKING:
    from tests.simulation.world import World

INVENTORY, AUDIT = Path("/kquota/inventory.json"), Path("/kquota/audit.jsonl")
WRITER = InventoryWriter(id="simulated", description="kquota")
CONFIG = ClientConfig(bootstrap=tuple(Address(host="kafka", port=9092 + node) for node in NODES))


class ProcessPorts:
    """The ports of one process."""

    def __init__(self, world: "World", process: SimulatedProcess) -> None:
        files = ProcessFiles(world.disk, process)
        self.client = QuotaClient(CONFIG, clock=world.clock)
        self.inventory = FileInventory(
            INVENTORY, clock=world.clock, writer=WRITER, files=files, lock=files.lock
        )
        self.ports = ReconcilePorts(
            store=self.client,
            inventory=self.inventory,
            clock=world.clock,
            audit=FileAuditLog(AUDIT, files=files),
        )

    async def close(self) -> None:
        """Close inventory and client."""
        self.inventory.close()
        await self.client.close()


def options(world: "World", process: SimulatedProcess) -> ReconcileOptions:
    """Return the options of a reconciliation."""
    return ReconcileOptions(
        rules=world.settings.rules,
        guards=replace(OPEN, max_removals=world.settings.removals),
        expected_cluster_id=CLUSTER_ID,
        assess=False,
        origin=RunOrigin(author=process.name),
    )


async def watch(world: "World", process: SimulatedProcess) -> None:
    """Run the loop of one cluster as ``kquota watch`` does."""
    clock, chance = world.clock, world.scenario.chance("loop")
    mailbox = Mailbox(clock=clock)
    world.mailboxes.append(mailbox)
    runner = ReconcileRunner(
        "prod", clock=clock, window=RemovalWindow(world.removals, seconds=3_600.0)
    )
    session: ProcessPorts | None = None

    async def work(trigger: LoopTrigger) -> LoopOutcome:
        nonlocal session
        session = session or ProcessPorts(world, process)
        run = world.begin(process)
        try:
            reconciliation = await runner.run(
                session.ports, options(world, process), world.desired()
            )
        finally:
            session.inventory.close()
            world.end(run)
        error = reconciliation.error
        if error is None:
            world.laws.completed(run)
        world.trace(
            process.name, "reconciled: %s", error or reconciliation.outcome or "nothing to do"
        )
        if isinstance(error, ClientError) and not error.retriable:
            await session.close()
            session = None
        return turn_of(reconciliation)

    intervals = LoopIntervals(interval=world.settings.interval)
    loop = ClusterLoop(
        "prod",
        mailbox=mailbox,
        work=work,
        pace=lambda: intervals,
        clock=clock,
        random=chance.random,
    )
    try:
        await loop.run(asyncio.Event())
    finally:
        world.mailboxes.remove(mailbox)
        if session is not None:
            await session.close()


async def command(
    world: "World", process: SimulatedProcess, *, waits: float = 0.0, **orders: object
) -> None:
    """Run ``kquota apply`` or ``kquota override``: prepare, wait ``waits`` seconds for a confirmation, apply."""
    session = ProcessPorts(world, process)
    overrides = orders.get("overrides", ())
    pairs = frozenset((override.entity, override.key) for override in overrides) | orders.get(
        "ended", frozenset()
    )
    run = world.begin(process, frozenset(pairs))
    try:
        reported_options = replace(options(world, process), **orders)
        prepared = await prepare(session.ports, reported_options, world.desired())
        await world.clock.sleep(waits)
        outcome = await apply(session.ports, reported_options, prepared)
        world.trace(process.name, "applied: %s", outcome)
        if outcome.complete and not orders.get("only"):
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
        process = world.process("apply")
        waits = chance.choice((0.0, 0.0, 0.0, 5.0, 45.0))
        task = process.start(command(world, process, waits=waits))
        if "interrupt" in world.scenario.faults and chance.random() < 0.2:
            world.loop.call_later(chance.random() * 3.0, task.cancel)


async def night_shift(world: "World") -> None:
    """Set and end overrides repeatedly."""
    chance = world.scenario.chance("override")
    while await world.rest(chance, 3.0):
        process = world.process("override")
        overrides = sorted(world.laws.records.overrides, key=str)
        if overrides and chance.random() < 0.3:
            pair = chance.choice(overrides)
            orders: dict[str, object] = {"ended": frozenset({pair})}
        else:
            entity = chance.choice(IN_SCOPE)
            pair = entity, chance.choice(KEYS)
            orders = {
                "overrides": (
                    NewOverride(
                        entity=entity,
                        key=pair[1],
                        value=chance.choice((*world.settings.values, None)),
                        until=world.clock.now() + chance.choice((30.0, 300.0, 1_800.0)),
                        principal="oncall",
                        reason="simulated",
                    ),
                )
            }
        orders["only"] = _only(pair)
        process.start(command(world, process, **orders))


def _only(pair: Pair) -> object:
    return lambda entity, key: (entity, key) == pair


async def foreign_writer(world: "World") -> None:
    """Set and remove values repeatedly, like ``kafka-configs --alter`` of another user."""
    chance = world.scenario.chance("foreign")
    while await world.rest(chance, 1.5):
        entity = chance.choice((*IN_SCOPE, *OUT_OF_SCOPE, *ADDRESSES))
        key = Key.CONNECTION_CREATION_RATE if entity in ADDRESSES else chance.choice(KEYS)
        live = world.brokers.image.values.get(NAMES[entity], {}).get(key)
        value = (
            None
            if live is not None and chance.random() < 0.4
            else chance.choice(world.settings.values)
        )
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
