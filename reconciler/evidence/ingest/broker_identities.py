"""Determines which scrape targets are brokers, their broker ids, and the active controller."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.evidence.ingest.cluster_sources import SampleOrigin, ScrapeTarget
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.store.files.row_codes import is_whole
from reconciler.usage.samples import LEAST_STEP_MS

MAX_ID = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityPeriod:
    """A period in which only one broker id was seen for a target."""

    broker: str
    from_ms: int
    to_ms: int


class BrokerIdentities:
    """The broker id of each target over a day.

    A target with an id from ``telemetry.brokerId`` is that broker. Otherwise app-info of the same job gives the id; if
    that job has none, app-info of the same instance.

    A target keeps its first id before the first sighting of the day and its last id after the last one. If the id
    changes, because the address was assigned to another broker, it is unknown between the last sighting of one id and
    the first of the next.

    Args:
        points: ``(target, milliseconds, id)`` in any order; several replicas may have seen the same.
        tally: Counts invalid ids.
    """

    def __init__(
        self, points: Iterable[tuple[ScrapeTarget, int, float]], tally: DropCounts
    ) -> None:
        points_by_target: dict[ScrapeTarget, list[tuple[int, int]]] = {}
        for target, ts, value in points:
            if not is_whole(value, MAX_ID):
                tally.add(DropReason.BAD_BROKER_ID)
                continue
            for id_target in () if target.broker else {target, ScrapeTarget(target.instance)}:
                points_by_target.setdefault(id_target, []).append((ts, int(value)))
        self._stretches: Mapping[ScrapeTarget, tuple[IdentityPeriod, ...]] = {
            target: _stretches(sorted(target_points))
            for target, target_points in points_by_target.items()
        }
        self._starts = {
            target: [period.from_ms for period in periods]
            for target, periods in self._stretches.items()
        }

    def knows(self, target: ScrapeTarget) -> bool:
        """Whether the broker id of a target is known at any time."""
        return bool(target.broker) or self._known_target(target) in self._stretches

    def of(self, target: ScrapeTarget, ts_ms: int) -> str | DropReason:
        """Return the broker id of a target at a time, or why it is unknown."""
        if target.broker:
            return target.broker
        known_target = self._known_target(target)
        periods = self._stretches.get(known_target)
        if periods is None:
            return DropReason.BROKER_UNKNOWN
        at = bisect_right(self._starts[known_target], ts_ms) - 1
        if at < 0:
            return periods[0].broker
        if ts_ms <= periods[at].to_ms or at == len(periods) - 1:
            return periods[at].broker
        return DropReason.BROKER_CHANGED

    def _known_target(self, target: ScrapeTarget) -> ScrapeTarget:
        return target if target in self._stretches else ScrapeTarget(target.instance)


def _stretches(points: list[tuple[int, int]]) -> tuple[IdentityPeriod, ...]:
    periods: list[IdentityPeriod] = []
    for ts, number in points:
        broker = str(number)
        if periods and periods[-1].broker == broker:
            periods[-1] = IdentityPeriod(broker=broker, from_ms=periods[-1].from_ms, to_ms=ts)
        else:
            periods.append(IdentityPeriod(broker=broker, from_ms=ts, to_ms=ts))
    return tuple(periods)


def adopted(origins: Sequence[SampleOrigin]) -> list[SampleOrigin]:
    """Assign series without the broker label (usually `up`) to the only broker of their target, if there is one."""
    brokers: dict[ScrapeTarget, set[str]] = {}
    for origin in origins:
        if origin.target.broker:
            brokers.setdefault(origin.target._replace(broker=""), set()).add(origin.target.broker)
    sole = {
        target: min(broker_ids) for target, broker_ids in brokers.items() if len(broker_ids) == 1
    }
    return [
        origin._replace(
            target=origin.target._replace(
                broker=origin.target.broker or sole.get(origin.target, "")
            )
        )
        for origin in origins
    ]


def keep_brokers(
    up_by_origin: dict[SampleOrigin, dict[int, bool]],
    measured_targets: Collection[ScrapeTarget],
    identities: BrokerIdentities,
    tally: DropCounts,
) -> None:
    """Keep only scrapes of brokers.

    A target with no metric but ``up`` may be any process on the broker's host. A successful scrape of it is not used. A
    failed one is the only information about a broker that never answers; it is used if ``telemetry.brokerId`` gives its
    id and other targets of its job are brokers.

    Args:
        up_by_origin: Scrape results of each origin; those of other targets are removed.
        measured_targets: Targets with more metrics than ``up``.
        identities: Broker ids of the targets.
        tally: Counts scrapes that are not used.
    """
    jobs = {target.job for target in measured_targets}
    for origin in list(up_by_origin):
        target, tells = origin.target, origin.target in measured_targets
        may_be = tells or (bool(target.broker) and target.job in jobs)
        if not may_be or not identities.knows(target):
            tally.add(DropReason.UP_UNKNOWN, len(up_by_origin[origin]))
        if not may_be:
            del up_by_origin[origin]
        elif not tells:
            tally.add(DropReason.UP_ALONE, sum(up_by_origin[origin].values()))
            up_by_origin[origin] = {ts: up for ts, up in up_by_origin[origin].items() if not up}


class MutationScrape(NamedTuple):
    """A selected scrape of a node that recorded controller mutations on that day."""

    ts_ms: int
    node: str
    row: int
    total: float  # mutations per second of all buckets


def active_controller_rows(scrapes: Iterable[MutationScrape], step_ms: int) -> tuple[int, ...]:
    """Return the rows of scrapes of the active controller, in ascending order of time.

    No metric identifies the active controller, but only the active controller counts mutations. A node becomes active
    when it has mutations while the last active node has none, or was not scraped for two steps. Before that, the first
    node that has mutations is active.
    """
    order = sorted(scrapes)
    if not order:
        return ()
    active = next((scrape.node for scrape in order if scrape.total > 0), order[0].node)
    last_by_node: dict[str, MutationScrape] = {}
    active_scrapes: list[MutationScrape] = []
    for scrape in order:
        last_by_node[scrape.node] = scrape
        if (
            scrape.node != active
            and scrape.total > 0
            and _is_over(last_by_node.get(active), scrape, step_ms)
        ):
            active = scrape.node
            if (
                active_scrapes
                and active_scrapes[-1].total <= 0
                and scrape.ts_ms - active_scrapes[-1].ts_ms < LEAST_STEP_MS
            ):
                # The old node has no mutations at this time: use the new one.
                _ = active_scrapes.pop()
        if scrape.node == active and (
            not active_scrapes or scrape.ts_ms - active_scrapes[-1].ts_ms >= LEAST_STEP_MS
        ):
            active_scrapes.append(scrape)
    return tuple(scrape.row for scrape in active_scrapes)


def _is_over(old: MutationScrape | None, new: MutationScrape, step_ms: int) -> bool:
    return old is None or old.total <= 0 or new.ts_ms - old.ts_ms > 2 * step_ms
