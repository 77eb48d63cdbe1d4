"""Assigns the points of a day to selected scrapes of brokers, and counts the points that are not used by reason."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes, scrapes
from reconciler.evidence.ingest.assembly.broker_identities import (
    BrokerIdentities,
    DuplicateBrokerCheck,
)
from reconciler.evidence.ingest.assembly.points import Points, SeriesNames
from reconciler.evidence.ingest.assembly.scrapes import (
    HOUR_MS,
    DayScrapes,
    ScrapeSlot,
)
from reconciler.evidence.ingest.dialects.cluster_sources import SampleOrigin, ScrapeTarget
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.usage.tables import Measure

SHIFT: Final = 2**42
"""More than any time in milliseconds until the year 2109."""

_DROP_REASONS: Final = tuple(DropReason)
_OTHERS: Final = (DropReason.OTHER_REPLICA, DropReason.OTHER_INSTANCE)


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
        step_ms: The scrape interval.
        tally: Counts points that are not used.
    """
    numbers, all_times, all_values = map(row_codes.combine_column, points.rows.columns)
    adopted = _adopted([series.origin for series in points.series])
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
    _weighed(up_by_origin, measured_targets, identities, tally)
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
    names = tuple(places_by_names)
    origins_without_up = {
        number[sample_origin] for sample_origin in origins if sample_origin not in up_by_origin
    } & set(pc.unique(origin).to_pylist())
    at_scrape = _gathered(origin, times, series, origins_without_up, step_ms)
    keys_of_use = row_codes.paired(origin, at_scrape, SHIFT)
    distinct = pc.unique(keys_of_use)
    read = [divmod(origin_key, SHIFT) for origin_key in distinct.to_pylist()]
    tally.add(DropReason.NO_UP, len(origins_without_up))
    times_by_origin: dict[SampleOrigin, list[int]] = {}
    for at, ts in read:
        times_by_origin.setdefault(origins[at], []).append(ts)
        if at in origins_without_up:
            up_by_origin.setdefault(origins[at], {})[ts] = True
    readings = pa.table({"origin": origin, "series": series, "ts_ms": times, "value": values})
    day_scrapes = scrapes.select_scrapes(
        up_by_origin,
        times_by_origin,
        identities,
        step_ms,
        inferred_origins={origins[at] for at in origins_without_up},
        alike=DuplicateBrokerCheck(origins, names, readings).alike,
    )
    return _sorted_out(
        day_scrapes,
        [day_scrapes.places[origins[at], ts] for at, ts in read],
        pc.index_in(keys_of_use, value_set=distinct),
        names=names,
        origin=origin,
        series=series,
        values=values,
        is_moved=pc.not_equal(times, at_scrape),
        tally=tally,
    )


def _rows_where(mask: pa.Array, *columns: pa.Array) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.filter(mask).to_pylist() for column in columns), strict=True)


def _adopted(origins: Sequence[SampleOrigin]) -> list[SampleOrigin]:
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


def _weighed(
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


def _gathered(
    origin: pa.Int64Array,
    times: pa.Int64Array,
    series: pa.Int64Array,
    origins_without_up: Iterable[int],
    step_ms: int,
) -> pa.Int64Array:
    """Return the scrape time of each point; origins without ``up`` answered where they have points."""
    gathered_times = times
    for number in origins_without_up:
        is_of_origin = pc.equal(origin, number)
        origin_times = times.filter(is_of_origin)
        distinct = pc.unique(origin_times)
        tolerance_ms = scrapes.scrape_tolerance_ms(
            series.filter(is_of_origin), origin_times, step_ms
        )
        scrape_of = scrapes.gathered(distinct.to_pylist(), tolerance_ms)
        scrape = row_codes.integers([scrape_of[ts] for ts in distinct.to_pylist()])
        gathered_times = pc.replace_with_mask(
            gathered_times, is_of_origin, scrape.take(pc.index_in(origin_times, value_set=distinct))
        )
    return gathered_times


def _sorted_out(
    day_scrapes: DayScrapes,
    places: Sequence[ScrapeSlot],
    at: pa.Array,
    *,
    names: tuple[SeriesNames, ...],
    origin: pa.Array,
    series: pa.Array,
    values: pa.Array,
    is_moved: pa.Array,
    tally: DropCounts,
) -> AssignedPoints:
    """Assign points to their slots; series that the selected replica lacks are taken from another one."""
    rows = pa.array([slot.row for slot in places], pa.int64()).take(at)
    reason_codes = [
        None if slot.drop_reason is None else _DROP_REASONS.index(slot.drop_reason)
        for slot in places
    ]
    codes = pa.array(reason_codes, pa.int8()).take(at)
    snapped = pc.and_(pc.and_(is_moved, pc.is_valid(rows)), pc.is_null(codes))
    codes = pc.if_else(
        snapped, pa.scalar(_DROP_REASONS.index(DropReason.SNAPPED), pa.int8()), codes
    )
    is_other_origin = row_codes.sure(
        pc.is_in(
            codes,
            value_set=pa.array(
                [_DROP_REASONS.index(drop_reason) for drop_reason in _OTHERS], pa.int8()
            ),
        )
    )
    borrowed = None
    if row_codes.count(is_other_origin):
        spare = pa.array([slot.spare for slot in places], pa.int64()).take(at)
        borrowed = _borrowed(
            day_scrapes, rows, spare, origin=origin, series=series, size=len(names)
        )
        rows = pc.if_else(borrowed, spare, rows)
        codes = pc.if_else(
            borrowed, pa.scalar(_DROP_REASONS.index(DropReason.BORROWED), pa.int8()), codes
        )
    for code_count in pc.value_counts(codes.drop_null()).to_pylist():
        tally.add(_DROP_REASONS[code_count["values"]], code_count["counts"])
    used = pc.is_valid(rows)
    assigned = AssignedPoints(
        scrapes=day_scrapes,
        names=names,
        rows=rows.filter(used),
        series=series.filter(used),
        values=values.filter(used),
    )
    has_snapped = row_codes.count(snapped) or any(
        slot.drop_reason is DropReason.SNAPPED for slot in places
    )
    double = borrowed is not None or bool(has_snapped)
    return _deduplicated(assigned) if double else assigned


def _borrowed(
    day_scrapes: DayScrapes,
    rows: pa.Array,
    spare: pa.Array,
    *,
    origin: pa.Array,
    series: pa.Array,
    size: int,
) -> pa.Array:
    """Return which points of the replica with most fill in series that the selected one lacks in an hour."""
    place = pc.coalesce(rows, spare)
    usable = pc.is_valid(place)
    place, has_own_row = pc.fill_null(place, 0), pc.is_valid(rows)
    brokers = {broker: number for number, broker in enumerate(day_scrapes.rows)}
    broker = row_codes.integers(
        [brokers[moment.broker] for moment in day_scrapes.moments] or [0]
    ).take(place)
    hour = row_codes.integers(
        [moment.ts_ms // HOUR_MS % 24 for moment in day_scrapes.moments] or [0]
    ).take(place)
    lines = row_codes.paired(row_codes.paired(broker, series, size), hour, 24)
    present_lines = pc.unique(lines.filter(has_own_row))
    is_candidate = pc.and_(
        pc.and_(usable, pc.invert(has_own_row)),
        pc.invert(pc.is_in(lines, value_set=present_lines)),
    )
    pairs = row_codes.paired(lines, origin, 2**20)
    best: dict[int, tuple[int, int]] = {}
    for pair_count in pc.value_counts(pairs.filter(is_candidate)).to_pylist():
        line, origin_code = divmod(pair_count["values"], 2**20)
        best[line] = max(best.get(line, (0, 0)), (pair_count["counts"], -origin_code))
    selected_pairs = row_codes.integers(
        [line * 2**20 - origin_code for line, (_, origin_code) in best.items()]
    )
    return pc.and_(is_candidate, pc.is_in(pairs, value_set=selected_pairs))


def _deduplicated(points: AssignedPoints) -> AssignedPoints:
    """Return one point per series and scrape: of two points the larger."""
    table = pa.table({"row": points.rows, "series": points.series, "value": points.values})
    largest = table.group_by(["row", "series"], use_threads=False).aggregate([("value", "max")])
    rows, series, values = (
        row_codes.combine_column(largest[name]) for name in ("row", "series", "value_max")
    )
    return replace(points, rows=rows, series=series, values=values)
