"""Users of a simulation of operators: one who sets overrides, and the administrator of the QuotaCluster."""

import asyncio
import random
from typing import TYPE_CHECKING

from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import REQUESTED_AT
from reconciler.kube.records import overrides
from reconciler.kube.records.release import release
from reconciler.quota.ownership import Pair
from reconciler.reconcile import NewOverride
from tests.simulation.kube.operators import HOME, ProcessClock, connect
from tests.simulation.kube.resources import CLUSTER
from tests.simulation.processes import SimulatedProcess
from tests.simulation.scenario import IN_SCOPE, KEYS

if TYPE_CHECKING:
    from tests.simulation.kube.operator_world import OperatorWorld

SHORTEST_SUSPENSION, LONGEST_SUSPENSION = 5.0, 120.0
"""Shortest time in seconds that the QuotaCluster is suspended or deleted, and what is added to it at most."""


async def night_shift(world: "OperatorWorld") -> None:
    """Set and end overrides repeatedly, as ``kquota override --kubernetes`` does."""
    chance = world.scenario.chance("override")
    while await world.rest(chance, 3.0):
        begun = sorted(world.laws.records.overrides, key=str)
        if begun and chance.random() < 0.3:
            pair = chance.choice(begun)
            order: NewOverride | None = None
        else:
            pair = chance.choice(IN_SCOPE), chance.choice(KEYS)
            order = NewOverride(
                entity=pair[0],
                key=pair[1],
                value=chance.choice((*world.settings.values, None)),
                until=world.clock.now() + chance.choice((30.0, 300.0, 1_800.0)),
                principal="oncall",
                reason="simulated",
            )
        run_override(world, order, pair)


def run_override(world: "OperatorWorld", order: NewOverride | None, pair: Pair) -> None:
    """Run a command that sets an override, or ends that of a quota key if ``order`` is ``None``."""
    process = world.process("override")
    process.start(_command(world, process, order, pair))


async def _command(
    world: "OperatorWorld",
    process: SimulatedProcess,
    order: NewOverride | None,
    pair: Pair,
) -> None:
    clock = ProcessClock(world, process.name)
    api = connect(world, process, clock)
    try:
        ledger = await overrides.ledger(api, namespace=HOME, cluster=CLUSTER)
        if order is None:
            _ = await overrides.end(ledger, frozenset({pair}), now=clock.now())
            world.trace(process.name, "ends the override of %s", pair)
        else:
            _ = await overrides.begin(ledger, [order], any_value=True)
            value, until = order.value, order.until
            world.trace(process.name, "overrides %s: %s until %s", pair, value, until)
        is_handled = await overrides.wait_until_applied(ledger, seconds=60.0, clock=clock)
        world.trace(process.name, "its request was %s", "handled" if is_handled else "not handled")
    except KquotaError as error:
        world.trace(process.name, "failed: %s", error)


def edit_status(world: "OperatorWorld", chance: random.Random) -> None:
    """Replace the status of a ClientQuota, as ``kubectl edit --subresource=status`` does."""
    objects = [obj for obj in world.server.of("clientquotas") if obj.get("status")]
    if not objects:
        return
    obj = chance.choice(objects)
    pending = {"type": "Ready", "status": "False", "reason": "Pending"}
    status = chance.choice(({}, {**obj["status"], "conditions": [pending]}))
    place = "clientquotas", obj["metadata"]["namespace"], obj["metadata"]["name"]
    world.trace("admin", "edits the status of %s", place[2])
    world.server.replace_status("admin", place, status)


def request_reconciliation(world: "OperatorWorld") -> None:
    """Request a reconciliation by its annotation."""
    obj = world.server.find("quotaclusters", "", CLUSTER)
    assert obj is not None
    annotations = {REQUESTED_AT: str(world.clock.now())}
    world.trace("admin", "requests a reconciliation")
    metadata = {"name": CLUSTER, "annotations": annotations}
    _ = world.server.put("admin", "quotaclusters", {**obj, "metadata": metadata})


def _release(world: "OperatorWorld", _: random.Random) -> None:
    """Run ``kquota operator release --all``, although an operator runs."""
    process = world.process("release")
    world.trace(process.name, "releases every document")
    process.start(_release_all(world, process))


async def _release_all(world: "OperatorWorld", process: SimulatedProcess) -> None:
    api = connect(world, process, ProcessClock(world, process.name))
    try:
        result = await release(
            api, namespaces=(), operator_namespace=HOME, progress=lambda *_: None
        )
        world.trace(process.name, "released: %s", result)
    except KquotaError as error:
        world.trace(process.name, "failed: %s", error)


async def administrator(world: "OperatorWorld") -> None:
    """Repeatedly edit a status, release documents, suspend the QuotaCluster for some time, or delete and recreate it."""
    chance = world.scenario.chance("admin")
    while await world.rest(chance, 4.0):
        fate = chance.random()
        if fate < 0.4:
            deed = edit_status if fate < 0.3 else _release
            deed(world, chance)
            continue
        seconds = SHORTEST_SUSPENSION + chance.random() * LONGEST_SUSPENSION
        if chance.random() < 0.7:
            world.configure(suspend=True)
        else:
            world.trace("admin", "deletes %s", CLUSTER)
            world.server.remove("admin", ("quotaclusters", "", CLUSTER))
        await asyncio.sleep(min(seconds, max(world.scenario.seconds - world.loop.time(), 0.0)))
        world.configure()
