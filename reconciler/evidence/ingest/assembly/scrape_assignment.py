"""Assigns the points of a day to selected scrapes of brokers, and counts the points that are not used by reason."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes, scrapes
from reconciler.evidence.ingest.assembly.broker_identities import (
    BrokerIdentities,
    DuplicateBrokerCheck,
)
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

NAMES: Final = ("measure", "quota_type", "user", "client_id", "ip")
"""The columns that identify a series of a broker."""

COLUMNS: Final = (*NAMES, "instance", "replica", "ts_ms", "value")
"""The columns of ``point`` that the assembly reads."""

_DROP_REASONS: Final = tuple(DropReason)
_OTHERS: Final = (DropReason.OTHER_REPLICA, DropReason.OTHER_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPoints:
    """Points at selected scrapes, one per series and scrape.

    Attributes:
        names: The columns of :data:`NAMES`, one value per point.
    """

    scrapes: DayScrapes
    rows: pa.Int64Array
    names: tuple[pa.Array, ...]
    values: pa.DoubleArray

    def filter_rows(self, mask: pa.Array) -> "AssignedPoints":
        """Return the points where the mask is true."""
        return AssignedPoints(
            scrapes=self.scrapes,
            rows=self.rows.filter(mask),
            names=tuple(column.filter(mask) for column in self.names),
            values=self.values.filter(mask),
        )


def is_one_of(column: pa.DictionaryArray, texts: Sequence[str]) -> pa.Array:
    """Return whether each row of a string column has one of the texts."""
    dictionary_texts = column.dictionary.to_pylist()
    matching_codes = [at for at, text in enumerate(dictionary_texts) if text in texts]
    return pc.is_in(column.indices, value_set=pa.array(matching_codes, column.indices.type))


def placed(points: pa.Table, step_ms: int, tally: DropCounts) -> AssignedPoints:
    """Assign the points of one cluster and day to selected scrapes.

    Args:
        points: Columns of ``point``, with unique keys.
        step_ms: The scrape interval.
        tally: Counts points that are not used.
    """
    column = {name: row_codes.combine_column(points.column(name)) for name in COLUMNS}
    origin_codes = row_codes.coded([column["instance"], column["replica"]])
    is_up = is_one_of(column["measure"], (Measure.UP,))
    is_id = is_one_of(column["measure"], (Measure.BROKER_ID,))
    of_use = pc.invert(pc.or_(is_up, is_id))
    adopted = _adopted(
        [
            SampleOrigin(ScrapeTarget.read(str(instance)), str(replica))
            for instance, replica in zip(
                column["instance"].take(origin_codes.firsts).to_pylist(),
                column["replica"].take(origin_codes.firsts).to_pylist(),
                strict=True,
            )
        ]
    )
    origins = tuple(dict.fromkeys(adopted))
    number = {sample_origin: at for at, sample_origin in enumerate(origins)}
    origin_numbers = row_codes.integers([number[sample_origin] for sample_origin in adopted]).take(
        origin_codes.codes
    )
    recording_origins = pc.unique(origin_numbers.filter(pc.invert(is_up))).to_pylist()
    keys = row_codes.paired(origin_numbers, column["ts_ms"], SHIFT)
    identities = BrokerIdentities(
        zip(
            [
                origins[origin_number].target
                for origin_number in origin_numbers.filter(is_id).to_pylist()
            ],
            column["ts_ms"].filter(is_id).to_pylist(),
            column["value"].filter(is_id).to_pylist(),
            strict=True,
        ),
        tally,
    )
    up_by_origin = _answers_by_origin(
        origins, keys.filter(is_up).to_pylist(), column["value"].filter(is_up).to_pylist()
    )
    _weighed(
        up_by_origin,
        {origins[origin_number].target for origin_number in recording_origins},
        identities,
        tally,
    )
    names = tuple(column[name].filter(of_use) for name in NAMES)
    origin, values = origin_numbers.filter(of_use), column["value"].filter(of_use)
    times = column["ts_ms"].filter(of_use)
    origins_without_up = {
        number[sample_origin] for sample_origin in origins if sample_origin not in up_by_origin
    } & set(pc.unique(origin).to_pylist())
    at_scrape = _gathered(origin, times, names, origins_without_up, step_ms)
    keys_of_use = row_codes.paired(origin, at_scrape, SHIFT)
    distinct = pc.unique(keys_of_use)
    read = [divmod(origin_key, SHIFT) for origin_key in distinct.to_pylist()]
    tally.add(DropReason.NO_UP, len(origins_without_up))
    for origin_number, ts in read if origins_without_up else ():
        if origin_number in origins_without_up:
            up_by_origin.setdefault(origins[origin_number], {})[ts] = True
    day_scrapes = scrapes.select_scrapes(
        up_by_origin,
        _by_origin(origins, read),
        identities,
        step_ms,
        inferred_origins={origins[origin_number] for origin_number in origins_without_up},
        alike=DuplicateBrokerCheck(origins, origin, names, times, values).alike,
    )
    return _sorted_out(
        day_scrapes,
        [day_scrapes.places[origins[origin_number], ts] for origin_number, ts in read],
        pc.index_in(keys_of_use, value_set=distinct),
        origin=origin,
        names=names,
        values=values,
        is_moved=pc.not_equal(times, at_scrape),
        tally=tally,
    )


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


def _answers_by_origin(
    origins: Sequence[SampleOrigin], keys: Sequence[int], values: Sequence[float]
) -> dict[SampleOrigin, dict[int, bool]]:
    up_by_origin: dict[SampleOrigin, dict[int, bool]] = {}
    for key, value in zip(keys, values, strict=True):
        origin, ts = divmod(key, SHIFT)
        up_by_origin.setdefault(origins[origin], {})[ts] = value == 1
    return up_by_origin


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


def _by_origin(
    origins: Sequence[SampleOrigin], read: Iterable[tuple[int, int]]
) -> dict[SampleOrigin, list[int]]:
    times_by_origin: dict[SampleOrigin, list[int]] = {}
    for origin, ts in read:
        times_by_origin.setdefault(origins[origin], []).append(ts)
    return times_by_origin


def _gathered(
    origin: pa.Int64Array,
    times: pa.Int64Array,
    names: tuple[pa.Array, ...],
    origins_without_up: Iterable[int],
    step_ms: int,
) -> pa.Int64Array:
    """Return the scrape time of each point; origins without ``up`` answered where they have points."""
    gathered_times = times
    for number in origins_without_up:
        is_of_origin = pc.equal(origin, number)
        origin_times = times.filter(is_of_origin)
        series = row_codes.coded([column.filter(is_of_origin) for column in names]).codes
        distinct = pc.unique(origin_times)
        scrape_of = scrapes.gathered(
            distinct.to_pylist(), scrapes.scrape_tolerance_ms(series, origin_times, step_ms)
        )
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
    origin: pa.Array,
    names: tuple[pa.Array, ...],
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
        borrowed = _borrowed(day_scrapes, rows, spare, origin, names)
        rows = pc.if_else(borrowed, spare, rows)
        codes = pc.if_else(
            borrowed, pa.scalar(_DROP_REASONS.index(DropReason.BORROWED), pa.int8()), codes
        )
    for code_count in pc.value_counts(codes.drop_null()).to_pylist():
        tally.add(_DROP_REASONS[code_count["values"]], code_count["counts"])
    assigned = AssignedPoints(
        scrapes=day_scrapes, rows=rows, names=names, values=values
    ).filter_rows(pc.is_valid(rows))
    has_snapped = row_codes.count(snapped) or any(
        slot.drop_reason is DropReason.SNAPPED for slot in places
    )
    double = borrowed is not None or bool(has_snapped)
    return _deduplicated(assigned) if double else assigned


def _borrowed(
    day_scrapes: DayScrapes,
    rows: pa.Array,
    spare: pa.Array,
    origin: pa.Array,
    names: tuple[pa.Array, ...],
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
    series = row_codes.paired(row_codes.coded([broker, *names]).codes, hour, 24)
    present_series = pc.unique(series.filter(has_own_row))
    is_candidate = pc.and_(
        pc.and_(usable, pc.invert(has_own_row)),
        pc.invert(pc.is_in(series, value_set=present_series)),
    )
    pairs = row_codes.paired(series, origin, 2**20)
    best: dict[int, tuple[int, int]] = {}
    for pair_count in pc.value_counts(pairs.filter(is_candidate)).to_pylist():
        series_code, origin_code = divmod(pair_count["values"], 2**20)
        best[series_code] = max(best.get(series_code, (0, 0)), (pair_count["counts"], -origin_code))
    selected_pairs = row_codes.integers(
        [series_code * 2**20 - origin_code for series_code, (_, origin_code) in best.items()]
    )
    return pc.and_(is_candidate, pc.is_in(pairs, value_set=selected_pairs))


def _deduplicated(points: AssignedPoints) -> AssignedPoints:
    """Return one point per series and scrape: of two points the larger."""
    if not len(points.rows):
        return points
    series = row_codes.coded([points.rows, *points.names])
    if len(series) == len(points.rows):
        return points
    table = pa.table({"code": series.codes, "value": points.values})
    max_values = table.group_by("code", use_threads=False).aggregate([("value", "max")])
    max_values = max_values.take(pc.sort_indices(max_values.column("code")))
    return AssignedPoints(
        scrapes=points.scrapes,
        rows=points.rows.take(series.firsts),
        names=tuple(column.take(series.firsts) for column in points.names),
        values=row_codes.combine_column(max_values.column("value_max")),
    )
