"""Selects the scrapes of a day: their broker, one replica per broker and hour, and a minimum distance."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.assembly.broker_identities import BrokerIdentities
from reconciler.evidence.ingest.dialects.cluster_sources import SampleOrigin
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.usage.samples import LEAST_STEP_MS
from reconciler.usage.series import thinned

HOUR_MS: Final = 3_600_000


LIVE_MS: Final = 300_000
"""Minimum overlap of two instances that are both alive: a range query returns a stale series for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeSlot:
    """The selected scrape that the points of one scrape belong to."""

    row: int | None = None  # index in `moments`; None = none
    drop_reason: DropReason | None = None  # why there is none, or a remark; None = no remark
    spare: int | None = None  # the row to use for series that the selected replica lacks


class ScrapeTime(NamedTuple):
    """The broker and time of a selected scrape."""

    broker: str
    ts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayScrapes:
    """The scrapes of all brokers on one day."""

    # Selected successful scrapes, sorted by broker and time; the index is the *row*.
    moments: tuple[ScrapeTime, ...]
    rows: Mapping[str, range]  # the rows of each broker, ascending
    # Times of failed scrapes that are not near a successful one, by broker, ascending.
    failed: Mapping[str, tuple[int, ...]]
    places: Mapping[tuple[SampleOrigin, int], ScrapeSlot]  # the slot of each scrape
    # Rows of scrapes that are inferred from points, without `up`.
    inferred_rows: frozenset[int] = frozenset()
    # Broker ids that several brokers have, with their instances.
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(slots=True)
class _OriginHour:
    """The scrapes of a broker by one origin within an hour."""

    answered: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])


def select_scrapes(
    up_by_origin: Mapping[SampleOrigin, Mapping[int, bool]],
    read: Mapping[SampleOrigin, Iterable[int]],
    identities: BrokerIdentities,
    step_ms: int,
    *,
    inferred_origins: Collection[SampleOrigin],
    alike: Callable[[SampleOrigin, SampleOrigin, int], bool | None],
) -> DayScrapes:
    """Select the scrapes of a day.

    Args:
        up_by_origin: Times and results of the scrapes of each origin.
        read: Times of the points of each origin.
        identities: Broker ids of the targets.
        step_ms: The scrape interval; points within half of it belong to a scrape.
        inferred_origins: Origins whose scrapes are inferred from points.
        alike: Whether two origins of different instances can be the same broker in an hour (since the epoch), by their
            readings; ``None`` = nothing to compare.
    """
    hours: dict[tuple[str, int], dict[SampleOrigin, _OriginHour]] = {}
    unused: dict[tuple[SampleOrigin, int], DropReason] = {}
    for origin, scrapes in up_by_origin.items():
        for ts, up in scrapes.items():
            broker = identities.of(origin.target, ts)
            if isinstance(broker, DropReason):
                unused[origin, ts] = broker
                continue
            hour = hours.setdefault((broker, ts // HOUR_MS), {}).setdefault(origin, _OriginHour())
            (hour.answered if up else hour.failed).append(ts)
            if not up:
                unused[origin, ts] = DropReason.SCRAPE_FAILED
    contested = _contested(hours, alike)
    answered: dict[str, list[int]] = {}
    failed: dict[str, list[int]] = {}
    inferred_times: set[ScrapeTime] = set()
    for (broker, _), broker_hours in hours.items():
        rejected_instances = contested.get(broker, frozenset())
        hours_by_origin = {
            origin: origin_hour
            for origin, origin_hour in broker_hours.items()
            if origin.target.instance not in rejected_instances
        }
        selected_origins = _select_origins(hours_by_origin)
        selected_targets = {origin.target for origin in selected_origins}
        for origin, origin_hour in broker_hours.items():
            if origin in selected_origins:
                answered.setdefault(broker, []).extend(origin_hour.answered)
                failed.setdefault(broker, []).extend(origin_hour.failed)
                if origin in inferred_origins:
                    inferred_times.update(ScrapeTime(broker, ts) for ts in origin_hour.answered)
            else:
                is_replica = origin.target in selected_targets
                reason = DropReason.OTHER_REPLICA if is_replica else DropReason.OTHER_INSTANCE
                reason = reason if origin in hours_by_origin else DropReason.TWO_BROKERS
                unused.update(((origin, ts), reason) for ts in origin_hour.answered)
    moments, rows = _moment_rows(answered)
    slots = _SlotFinder(
        moments,
        rows,
        up_by_origin=up_by_origin,
        unused=unused,
        identities=identities,
        step_ms=step_ms,
    )
    return DayScrapes(
        moments=moments,
        rows=rows,
        failed={
            broker: _apart(
                sorted(set(failed_times)), [moments[row].ts_ms for row in rows.get(broker, ())]
            )
            for broker, failed_times in failed.items()
        },
        places={
            (origin, ts): slots.of(origin, ts) for origin, times in read.items() for ts in times
        },
        inferred_rows=frozenset(
            row for row, moment in enumerate(moments) if moment in inferred_times
        ),
        contested={broker: tuple(sorted(instances)) for broker, instances in contested.items()},
    )


def _contested(
    hours: Mapping[tuple[str, int], Mapping[SampleOrigin, _OriginHour]],
    alike: Callable[[SampleOrigin, SampleOrigin, int], bool | None],
) -> dict[str, frozenset[str]]:
    """Return the instances that cannot be one broker although they have the same broker id.

    Two clusters without a distinguishing label, or an exporter with the same id for all brokers, would be mixed. Such
    instances answer at the same time with different readings. A broker may be scraped as two instances; if three answer
    at the same time, all are rejected.
    """
    contested_brokers: dict[str, frozenset[str]] = {}
    for (broker, hour), origin_hours in hours.items():
        spans = {
            origin: (min(of.answered), max(of.answered))
            for origin, of in origin_hours.items()
            if of.answered
        }
        names: set[str] = set()
        unlike: set[str] = set()
        for first, second in combinations(sorted(spans), 2):
            both = {first.target.instance, second.target.instance}
            together = min(spans[first][1], spans[second][1]) - max(
                spans[first][0], spans[second][0]
            )
            if len(both) < 2 or together < LIVE_MS:
                continue
            is_alike = alike(first, second, hour)
            if is_alike is not None:
                names |= both
                unlike |= set() if is_alike else both
        rejected_instances = names if len(names) > 2 else unlike
        if rejected_instances:
            contested_brokers[broker] = (
                contested_brokers.get(broker, frozenset()) | rejected_instances
            )
    return contested_brokers


def _select_origins(hours_by_origin: Mapping[SampleOrigin, _OriginHour]) -> set[SampleOrigin]:
    """Return the origins to use in an hour: the one with most scrapes, and others that do not overlap it.

    Replicas overlap for the whole hour. The successor of a replaced instance does not: it starts when the other ended.
    """
    order = sorted(
        hours_by_origin,
        key=lambda origin: (
            -len(hours_by_origin[origin].answered),
            -len(hours_by_origin[origin].failed),
            origin,
        ),
    )
    spans: list[tuple[int, int]] = []
    selected_origins: set[SampleOrigin] = set()
    for origin in order:
        times = hours_by_origin[origin].answered
        if not times:
            if not selected_origins:
                selected_origins.add(origin)
            break
        begin, end = min(times), max(times)
        if all(end < other_begin or other_end < begin for other_begin, other_end in spans):
            spans.append((begin, end))
            selected_origins.add(origin)
    return selected_origins


def _moment_rows(
    answered: Mapping[str, Sequence[int]],
) -> tuple[tuple[ScrapeTime, ...], dict[str, range]]:
    moments: list[ScrapeTime] = []
    rows: dict[str, range] = {}
    for broker in sorted(answered):
        begin = len(moments)
        moments.extend(ScrapeTime(broker, ts) for ts in thinned(sorted(set(answered[broker]))))
        if len(moments) > begin:
            rows[broker] = range(begin, len(moments))
    return tuple(moments), rows


def _apart(times: Sequence[int], reference_times: Sequence[int]) -> tuple[int, ...]:
    """Return the ``times`` at the minimum distance from each other, as in thinning, and from ``reference_times``."""
    return tuple(
        ts
        for ts in thinned(times)
        if (near := _nearest(reference_times, ts)) is None or abs(near - ts) >= LEAST_STEP_MS
    )


def _nearest(times: Sequence[int], ts: int) -> int | None:
    at = bisect_left(times, ts)
    return min(
        times[max(0, at - 1) : at + 1],
        key=lambda candidate_ts: abs(candidate_ts - ts),
        default=None,
    )


class _SlotFinder:
    """Finds the selected scrape that points belong to.

    Args:
        unused: Why scrapes of an origin are not used.
    """

    def __init__(
        self,
        moments: Sequence[ScrapeTime],
        rows: Mapping[str, range],
        *,
        up_by_origin: Mapping[SampleOrigin, Mapping[int, bool]],
        unused: Mapping[tuple[SampleOrigin, int], DropReason],
        identities: BrokerIdentities,
        step_ms: int,
    ) -> None:
        self._selected_times = {
            broker: [moments[row].ts_ms for row in row_range] for broker, row_range in rows.items()
        }
        self._row = {moment: row for row, moment in enumerate(moments)}
        self._up_by_origin = up_by_origin
        self._answers = {
            origin: sorted(ts for ts, up in scrapes.items() if up)
            for origin, scrapes in up_by_origin.items()
        }
        self._unused, self._identities, self._tolerance_ms = unused, identities, step_ms // 2

    def of(self, origin: SampleOrigin, ts: int) -> ScrapeSlot:
        """Return the slot of points; points with their own times belong to the nearest answer of their origin."""
        scrape_ts, is_beside = ts, ts not in self._up_by_origin.get(origin, {})
        broker = self._identities.of(origin.target, ts)
        if is_beside:
            if isinstance(broker, DropReason):
                return ScrapeSlot(drop_reason=broker)
            near = self._near(self._answers.get(origin, ()), ts)
            if near is None:
                return ScrapeSlot(drop_reason=DropReason.UNALIGNED)
            scrape_ts, broker = near, self._identities.of(origin.target, near)
            if isinstance(broker, DropReason):
                return ScrapeSlot(drop_reason=DropReason.UNALIGNED)
        reason = self._unused.get((origin, scrape_ts))
        if reason is not None or isinstance(broker, DropReason):
            return ScrapeSlot(drop_reason=reason, spare=self._spare(broker, scrape_ts))
        row = self._row.get(ScrapeTime(broker, scrape_ts))
        beside_reason = DropReason.SNAPPED if is_beside else None
        return ScrapeSlot(row=row, drop_reason=DropReason.THINNED if row is None else beside_reason)

    def _spare(self, broker: str | DropReason, ts: int) -> int | None:
        if isinstance(broker, DropReason):
            return None
        near = self._near(self._selected_times.get(broker, ()), ts)
        return None if near is None else self._row[ScrapeTime(broker, near)]

    def _near(self, times: Sequence[int], ts: int) -> int | None:
        near = _nearest(times, ts)
        return near if near is not None and abs(near - ts) <= self._tolerance_ms else None


_PARTS: Final = 20
"""A scrape ends 1/_PARTS of the interval before the next point of the same series."""


def scrape_tolerance_ms(series: pa.Array, times: pa.Array, step_ms: int) -> int:
    """Return how long after the first point of a scrape other points may belong to it.

    Half a step, or the minimum distance of scrapes if that is longer; but less than the usual distance of two points of
    a series, so that they stay separate.

    Args:
        series: The series of each point.
        times: Milliseconds.
        step_ms: The scrape interval.
    """
    longest_ms = max(step_ms // 2, LEAST_STEP_MS)
    table = pa.table({"series": series, "ts": times})
    table = table.sort_by([("series", "ascending"), ("ts", "ascending")]).combine_chunks()
    series_codes, ts = (
        row_codes.combine_column(table["series"]),
        row_codes.combine_column(table["ts"]),
    )
    passed = pc.subtract(ts, row_codes.shifted(ts)).filter(
        row_codes.sure(pc.equal(series_codes, row_codes.shifted(series_codes)))
    )
    if not len(passed):
        return longest_ms
    usual = int(pc.quantile(passed, 0.5, interpolation="lower")[0].as_py())
    return min(longest_ms, usual - max(1, usual // _PARTS))


def gathered(times: Iterable[int], reach_ms: int) -> dict[int, int]:
    """Map each time to its scrape: the first of the times within ``reach_ms``."""
    scrape_by_time: dict[int, int] = {}
    first: int | None = None
    for ts in sorted(times):
        if first is None or ts - first > reach_ms:
            first = ts
        scrape_by_time[ts] = first
    return scrape_by_time
