"""Selects the scrapes of a day and assigns points to them: one origin per broker and hour, at a minimum distance.

Points that are not used are counted by reason.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest import broker_identities
from reconciler.evidence.ingest.broker_identities import BrokerIdentities
from reconciler.evidence.ingest.cluster_sources import SampleOrigin
from reconciler.evidence.ingest.dialect import SeriesNames
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import Points
from reconciler.evidence.store.files import row_codes
from reconciler.usage.samples import LEAST_STEP_MS, thinned
from reconciler.usage.tables import Measure

HOUR_MS: Final = 3_600_000
SHIFT: Final = 2**42
"""More than any time in milliseconds until the year 2109."""

LIVE_MS: Final = 300_000
"""Minimum overlap of two instances that are both alive: a server returns a stale series for this long."""

_DROP_REASONS: Final = tuple(DropReason)


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
    # Broker ids that several brokers have, with their instances.
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    without_up: tuple[str, ...] = ()  # instances of brokers that have no `up`: not used


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPoints:
    """Points at selected scrapes, one per series and scrape."""

    scrapes: DayScrapes
    names: tuple[SeriesNames, ...]  # what series measure, by index
    rows: pa.Int64Array  # the scrape of each point
    series: pa.Int64Array  # the series of each point
    values: pa.DoubleArray


def placed(points: Points, step_ms: int, tally: DropCounts) -> AssignedPoints:
    """Assign the points of one cluster and day to selected scrapes.

    Args:
        step_ms: The scrape interval; points within half of it belong to a scrape.
        tally: Counts points that are not used.
    """
    numbers, all_times, all_values = map(row_codes.combine_column, points.rows.columns)
    adopted = broker_identities.adopted([series.origin for series in points.series])
    origins = tuple(dict.fromkeys(adopted))
    number = {sample_origin: at for at, sample_origin in enumerate(origins)}
    all_origins = row_codes.integers([number[origin] for origin in adopted]).take(numbers)
    measures = [series.names.measure for series in points.series]
    is_up, is_id = (
        pa.array([of is measure for of in measures], pa.bool_()).take(numbers)
        for measure in (Measure.UP, Measure.BROKER_ID)
    )
    identities = BrokerIdentities(
        (
            (origins[origin].target, ts, value)
            for origin, ts, value in _rows_where(is_id, all_origins, all_times, all_values)
        ),
        tally,
    )
    up_by_origin: dict[SampleOrigin, dict[int, bool]] = {}
    for at, ts, value in _rows_where(is_up, all_origins, all_times, all_values):
        up_by_origin.setdefault(origins[at], {})[ts] = value == 1
    measured_targets = {
        origin.target
        for origin, measure in zip(adopted, measures, strict=True)
        if measure is not Measure.UP
    }
    broker_identities.keep_brokers(up_by_origin, measured_targets, identities, tally)
    is_of_clients = pa.array([bool(s.names.quota_type) for s in points.series], pa.bool_())
    hours = row_codes.paired(all_origins, pc.divide(all_times, HOUR_MS), SHIFT)
    client_hours = {
        (origins[at], hour)
        for at, hour in (
            divmod(code, SHIFT)
            for code in pc.unique(hours.filter(is_of_clients.take(numbers))).to_pylist()
        )
    }
    selection = _ScrapeSelection(up_by_origin, identities, client_hours)
    of_use = pc.invert(pc.or_(is_up, is_id))
    origin, times, values = (
        column.filter(of_use) for column in (all_origins, all_times, all_values)
    )
    places_by_names = {
        name: at for at, name in enumerate(dict.fromkeys(s.names for s in points.series))
    }
    series = row_codes.integers([places_by_names[s.names] for s in points.series]).take(
        numbers.filter(of_use)
    )
    keys = row_codes.paired(origin, times, SHIFT)
    distinct = pc.unique(keys)
    slots = _SlotFinder(selection, up_by_origin, identities, step_ms // 2)
    places = [
        slots.of(origins[at], ts)
        for at, ts in (divmod(origin_key, SHIFT) for origin_key in distinct.to_pylist())
    ]
    at = pc.index_in(keys, value_set=distinct)
    for code_count in pc.value_counts(_reason_codes(places).take(at).drop_null()).to_pylist():
        tally.add(_DROP_REASONS[code_count["values"]], code_count["counts"])
    rows = pa.array([slot.row for slot in places], pa.int64()).take(at)
    used = pc.is_valid(rows)
    assigned = AssignedPoints(
        scrapes=replace(selection.scrapes, without_up=tuple(sorted(slots.without_up))),
        names=tuple(places_by_names),
        rows=rows.filter(used),
        series=series.filter(used),
        values=values.filter(used),
    )
    has_snapped = any(slot.drop_reason is DropReason.SNAPPED for slot in places)
    return _deduplicated(assigned) if has_snapped else assigned


def _rows_where(mask: pa.Array, *columns: pa.Array) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.filter(mask).to_pylist() for column in columns), strict=True)


@dataclass(slots=True)
class _OriginHour:
    """The scrapes of a broker by one origin within an hour."""

    answered: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])
    has_clients: bool = False


class _ScrapeSelection:
    """The selected scrapes of a day, and why others are not selected.

    Attributes:
        scrapes: The selected scrapes.
        unused: The reason of each scrape of an origin that is not used.

    Args:
        up_by_origin: Times and results of the scrapes of each origin.
        identities: Broker ids of the targets.
        client_hours: Origins that report clients, and the hours since the epoch in which they do.
    """

    def __init__(
        self,
        up_by_origin: Mapping[SampleOrigin, Mapping[int, bool]],
        identities: BrokerIdentities,
        client_hours: Collection[tuple[SampleOrigin, int]],
    ) -> None:
        self.unused: dict[tuple[SampleOrigin, int], DropReason] = {}
        hours: dict[tuple[str, int], dict[SampleOrigin, _OriginHour]] = {}
        for origin, scrapes in up_by_origin.items():
            for ts, up in scrapes.items():
                broker, number = identities.of(origin.target, ts), ts // HOUR_MS
                if isinstance(broker, DropReason):
                    self.unused[origin, ts] = broker
                    continue
                hour = hours.setdefault((broker, number), {}).setdefault(origin, _OriginHour())
                hour.has_clients = (origin, number) in client_hours
                (hour.answered if up else hour.failed).append(ts)
                if not up:
                    self.unused[origin, ts] = DropReason.SCRAPE_FAILED
        contested = _contested(hours)
        answered: dict[str, list[int]] = {}
        failed: dict[str, list[int]] = {}
        for (broker, _), broker_hours in hours.items():
            for origin_hour in self._selected(broker_hours, contested.get(broker, frozenset())):
                answered.setdefault(broker, []).extend(origin_hour.answered)
                failed.setdefault(broker, []).extend(origin_hour.failed)
        moments, rows = _moment_rows(answered)
        self.scrapes = DayScrapes(
            moments=moments,
            rows=rows,
            failed={
                broker: _apart(
                    sorted(set(failed_times)), [moments[row].ts_ms for row in rows.get(broker, ())]
                )
                for broker, failed_times in failed.items()
            },
            contested={broker: tuple(sorted(instances)) for broker, instances in contested.items()},
        )

    def _selected(
        self, broker_hours: Mapping[SampleOrigin, _OriginHour], refused_instances: frozenset[str]
    ) -> Iterator[_OriginHour]:
        """Yield the scrapes of the selected origins of a broker and hour; note why others are not used."""
        candidates = {
            origin: origin_hour
            for origin, origin_hour in broker_hours.items()
            if origin.target.instance not in refused_instances
        }
        selected_origins = _select_origins(candidates)
        selected_targets = {origin.target for origin in selected_origins}
        for origin, origin_hour in broker_hours.items():
            if origin in selected_origins:
                yield origin_hour
                continue
            is_replica = origin.target in selected_targets
            reason = DropReason.OTHER_REPLICA if is_replica else DropReason.OTHER_INSTANCE
            reason = reason if origin in candidates else DropReason.TWO_BROKERS
            self.unused.update(((origin, ts), reason) for ts in origin_hour.answered)


def _contested(
    hours: Mapping[tuple[str, int], Mapping[SampleOrigin, _OriginHour]],
) -> dict[str, frozenset[str]]:
    """Return the instances with one broker id that report clients at the same time.

    Two clusters without a distinguishing label, or an exporter with the same id for all brokers, would be mixed. An
    instance without clients is another exporter of the broker.
    """
    contested_brokers: dict[str, frozenset[str]] = {}
    for (broker, _), origin_hours in hours.items():
        spans = {
            origin: (min(of.answered), max(of.answered))
            for origin, of in origin_hours.items()
            if of.answered and of.has_clients
        }
        for first, second in combinations(sorted(spans), 2):
            both = {first.target.instance, second.target.instance}
            together = min(spans[first][1], spans[second][1]) - max(
                spans[first][0], spans[second][0]
            )
            if len(both) == 2 and together >= LIVE_MS:
                contested_brokers[broker] = contested_brokers.get(broker, frozenset()) | both
    return contested_brokers


def _select_origins(hours_by_origin: Mapping[SampleOrigin, _OriginHour]) -> set[SampleOrigin]:
    """Return the origins to use in an hour: one that reports clients, with most scrapes, and others that do not overlap it.

    Replicas overlap for the whole hour. The successor of a replaced instance does not: it starts when the other ended.
    """
    order = sorted(
        hours_by_origin,
        key=lambda origin: (
            not hours_by_origin[origin].has_clients,
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
            continue
        begin, end = min(times), max(times)
        if all(end < other_begin or other_end < begin for other_begin, other_end in spans):
            spans.append((begin, end))
            selected_origins.add(origin)
    return selected_origins or set(order[:1])


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


class _ScrapeSlot(NamedTuple):
    """The selected scrape that the points of one origin and time belong to."""

    row: int | None = None  # index in `moments`; None = none
    drop_reason: DropReason | None = None  # why there is none, or a remark; None = no remark


class _SlotFinder:
    """Finds the selected scrape that points belong to.

    Attributes:
        without_up: Instances of brokers that have no ``up``.
    """

    def __init__(
        self,
        selection: _ScrapeSelection,
        up_by_origin: Mapping[SampleOrigin, Mapping[int, bool]],
        identities: BrokerIdentities,
        tolerance_ms: int,
    ) -> None:
        self.without_up: set[str] = set()
        self._row = {moment: row for row, moment in enumerate(selection.scrapes.moments)}
        self._up_by_origin, self._unused = up_by_origin, selection.unused
        self._answers = {
            origin: sorted(ts for ts, up in scrapes.items() if up)
            for origin, scrapes in up_by_origin.items()
        }
        self._identities, self._tolerance_ms = identities, tolerance_ms

    def of(self, origin: SampleOrigin, ts: int) -> _ScrapeSlot:
        """Return the slot of points; points with their own times belong to the nearest answer of their origin."""
        broker = self._identities.of(origin.target, ts)
        if isinstance(broker, DropReason):
            return _ScrapeSlot(drop_reason=broker)
        scrapes = self._up_by_origin.get(origin)
        if scrapes is None:
            self.without_up.add(origin.target.instance)
            return _ScrapeSlot(drop_reason=DropReason.NO_UP)
        is_beside = ts not in scrapes
        if is_beside:
            near = _nearest(self._answers[origin], ts)
            if near is None or abs(near - ts) > self._tolerance_ms:
                return _ScrapeSlot(drop_reason=DropReason.UNALIGNED)
            ts, broker = near, self._identities.of(origin.target, near)
            if isinstance(broker, DropReason):
                return _ScrapeSlot(drop_reason=DropReason.UNALIGNED)
        if reason := self._unused.get((origin, ts)):
            return _ScrapeSlot(drop_reason=reason)
        row = self._row.get(ScrapeTime(broker, ts))
        remark = DropReason.SNAPPED if is_beside else None
        return _ScrapeSlot(row, DropReason.THINNED if row is None else remark)


def _reason_codes(places: Iterable[_ScrapeSlot]) -> pa.Int8Array:
    return pa.array(
        [
            None if slot.drop_reason is None else _DROP_REASONS.index(slot.drop_reason)
            for slot in places
        ],
        pa.int8(),
    )


def _deduplicated(points: AssignedPoints) -> AssignedPoints:
    """Return one point per series and scrape: of two points the larger."""
    table = pa.table({"row": points.rows, "series": points.series, "value": points.values})
    largest = table.group_by(["row", "series"], use_threads=False).aggregate([("value", "max")])
    rows, series, values = (
        row_codes.combine_column(largest[name]) for name in ("row", "series", "value_max")
    )
    return replace(points, rows=rows, series=series, values=values)
