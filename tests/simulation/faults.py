"""The faults of a simulation: a table of kinds, and their injection."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.actors import INVENTORY
from tests.simulation.brokers import NODES

if TYPE_CHECKING:
    from tests.simulation.world import World

MEAN_SECONDS, LONGEST_SECONDS = 15.0, 55.0
"""Mean and maximum duration of a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEvent:
    """An injected fault: world, broker, end (in seconds of the loop), source of random numbers."""

    world: "World"
    node: int
    until: float
    chance: random.Random

    def later(self, action: Callable[..., object], *arguments: object) -> None:
        """Call ``action`` at the end of the fault."""
        self.world.loop.call_at(self.until, action, *arguments)


async def inject_faults(world: "World") -> None:
    """Inject random faults until shortly before the end."""
    chance, kinds = world.scenario.chance("faults"), world.scenario.faults
    table = {**TABLE, **world.fault_table}
    while kinds:
        await asyncio.sleep(chance.expovariate(1 / world.settings.fault_rate))
        if world.loop.time() > world.scenario.seconds - 1.0:
            return
        kind, now = chance.choice(kinds), world.loop.time()
        length = min(chance.expovariate(1 / MEAN_SECONDS), LONGEST_SECONDS)
        event = FaultEvent(
            world=world,
            node=chance.choice(NODES),
            until=min(now + length, world.scenario.seconds),
            chance=chance,
        )
        world.trace("fault", "%s, broker %s, %.1f s", kind, event.node, event.until - now)
        world.begins(kind, event.until)
        table.get(kind, _spoil_answers(kind))(event)


def _kill(event: FaultEvent) -> None:
    """Kill a process now, or before or after one of its next effects."""
    running = event.world.running()
    if not running:
        return
    process = event.chance.choice(running)
    if event.chance.random() < 0.2:
        process.kill()
    else:
        process.steps_left = event.chance.randint(1, 40)


def _power(event: FaultEvent) -> None:
    world = event.world
    for process in world.running():
        process.kill()
    world.disk.lose_power()
    world.laws.powerless(world.disk.cached.get(INVENTORY))


def _disk_full(event: FaultEvent) -> None:
    event.world.disk.full = True
    event.later(setattr, event.world.disk, "full", False)


def _lag(event: FaultEvent) -> None:
    event.world.brokers.lag[event.node] = event.chance.random() * 4.0
    event.later(event.world.brokers.lag.pop, event.node, None)


def _stop(event: FaultEvent) -> None:
    """Pause a broker as with SIGSTOP: connections stay open without responses."""
    world, node = event.world, event.node
    world.network.stopped.add(node)
    world.brokers.cluster.hold(node)

    def go_on() -> None:
        world.network.stopped.discard(node)
        world.brokers.cluster.release(node)
        world.network.flush()

    event.later(go_on)


def _restart(event: FaultEvent) -> None:
    event.world.brokers.stop(event.node)
    event.later(event.world.brokers.start, event.node)


def _failover(event: FaultEvent) -> None:
    world = event.world
    world.brokers.answers.failover_until = world.clock.now() + event.until - world.loop.time()


def _cut(event: FaultEvent) -> None:
    event.world.network.cut(event.node)


def _partition(event: FaultEvent) -> None:
    _separate(event, event.world.network.cut_off, event.node)


def _isolation(event: FaultEvent) -> None:
    running = event.world.running()
    if running:
        _separate(event, event.world.network.isolated, event.chance.choice(running).name)


def _separate(event: FaultEvent, apart: set[Any], member: object) -> None:
    apart.add(member)

    def join() -> None:
        apart.discard(member)
        event.world.network.flush()

    event.later(join)


def _misdirection(event: FaultEvent) -> None:
    """Let an address lead to another cluster, for processes that connect for the first time."""
    event.world.brokers.is_misdirected = True
    event.later(event.world.brokers.direct)


def _slow(event: FaultEvent) -> None:
    event.world.network.slowness = event.chance.choice((0.05, 1.0, 10.0))
    event.later(setattr, event.world.network, "slowness", 0.0)


def _spoil_answers(kind: str) -> Callable[[FaultEvent], None]:
    """Return a fault that affects a share of the requests."""

    def spoil(event: FaultEvent) -> None:
        chances = event.world.brokers.answers.chances
        chances[kind] = event.chance.choice((0.05, 0.3, 1.0))
        event.later(chances.pop, kind, None)

    return spoil


def _nothing(_: FaultEvent) -> None:
    """Do nothing: ``operator_of_commands`` interrupts commands."""


TABLE: dict[str, Callable[[FaultEvent], None]] = {
    "kill": _kill,
    "power": _power,
    "disk full": _disk_full,
    "interrupt": _nothing,
    "lag": _lag,
    "stop": _stop,
    "restart": _restart,
    "failover": _failover,
    "cut": _cut,
    "partition": _partition,
    "isolation": _isolation,
    "misdirection": _misdirection,
    "slow": _slow,
}
"""Kind -> function; other kinds affect a share of the requests."""
