"""Seeded open-loop demand: when each record is due and how large it is, in five shapes."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

DEMAND_SECONDS = 200
TICK = 0.1
"""Demand is divided into ticks; a record is due in the tick in which enough bytes have accumulated."""

BATCH_OVERHEAD = 61 + 100
"""Approximate overhead of a request with one record; used only to choose limits, never to evaluate."""

BATCHED_OVERHEAD = 12
"""The same of a small record among many in a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Records of one connection: milliseconds after the start, and bytes."""

    due_ms: tuple[int, ...]
    sizes: tuple[int, ...]


def steady(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """An almost constant rate."""
    noise = [chance.lognormvariate(0, 0.2) for _ in range(seconds + 1)]
    return lambda at: noise[int(at)]


def bursts(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """A third of the mean, and three or four bursts of 12 to 25 seconds above it."""
    spans: list[tuple[float, float, float]] = []
    at = chance.uniform(10, 25)
    while at < seconds - 20:
        length = chance.uniform(12, 25)
        spans.append((at, at + length, chance.uniform(2.0, 3.5)))
        at += length + chance.uniform(20, 45)
    return lambda at: next((high for begin, end, high in spans if begin <= at < end), 0.35)


def ramp(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """A rise from a low rate to twice the mean, and a fall."""
    top = chance.uniform(0.35, 0.65) * seconds
    return lambda at: 0.1 + 1.9 * (at / top if at < top else (seconds - at) / (seconds - top))


def on_off(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """Zero or twice the mean, each for 15 to 40 seconds."""
    edges, at = [], chance.uniform(2, 10)
    while at < seconds:
        length = chance.uniform(15, 40)
        edges.append((at, at + length))
        at += length + chance.uniform(15, 40)
    return lambda at: 2.0 if any(begin <= at < end for begin, end in edges) else 0.0


def walk(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """A lognormal walk, as in the tests of the recursion."""
    level, levels = chance.gauss(0, 1), []
    for _ in range(seconds + 1):
        level = 0.97 * level + math.sqrt(1 - 0.97**2) * chance.gauss(0, 1)
        levels.append(math.exp(0.6 * level - 0.18))
    return lambda at: levels[int(at)]


def spikes(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """Half of the mean, and every 12 to 30 seconds four to eight times the mean, for two to seven seconds."""
    spans: list[tuple[float, float, float]] = []
    at = chance.uniform(5, 15)
    while at < seconds - 10:
        length = chance.uniform(2, 7)
        spans.append((at, at + length, chance.uniform(4.0, 8.0)))
        at += length + chance.uniform(12, 30)
    return lambda at: next((high for begin, end, high in spans if begin <= at < end), 0.5)


def jobs(chance: random.Random, seconds: int) -> Callable[[float], float]:
    """Nothing, and three or four jobs of 8 to 30 seconds at two to five times the mean."""
    spans: list[tuple[float, float, float]] = []
    at = chance.uniform(5, 20)
    while at < seconds - 20:
        length = chance.uniform(8, 30)
        spans.append((at, at + length, chance.uniform(2.0, 5.0)))
        at += length + chance.uniform(25, 50)
    return lambda at: next((high for begin, end, high in spans if begin <= at < end), 0.0)


SHAPES = {
    "steady": steady,
    "bursts": bursts,
    "ramp": ramp,
    "on/off": on_off,
    "walk": walk,
    "spikes": spikes,
    "jobs": jobs,
}


def schedule(
    shape: str,
    seed: int,
    *,
    mean: int,
    record: int,
    connections: int,
    seconds: int = DEMAND_SECONDS,
) -> tuple[Schedule, ...]:
    """The records of each connection of a group.

    Args:
        shape: One of `SHAPES`.
        seed: The same seed gives the same records.
        mean: Mean bytes per second over all connections, if the shape is 1.
        record: Bytes of a record, plus or minus half.
        connections: Number of connections, to which records are assigned at random.
        seconds: Duration.
    """
    chance = random.Random(seed)
    level = SHAPES[shape](chance, seconds)
    due: list[list[int]] = [[] for _ in range(connections)]
    sizes: list[list[int]] = [[] for _ in range(connections)]
    backlog, size = 0.0, record
    for tick in range(int(seconds / TICK)):
        backlog += level(tick * TICK) * mean * TICK
        while backlog >= size:
            who = chance.randrange(connections)
            due[who].append(int((tick + chance.random()) * TICK * 1000))
            sizes[who].append(size)
            backlog -= size
            size = int(record * chance.uniform(0.5, 1.5))
    schedules = []
    for times, lengths in zip(due, sizes, strict=True):
        order = sorted(zip(times, lengths, strict=True))
        schedules.append(
            Schedule(
                due_ms=tuple(time for time, _ in order), sizes=tuple(length for _, length in order)
            )
        )
    return tuple(schedules)


def drains(
    streams: tuple[Schedule, ...], limit: int, overhead: int = BATCH_OVERHEAD
) -> tuple[float, float]:
    """When a bucket that leaks at the limit is empty, in seconds after the start, and its worst delay."""
    arriving = sorted(
        (due, size + overhead)
        for stream in streams
        for due, size in zip(stream.due_ms, stream.sizes, strict=True)
    )
    backlog = last = worst = 0.0
    for due, size in arriving:
        backlog = max(0.0, backlog - (due - last) / 1000 * limit) + size
        last, worst = due, max(worst, backlog / limit)
    return last / 1000 + backlog / limit, worst


def fitting(
    streams: tuple[Schedule, ...],
    target_delay: float,
    latest: float,
    share: float = 1.0,
    overhead: int = BATCH_OVERHEAD,
) -> int:
    """A limit of two digits of which `share` gives the worst delay `target_delay` and an end at `latest`."""
    total = sum(sum(stream.sizes) for stream in streams)
    low, high = total // 1000, total
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        end, worst = drains(streams, middle, overhead)
        low, high = (middle, high) if worst > target_delay or end > latest else (low, middle)
    high = math.ceil(high / share)
    digits = 10 ** max(0, len(str(high)) - 2)
    return -(-high // digits) * digits
