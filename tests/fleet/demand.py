"""A day of a cluster: demand of each group on each broker, rates under limits, and when brokers could be scraped."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.usage.samples import MAX_UNITS
from tests.fleet.spec import DAY_MS, Event, Fleet, Tenants, What, events, tenants

CORRELATION_MS = 600_000
"""The half-life of the noise is about seven minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day of a cluster, as arrays over (type, group, broker, step); whole units.

    Attributes:
        cluster: Its number.
        number: Number of the day, from 0.
        ts: Milliseconds of the scrapes; a sample covers the step before it.
        demand: Demand of clients in units per second.
        served: Sent units per second.
        waits_ms: Delay of the last unit.
        limit: Limit in effect, 0 = none.
        up: (broker, step): whether the scrape worked.
        alive: (broker, step): whether the broker was running.
    """

    cluster: int
    number: int
    ts: np.ndarray
    demand: np.ndarray
    served: np.ndarray
    waits_ms: np.ndarray
    limit: np.ndarray
    up: np.ndarray
    alive: np.ndarray


@dataclass(slots=True)
class _Carryover:
    """The backlog and state at the end of a day, over (type, group, broker)."""

    noise: np.ndarray
    backlog: np.ndarray


def days(fleet: Fleet, cluster: int) -> Iterator[Day]:
    """All days of a cluster, in order."""
    people, happens = tenants(fleet, cluster), events(fleet, cluster)
    shape = (len(fleet.kinds), fleet.groups, fleet.brokers)
    state = _Carryover(
        noise=fleet.chance(3, cluster).standard_normal(shape), backlog=np.zeros(shape, np.int64)
    )
    for number in range(fleet.days):
        yield _day(fleet, people, happens, state, cluster=cluster, number=number)


def _day(
    fleet: Fleet,
    people: Tenants,
    happens: tuple[Event, ...],
    state: _Carryover,
    *,
    cluster: int,
    number: int,
) -> Day:
    ts = fleet.from_ms + number * DAY_MS + np.arange(fleet.steps, dtype=np.int64) * fleet.step_ms
    alive, up = _presence(fleet, happens, ts)
    level = _level(fleet, people, happens, ts)
    share = _shares(fleet, people, happens, ts) * alive
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-9)
    noise = _noise(fleet, state, fleet.chance(4, cluster, number))
    scale = people.volatility[None, :, None, None]
    # Four fifths of a group's noise are the same on all brokers, because brokers do not vary independently.
    np.multiply(noise, scale, out=noise)
    noise -= scale**2 / 2
    np.exp(noise, out=noise)
    noise *= people.mean[:, :, None, None] * level[None, :, None, :] * share[None]
    demand = np.minimum(noise, MAX_UNITS).round().astype(np.int64)
    limit = _limits(people, happens, ts)
    served, waits = _limited(fleet, demand, limit, state)
    return Day(
        cluster=cluster,
        number=number,
        ts=ts,
        demand=demand,
        served=served,
        waits_ms=waits,
        limit=limit,
        up=up,
        alive=alive,
    )


def _within(event: Event, ts: np.ndarray) -> np.ndarray:
    return (ts >= event.from_ms) & (ts < event.to_ms)


def _presence(
    fleet: Fleet, happens: tuple[Event, ...], ts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    alive = np.ones((fleet.brokers, len(ts)), bool)
    up = np.ones((fleet.brokers, len(ts)), bool)
    for event in happens:
        if event.what is What.RESTART:
            alive[event.broker] &= ~_within(event, ts)
        elif event.what is What.GAP:
            up[event.broker] &= ~_within(event, ts)
    if fleet.brokers > 1:  # not all at once: a cluster without brokers has no demand
        alive[0] |= ~alive.any(axis=0)
    return alive, up & alive


def _level(fleet: Fleet, people: Tenants, happens: tuple[Event, ...], ts: np.ndarray) -> np.ndarray:
    """(group, step): daily and weekly cycles, times the factors of spikes and deployments."""
    hours = (ts % DAY_MS) / 3_600_000
    wave = 1 + people.swing[:, None] * np.cos((hours[None] - people.phase[:, None]) * np.pi / 12)
    weekday = (int(ts[0]) // DAY_MS + 3) % 7  # 1 January 1970 was a Thursday; 0 = Monday
    levels = wave * np.where(weekday >= 5, people.weekend, 1.0)[:, None]
    for event in happens:
        if event.what in (What.SPIKE, What.DEPLOY):
            levels[event.group] *= np.where(_within(event, ts), event.factor, 1.0)
    return levels


def _shares(
    fleet: Fleet, people: Tenants, happens: tuple[Event, ...], ts: np.ndarray
) -> np.ndarray:
    """(group, broker, step)."""
    shares = np.repeat(people.share[:, :, None], len(ts), axis=2)
    for event in happens:
        if event.what is What.LEADER_MOVE:
            to = (event.broker + 1) % fleet.brokers
            moved = shares[event.group, event.broker] * np.where(_within(event, ts), 0.9, 0.0)
            shares[event.group, event.broker] -= moved
            shares[event.group, to] += moved
    return shares


def _noise(fleet: Fleet, state: _Carryover, chance: np.random.Generator) -> np.ndarray:
    """(type, group, broker, step): correlated over less than half an hour, unit variance."""
    persistence = float(np.exp(-fleet.step_ms / CORRELATION_MS))
    fresh = np.sqrt(1 - persistence**2)
    shape = (fleet.steps, *state.noise.shape)
    noise = chance.standard_normal(shape, dtype=np.float32).astype(np.float64)
    noise *= fresh
    now = state.noise
    for at in range(fleet.steps):
        now = persistence * now + noise[at]
        noise[at] = now
    state.noise = now
    return np.ascontiguousarray(np.moveaxis(noise, 0, -1))


def _limits(people: Tenants, happens: tuple[Event, ...], ts: np.ndarray) -> np.ndarray:
    """(type, group, step): whole thousands, 0 = none."""
    limits = np.repeat(people.limit[:, :, None], len(ts), axis=2)
    for event in happens:
        if event.what is What.QUOTA_CHANGE:
            now = changed(limits[:, event.group], event.factor)
            limits[:, event.group] = np.where(_within(event, ts), now, limits[:, event.group])
    return limits


def changed(limit: np.ndarray, factor: float) -> np.ndarray:
    """A limit after a change, in whole thousands; no limit stays no limit."""
    return np.where(
        limit > 0, np.maximum(1_000, (limit * factor).astype(np.int64) // 1_000 * 1_000), 0
    )


def _limited(
    fleet: Fleet, demand: np.ndarray, limit: np.ndarray, state: _Carryover
) -> tuple[np.ndarray, np.ndarray]:
    """Served rate under the limits, and delay of the rest: the recursion of the model, for all series together."""
    step = fleet.step_ms
    arrived = np.moveaxis((demand * step + 500) // 1000, -1, 0)
    free = limit == 0
    passes = np.moveaxis(np.where(free, np.int64(MAX_UNITS), limit) * step // 1000, -1, 0)[
        ..., None
    ]
    served, waits = np.empty_like(arrived), np.empty_like(arrived)
    backlog = state.backlog
    for at in range(fleet.steps):
        before = backlog
        backlog = np.maximum(0, before + arrived[at] - passes[at])
        served[at] = arrived[at] + before - backlog
        waits[at] = backlog
    state.backlog = backlog
    rates = np.moveaxis(served * 1000 // step, 0, -1)
    delays = np.moveaxis(waits, 0, -1)
    delays = np.where(free[:, :, None, :], 0, delays * 1000 // np.maximum(1, limit)[:, :, None, :])
    return np.ascontiguousarray(rates), np.ascontiguousarray(delays)
