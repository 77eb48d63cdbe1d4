"""Determines the broker id of scrape targets, detects duplicate broker ids, and finds the active controller."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly.points import SeriesNames
from reconciler.evidence.ingest.assembly.row_codes import is_whole
from reconciler.evidence.ingest.dialects.cluster_sources import SampleOrigin, ScrapeTarget
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.usage.samples import LEAST_STEP_MS
from reconciler.usage.tables import Measure

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
        sightings: ``(target, milliseconds, id)`` in any order; several replicas may have seen the same.
        tally: Counts invalid ids.
    """

    def __init__(
        self, points: Iterable[tuple[ScrapeTarget, int, float]], tally: DropCounts
    ) -> None:
        all_points = tuple(points)
        shared = _shared(target for target, _, _ in all_points)
        points_by_target: dict[ScrapeTarget, list[tuple[int, int]]] = {}
        for target, ts, value in all_points:
            if not is_whole(value, MAX_ID):
                tally.add(DropReason.BAD_BROKER_ID)
                continue
            instance_target = ScrapeTarget(target.instance)
            for id_target in (
                {target}
                if target.broker and instance_target in shared
                else {target, instance_target}
            ):
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


def _shared(targets: Iterable[ScrapeTarget]) -> set[ScrapeTarget]:
    """Return the instances that serve metrics of several brokers."""
    jobs_by_instance: dict[str, set[str]] = {}
    for target in targets:
        if target.broker:
            jobs_by_instance.setdefault(target.instance, set()).add(target.broker)
    return {ScrapeTarget(instance) for instance, jobs in jobs_by_instance.items() if len(jobs) > 1}


def _stretches(points: list[tuple[int, int]]) -> tuple[IdentityPeriod, ...]:
    periods: list[IdentityPeriod] = []
    for ts, number in points:
        broker = str(number)
        if periods and periods[-1].broker == broker:
            periods[-1] = IdentityPeriod(broker=broker, from_ms=periods[-1].from_ms, to_ms=ts)
        else:
            periods.append(IdentityPeriod(broker=broker, from_ms=ts, to_ms=ts))
    return tuple(periods)


HOUR_MS: Final = 3_600_000

LIKE: Final = 4
"""Hourly means that differ by more than 1/LIKE of the larger one are of two brokers. A broker that is scraped twice has
different readings each time, but nearly the same mean."""


class DuplicateBrokerCheck:
    """Compares the rates of a day by origin, to detect two brokers with the same id.

    Args:
        origins: The origins, by index.
        names: The names of series, by index.
        readings: Columns origin, series (both an index), ts_ms, and value as recorded.
    """

    def __init__(
        self,
        origins: Sequence[SampleOrigin],
        names: Sequence[SeriesNames],
        readings: pa.Table,
    ) -> None:
        self._origins, self._names, self._readings = origins, names, readings

    def alike(self, first: SampleOrigin, second: SampleOrigin, hour: int) -> bool | None:
        """Return whether at least half of the series used by either origin have the same mean in both.

        Compares only quota types that both report, because one broker may have two exporters, and only series with use.
        ``None`` = nothing to compare.
        """
        first_means, second_means = (
            self._means.get((first, hour), {}),
            self._means.get((second, hour), {}),
        )
        kinds = {self._names[number].quota_type for number in first_means} & {
            self._names[number].quota_type for number in second_means
        }
        same_count = different = 0
        for number in first_means.keys() | second_means.keys():
            means = first_means.get(number, 0.0), second_means.get(number, 0.0)
            if self._names[number].quota_type in kinds and max(means) > 0:
                is_different = LIKE * abs(means[0] - means[1]) > max(means)
                same_count, different = same_count + (not is_different), different + is_different
        return None if not same_count and not different else same_count >= different

    @cached_property
    def _means(self) -> Mapping[tuple[SampleOrigin, int], Mapping[int, float]]:
        """Return the means by origin and hour, then by series."""
        is_rate = pa.array([name.measure is Measure.RATE for name in self._names], pa.bool_())
        readings = self._readings
        is_used = pc.and_(is_rate.take(readings["series"]), pc.is_finite(readings["value"]))
        used = readings.filter(is_used)
        used = used.append_column("hour", pc.divide(used["ts_ms"], HOUR_MS))
        means = used.group_by(["origin", "hour", "series"], use_threads=False).aggregate(
            [("value", "mean")]
        )
        means_by_origin: dict[tuple[SampleOrigin, int], dict[int, float]] = {}
        columns = (means[name].to_pylist() for name in ("origin", "hour", "series", "value_mean"))
        for origin, hour, number, mean in zip(*columns, strict=True):
            means_by_origin.setdefault((self._origins[origin], hour), {})[number] = mean
        return means_by_origin


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


def sights(
    totals: Mapping[int, float], nodes: Mapping[str, Sequence[int]], times: Sequence[int]
) -> list[MutationScrape]:
    """Return the selected scrapes of some nodes.

    Args:
        totals: Mutations per second by row; 0 if missing.
        nodes: The rows of each node.
        times: Milliseconds of all rows.
    """
    return [
        MutationScrape(ts_ms=times[row], node=node, row=row, total=totals.get(row, 0.0))
        for node, rows in nodes.items()
        for row in rows
    ]
