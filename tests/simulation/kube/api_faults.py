"""The faults of a simulation of operators, besides those of brokers and network."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.faults import TABLE, FaultEvent
from tests.simulation.processes import SimulatedProcess

if TYPE_CHECKING:
    from tests.simulation.kube.operator_world import OperatorWorld


def _world(event: FaultEvent) -> "OperatorWorld":
    return cast("OperatorWorld", event.world)


def _process(event: FaultEvent) -> SimulatedProcess | None:
    running = event.world.running()
    return event.chance.choice(running) if running else None


def _terminate(event: FaultEvent) -> None:
    """Send SIGTERM to a pod, as in a rollout."""
    process = _process(event)
    if process is not None and (stop := _world(event).stops.get(process.name)) is not None:
        stop.set()


def _pause(event: FaultEvent) -> None:
    """Pause a process; its connections stay open and its clocks continue."""
    process = _process(event)
    if process is not None:
        _world(event).pause(process, event.until)


def _clock_step(event: FaultEvent) -> None:
    """Step the wall clock of a replica."""
    world = _world(event)
    replica = event.chance.choice(world.replicas)
    seconds = event.chance.choice((-30.0, -5.0, 5.0, 30.0))
    world.clock_steps[replica] = seconds
    world.trace("fault", "the clock of %s is off by %g s", replica, seconds)


def _outage(event: FaultEvent) -> None:
    api = _world(event).api
    api.is_down = True
    event.later(setattr, api, "is_down", False)


def _isolation(event: FaultEvent) -> None:
    process, api = _process(event), _world(event).api
    if process is not None:
        api.isolated.add(process.name)
        event.later(api.isolated.discard, process.name)


def _lease_isolation(event: FaultEvent) -> None:
    """Cut the connection that a replica has for its Lease alone."""
    processes = [each for each in event.world.running() if each.name in _world(event).stops]
    if processes:
        name, leases = event.chance.choice(processes).name, _world(event).api.isolated_leases
        leases.add(name)
        event.later(leases.discard, name)


def _requests(kind: str) -> Callable[[FaultEvent], None]:
    def spoil(event: FaultEvent) -> None:
        chances = _world(event).api.chances
        chances[kind] = event.chance.choice((0.05, 0.3, 0.8))
        event.later(chances.pop, kind, None)

    return spoil


def _drop(event: FaultEvent) -> None:
    _world(event).api.drop_watches()


def _lag(event: FaultEvent) -> None:
    process = _process(event)
    if process is not None:
        plural = event.chance.choice(("clientquotas", "clientquotas", "quotaclusters"))
        api = _world(event).api
        slowed = api.crawls if event.chance.random() < 0.5 else api.lags
        slowed[process.name, plural] = event.until


def _cache_lag(event: FaultEvent) -> None:
    """Let the memory of the API server stand still; often a pod is terminated meanwhile, so that a start reads it."""
    server = _world(event).server
    if server.cached_at is None:
        server.cached_at = server.revision
        event.later(setattr, server, "cached_at", None)
    if event.chance.random() < 0.7:
        now = event.world.loop.time()
        at = now + event.chance.random() * (event.until - now)
        _ = event.world.loop.call_at(at, _terminate, event)


def _compaction(event: FaultEvent) -> None:
    world = _world(event)
    world.server.compact()
    world.api.drop_watches()


API_TABLE: Mapping[str, Callable[[Any], None]] = {
    **TABLE,
    "terminate": _terminate,
    "pause": _pause,
    "clock step": _clock_step,
    "api outage": _outage,
    "api isolation": _isolation,
    "api error": _requests("api error"),
    "api lost answer": _requests("api lost answer"),
    "api slow": _requests("api slow"),
    "watch drop": _drop,
    "watch lag": _lag,
    "compaction": _compaction,
    "cache lag": _cache_lag,
    "lease isolation": _lease_isolation,
}
"""Kind -> function."""

LEASE_FAULTS = frozenset(API_TABLE) - TABLE.keys() - {"watch drop", "watch lag", "compaction"} | {
    "kill"
}
"""Faults that may concern a Lease: of processes, and of requests to the API server."""
