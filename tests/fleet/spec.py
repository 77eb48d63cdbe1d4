"""The definition of a synthetic fleet: size, tenants, and all events. Values only, all derived from one seed."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final

import numpy as np

from reconciler.usage.samples import Cadence, QuotaType, cadence

DAY_MS: Final = 86_400_000


class What(StrEnum):
    """Kinds of injected events."""

    SPIKE = "spike"  # a group has `factor` times the demand for a while
    DEPLOY = "deploy"  # from then on a group has `factor` times the demand
    GAP = "gap"  # a broker works, but cannot be scraped
    RESTART = "restart"  # a broker is down; the others get its share
    LEADER_MOVE = "leader_move"  # a group's load moves from one broker to the next
    QUOTA_CHANGE = "quota_change"  # a group's limit becomes `factor` times as large


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One injected event.

    Attributes:
        what: Kind of the event.
        cluster: Number of the cluster.
        from_ms: Start, on the grid of scrapes.
        to_ms: End, exclusive; the end of the fleet's time for a permanent event.
        group: Number of the group; -1 for a broker's event.
        broker: Number of the broker; -1 for a group's event.
        factor: Factor of the event, if it has one.
    """

    what: What
    cluster: int
    from_ms: int
    to_ms: int
    group: int = -1
    broker: int = -1
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet.

    Attributes:
        clusters: Number of clusters.
        brokers: Number of brokers of each cluster.
        groups: Number of groups of each cluster; group 0 has the largest demand (Zipf).
        days: Number of days, from `first`.
        step_ms: The scrape step; at least 10 s, so that samples are not thinned.
        first: The first day, UTC.
        seed: Determines all values.
        kinds: Measured quota types.
        broker_rate: Mean bytes per second that a broker receives from producers.
        tight: Every `tight`-th group has a limit that it reaches every day.
        quiet: Whether there are no events.
    """

    clusters: int = 2
    brokers: int = 3
    groups: int = 8
    days: int = 2
    step_ms: int = 30_000
    first: date = date(2026, 9, 7)
    seed: int = 1
    kinds: tuple[QuotaType, ...] = (QuotaType.PRODUCE, QuotaType.FETCH)
    broker_rate: int = 40_000_000
    tight: int = 5
    quiet: bool = False

    def __post_init__(self) -> None:
        if (
            min(self.clusters, self.brokers, self.groups, self.days) < 1
            or DAY_MS % self.step_ms
            or self.step_ms < 10_000
        ):
            raise ValueError(
                "a fleet has at least one of everything, and a step from 10 s that divides a day"
            )

    @property
    def pace(self) -> Cadence:
        """The scrape step of brokers."""
        return cadence(self.step_ms)

    @property
    def steps(self) -> int:
        """Number of scrapes per day."""
        return DAY_MS // self.step_ms

    @property
    def from_ms(self) -> int:
        """The start of the fleet's time."""
        return int(
            datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC).timestamp()
            * 1000
        )

    @property
    def to_ms(self) -> int:
        """The end of the fleet's time, exclusive."""
        return self.from_ms + self.days * DAY_MS

    def chance(self, *what: int) -> np.random.Generator:
        """Random numbers for one purpose, independent of other draws."""
        return np.random.default_rng([self.seed, *what])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """The groups of a cluster as arrays over (type, group), of units a second.

    Attributes:
        mean: Mean demand over all brokers.
        limit: Initial limit on each broker; 0 = none.
        share: (group, broker): share of the load.
        phase: Hour of the peak.
        swing: Daily variation, 0 to 1.
        weekend: Load on weekends as a share of that on weekdays.
        volatility: Volatility of the lognormal noise.
    """

    mean: np.ndarray
    limit: np.ndarray
    share: np.ndarray
    phase: np.ndarray
    swing: np.ndarray
    weekend: np.ndarray
    volatility: np.ndarray


def tenants(fleet: Fleet, cluster: int) -> Tenants:
    """The groups of a cluster. Every `tight`-th group has a limit near its mean, a few have none."""
    chance = fleet.chance(1, cluster)
    ranks = 1.0 / np.arange(1, fleet.groups + 1) ** 1.1
    cluster_rates = fleet.broker_rate * fleet.brokers * ranks / ranks.sum()
    fan_out = chance.uniform(0.2, 3.0, fleet.groups)
    mean = np.stack(
        [
            cluster_rates if kind is QuotaType.PRODUCE else cluster_rates * fan_out
            for kind in fleet.kinds
        ]
    )
    share = chance.dirichlet(np.full(fleet.brokers, 4.0), fleet.groups)
    room = chance.uniform(3.0, 8.0, mean.shape)
    tight = np.arange(fleet.groups) % fleet.tight == fleet.tight - 1
    room[:, tight] = chance.uniform(1.05, 1.5, (mean.shape[0], int(tight.sum())))
    limit = np.maximum(1_000, mean * share.max(axis=1) * room).astype(np.int64) // 1_000 * 1_000
    limit[:, np.arange(fleet.groups) % 7 == 6] = 0
    return Tenants(
        mean=mean,
        limit=limit,
        share=share,
        phase=chance.uniform(9.0, 20.0, fleet.groups),
        swing=chance.uniform(0.2, 0.8, fleet.groups),
        weekend=chance.uniform(0.3, 1.0, fleet.groups),
        volatility=chance.uniform(0.1, 0.6, fleet.groups),
    )


def events(fleet: Fleet, cluster: int) -> tuple[Event, ...]:
    """All events of a cluster, ordered by time. Each kind occurs at least once in two or more days."""
    if fleet.quiet:
        return ()
    chance, timeline = fleet.chance(2, cluster), list[Event]()
    groups, days = fleet.groups, fleet.days

    def at() -> int:
        return (
            fleet.from_ms
            + int(chance.integers(fleet.steps // 8, fleet.steps * days)) * fleet.step_ms
        )

    def add_event(what: What, minutes: tuple[float, float] | None, **more: float) -> None:
        begin = at()
        end = fleet.to_ms
        if minutes is not None:
            length = int(chance.uniform(*minutes) * 60_000) // fleet.step_ms * fleet.step_ms
            end = min(fleet.to_ms, begin + max(fleet.step_ms, length))
        numbers = {name: int(value) for name, value in more.items() if name != "factor"}
        timeline.append(
            Event(
                what=what,
                cluster=cluster,
                from_ms=begin,
                to_ms=end,
                factor=float(more.get("factor", 1.0)),
                **numbers,
            )
        )

    for _ in range(max(1, groups * days // 20)):
        add_event(What.SPIKE, (5, 45), group=chance.integers(groups), factor=chance.uniform(2, 6))
    for _ in range(max(1, groups * days // 100)):
        add_event(
            What.DEPLOY,
            None,
            group=chance.integers(groups),
            factor=chance.choice([0.6, 0.8, 1.3, 1.7]),
        )
        add_event(
            What.LEADER_MOVE,
            None,
            group=chance.integers(groups),
            broker=chance.integers(fleet.brokers),
        )
    for _ in range(max(1, days // 2)):
        add_event(What.GAP, (1, 12), broker=chance.integers(fleet.brokers))
        add_event(What.RESTART, (1, 4), broker=chance.integers(fleet.brokers))
    for _ in range(max(1, days // 7)):
        add_event(
            What.QUOTA_CHANGE,
            None,
            group=chance.integers(groups),
            factor=chance.choice([0.5, 0.75, 1.5, 2.0]),
        )
    return tuple(
        sorted(timeline, key=lambda event: (event.from_ms, event.what, event.group, event.broker))
    )
