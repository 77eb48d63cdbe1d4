"""A day of a cluster: what each group wanted on each broker, what it got under its limit, and when brokers could be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from reconciler.usage.samples import MAX_UNITS
from tests.fleet.spec import DAY_MS, Event, Fleet, Tenants, What, events, tenants

CORRELATION_MS = 600_000
"""Noise forgets half of itself in about seven minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day of a cluster, as arrays over (type, group, broker, step); whole units.

    Attributes:
        cluster: Its number.
        number: Of the day, from 0.
        ts: Milliseconds of the scrapes; a sample stands for the step before it.
        wanted: Units a second that clients wanted to send.
        served: Units a second that they did send.
        waits_ms: How long the last of it waited.
        limit: In force, 0 = none.
        up: (broker, step): whether the scrape worked.
        alive: (broker, step): whether the broker did.
    """

    cluster: int
    number: int
    ts: np.ndarray
    wanted: np.ndarray
    served: np.ndarray
    waits_ms: np.ndarray
    limit: np.ndarray
    up: np.ndarray
    alive: np.ndarray


@dataclass(slots=True)
class _Held:
    """What a day leaves to the next, over (type, group, broker)."""

    noise: np.ndarray
    backlog: np.ndarray


def days(fleet: Fleet, cluster: int) -> Iterator[Day]:
    """All days of a cluster, in order."""
    people, happens = tenants(fleet, cluster), events(fleet, cluster)
    shape = (len(fleet.kinds), fleet.groups, fleet.brokers)
    held = _Held(
        noise=fleet.chance(3, cluster).standard_normal(shape), backlog=np.zeros(shape, np.int64)
    )
    for number in range(fleet.days):
        yield _day(fleet, people, happens, held, cluster=cluster, number=number)


def _day(
    fleet: Fleet,
    people: Tenants,
    happens: tuple[Event, ...],
    held: _Held,
    *,
    cluster: int,
    number: int,
) -> Day:
    ts = fleet.from_ms + number * DAY_MS + np.arange(fleet.steps, dtype=np.int64) * fleet.step_ms
    alive, up = _presence(fleet, happens, ts)
    level = _level(fleet, people, happens, ts)
    share = _shares(fleet, people, happens, ts) * alive
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-9)
    noise = _noise(fleet, held, fleet.chance(4, cluster, number))
    scale = people.volatility[None, :, None, None]
    # One group's noise is the same everywhere but for a fifth: brokers do not scatter by themselves.
    np.multiply(noise, scale, out=noise)
    noise -= scale**2 / 2
    np.exp(noise, out=noise)
    noise *= people.mean[:, :, None, None] * level[None, :, None, :] * share[None]
    wanted = np.minimum(noise, MAX_UNITS).round().astype(np.int64)
    limit = _limits(people, happens, ts)
    served, waits = _limited(fleet, wanted, limit, held)
    return Day(
        cluster=cluster,
        number=number,
        ts=ts,
        wanted=wanted,
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
    for one in happens:
        if one.what is What.RESTART:
            alive[one.broker] &= ~_within(one, ts)
        elif one.what is What.GAP:
            up[one.broker] &= ~_within(one, ts)
    if fleet.brokers > 1:  # not all at once: a cluster without brokers wants nothing
        alive[0] |= ~alive.any(axis=0)
    return alive, up & alive


def _level(fleet: Fleet, people: Tenants, happens: tuple[Event, ...], ts: np.ndarray) -> np.ndarray:
    """(group, step): day and week, times what spikes and deployments make of it."""
    hours = (ts % DAY_MS) / 3_600_000
    wave = 1 + people.swing[:, None] * np.cos((hours[None] - people.phase[:, None]) * np.pi / 12)
    weekday = (int(ts[0]) // DAY_MS + 3) % 7  # 1 January 1970 was a Thursday; 0 = Monday
    found = wave * np.where(weekday >= 5, people.weekend, 1.0)[:, None]
    for one in happens:
        if one.what in (What.SPIKE, What.DEPLOY):
            found[one.group] *= np.where(_within(one, ts), one.factor, 1.0)
    return found


def _shares(
    fleet: Fleet, people: Tenants, happens: tuple[Event, ...], ts: np.ndarray
) -> np.ndarray:
    """(group, broker, step)."""
    found = np.repeat(people.share[:, :, None], len(ts), axis=2)
    for one in happens:
        if one.what is What.LEADER_MOVE:
            to = (one.broker + 1) % fleet.brokers
            moved = found[one.group, one.broker] * np.where(_within(one, ts), 0.9, 0.0)
            found[one.group, one.broker] -= moved
            found[one.group, to] += moved
    return found


def _noise(fleet: Fleet, held: _Held, chance: np.random.Generator) -> np.ndarray:
    """(type, group, broker, step): correlated in time, unit variance; half an hour ahead nothing is known."""
    kept = float(np.exp(-fleet.step_ms / CORRELATION_MS))
    fresh = np.sqrt(1 - kept**2)
    shape = (fleet.steps, *held.noise.shape)
    found = chance.standard_normal(shape, dtype=np.float32).astype(np.float64)
    found *= fresh
    now = held.noise
    for at in range(fleet.steps):
        now = kept * now + found[at]
        found[at] = now
    held.noise = now
    return np.ascontiguousarray(np.moveaxis(found, 0, -1))


def _limits(people: Tenants, happens: tuple[Event, ...], ts: np.ndarray) -> np.ndarray:
    """(type, group, step): whole thousands, 0 = none."""
    found = np.repeat(people.limit[:, :, None], len(ts), axis=2)
    for one in happens:
        if one.what is What.QUOTA_CHANGE:
            now = changed(found[:, one.group], one.factor)
            found[:, one.group] = np.where(_within(one, ts), now, found[:, one.group])
    return found


def changed(limit: np.ndarray, factor: float) -> np.ndarray:
    """A limit after a change, in whole thousands; none stays none."""
    return np.where(
        limit > 0, np.maximum(1_000, (limit * factor).astype(np.int64) // 1_000 * 1_000), 0
    )


def _limited(
    fleet: Fleet, wanted: np.ndarray, limit: np.ndarray, held: _Held
) -> tuple[np.ndarray, np.ndarray]:
    """What passes under the limits, and how long the rest waits: the recursion of the model, for all series at once."""
    step = fleet.step_ms
    arrived = np.moveaxis((wanted * step + 500) // 1000, -1, 0)
    free = limit == 0
    passes = np.moveaxis(np.where(free, np.int64(MAX_UNITS), limit) * step // 1000, -1, 0)[
        ..., None
    ]
    served, waits = np.empty_like(arrived), np.empty_like(arrived)
    backlog = held.backlog
    for at in range(fleet.steps):
        before = backlog
        backlog = np.maximum(0, before + arrived[at] - passes[at])
        served[at] = arrived[at] + before - backlog
        waits[at] = backlog
    held.backlog = backlog
    rates = np.moveaxis(served * 1000 // step, 0, -1)
    delays = np.moveaxis(waits, 0, -1)
    delays = np.where(free[:, :, None, :], 0, delays * 1000 // np.maximum(1, limit)[:, :, None, :])
    return np.ascontiguousarray(rates), np.ascontiguousarray(delays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The true demand of one group on one broker over the fleet's time: milliseconds and units a second."""

    ts: np.ndarray
    units: np.ndarray = field(repr=False)


def wanted(fleet: Fleet, cluster: int, group: int, broker: int, kind: int = 0) -> Wanted:
    """The true demand of one group, made anew."""
    parts = [(day.ts, day.wanted[kind, group, broker]) for day in days(fleet, cluster)]
    return Wanted(
        ts=np.concatenate([ts for ts, _ in parts]),
        units=np.concatenate([units for _, units in parts]),
    )
