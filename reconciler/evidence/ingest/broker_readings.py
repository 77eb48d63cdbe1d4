"""Converts a day's points to readings at the selected scrapes, and to the carry-over to the next day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.broker_identities import (
    MutationScrape,
    active_controller_rows,
)
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import Points
from reconciler.evidence.ingest.scrapes import (
    AssignedPoints,
    DayScrapes,
    ScrapeTime,
    placed,
)
from reconciler.evidence.store.files import row_codes
from reconciler.usage.samples import CONTROLLER, Cadence, QuotaType
from reconciler.usage.tables import Measure
from reconciler.usage.tags import Bucket, GroupKind, bucket_of


class BrokerBucket(NamedTuple):
    """A bucket on a broker, in the order of the key of ``usage_sample``; without a quota type, the broker itself."""

    quota_type: str
    group_kind: str
    user: str
    client_id: str
    ip: str
    broker: str

    @property
    def bucket(self) -> Bucket:
        """The bucket without the broker."""
        return bucket_of(self.user, self.client_id, self.ip)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCarryover:
    """What a day passes on to the next one; depends on the points of that day only."""

    # Time of the last selected scrape of each broker.
    last: Mapping[str, int] = field(default_factory=dict[str, int])
    tracks: frozenset[BrokerBucket] = frozenset()  # the buckets with values on each broker
    # The last reading of each counter: `(milliseconds, value)`.
    counters: Mapping[tuple[str, BrokerBucket], tuple[int, float]] = field(
        default_factory=dict[tuple[str, BrokerBucket], tuple[int, float]]
    )


class TrackValues(NamedTuple):
    """Readings of some tracks: index of the track, row of the scrape, value."""

    tracks: pa.Int64Array
    rows: pa.Int64Array
    values: pa.DoubleArray


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReadings:
    """The readings at the selected scrapes of a day."""

    # The selected scrapes; the index of a successful one is its row. Those of the active controller are repeated as
    # `CONTROLLER`.
    scrapes: DayScrapes
    tracks: tuple[BrokerBucket, ...]  # buckets on brokers; the index is their number
    occurrences: TrackValues
    rates: TrackValues  # per second, in Kafka's unit of the quota type
    # Mean delay, or growth of the counter, in ms; NaN = no request was throttled.
    throttles: TrackValues
    # Broker metrics, by gauge: rates per second, or a share (`request_idle`).
    totals: Mapping[Measure, TrackValues]
    carry: DayCarryover


_COUNTERS: Final = {
    Measure.BYTES_IN: Measure.BYTES_IN_TOTAL,
    Measure.BYTES_OUT: Measure.BYTES_OUT_TOTAL,
    Measure.REPLICATION_IN: Measure.REPLICATION_IN_TOTAL,
    Measure.REPLICATION_OUT: Measure.REPLICATION_OUT_TOTAL,
}
"""The counter of each gauge of a broker that exporters also give as one."""

_OF_BROKER: Final = {*_COUNTERS, *_COUNTERS.values(), Measure.REQUEST_IDLE}


def readings(
    points: Points, pace: Cadence, before: DayCarryover, tally: DropCounts
) -> BrokerReadings:
    """Return the readings of one cluster and day.

    Args:
        points: Its points, in any order.
        pace: The scrape interval.
        before: The carry-over of the previous day.
        tally: Counts everything that is not used.
    """
    assigned = placed(points, pace.step_ms, tally)
    lines = _BrokerSeries(assigned)
    times = [moment.ts_ms for moment in assigned.scrapes.moments]
    last: dict[tuple[str, BrokerBucket], tuple[int, float]] = {}

    def counted(measure: Measure) -> tuple[TrackValues, TrackValues]:
        """Return rates and growth of the counters of a measure."""
        readings_before = {
            number: before.counters[measure, track]
            for number, track in enumerate(lines.tracks)
            if (measure, track) in before.counters
        }
        counter_rates = rate_counters(
            lines.of(measure),
            times=times,
            max_gap_ms=pace.max_gap_ms,
            before=readings_before,
            tally=tally,
        )
        last.update(
            ((measure, lines.tracks[number]), read) for number, read in counter_rates.last.items()
        )
        return counter_rates.rates, counter_rates.growth

    totals = {
        gauge: _either(counted(counter)[0], lines.of(gauge)) for gauge, counter in _COUNTERS.items()
    }
    totals[Measure.REQUEST_IDLE] = lines.of(Measure.REQUEST_IDLE)
    rates = _either(counted(Measure.RATE_TOTAL)[0], lines.of(Measure.RATE))
    throttles = _either(counted(Measure.THROTTLE_TOTAL)[1], lines.of(Measure.THROTTLE))
    controller = _ActiveController(assigned.scrapes, lines, rates, pace.step_ms)
    occurrences = controller.moved(lines.bucket_points())
    tally.add(DropReason.STANDBY_CONTROLLER, controller.passed_over)
    scrapes = controller.scrapes
    return BrokerReadings(
        scrapes=scrapes,
        tracks=controller.tracks,
        occurrences=occurrences,
        rates=controller.moved(rates),
        throttles=controller.moved(throttles),
        totals=totals,
        carry=DayCarryover(
            last={broker: scrapes.moments[rows[-1]].ts_ms for broker, rows in scrapes.rows.items()},
            tracks=frozenset(
                controller.tracks[number] for number in pc.unique(occurrences.tracks).to_pylist()
            ),
            counters=last,
        ),
    )


def _either(first: TrackValues, second: TrackValues) -> TrackValues:
    """Concatenate both; where a counter and a gauge measure the same, the counter comes first and is used."""
    if not len(first.tracks):
        return second
    return TrackValues(
        *(
            pa.concat_arrays([first_column, second_column])
            for first_column, second_column in zip(first, second, strict=True)
        )
    )


class _BrokerSeries:
    """The points of a day with the track and measure of their series."""

    def __init__(self, assigned: AssignedPoints) -> None:
        moments = assigned.scrapes.moments
        brokers = {broker: number for number, broker in enumerate(assigned.scrapes.rows)}
        of_row = row_codes.integers([brokers[moment.broker] for moment in moments])
        size = max(1, len(assigned.names))
        lines = row_codes.paired(of_row.take(assigned.rows), assigned.series, size)
        encoded = lines.dictionary_encode()
        brokers_by_number = list(brokers)
        numbers: dict[BrokerBucket, int] = {}
        self._measures: list[Measure] = []
        of_line: list[int] = []
        for line in encoded.dictionary.to_pylist():
            measure, kind, user, client_id, ip = assigned.names[line % size]
            bucket = bucket_of(user, client_id, ip)
            group = bucket.kind if kind else GroupKind.NONE
            broker = brokers_by_number[line // size]
            track = BrokerBucket(
                kind, group.value, bucket.user, bucket.client_id, bucket.ip, broker
            )
            self._measures.append(measure)
            of_line.append(numbers.setdefault(track, len(numbers)))
        self.tracks = tuple(numbers)
        self._lines = encoded.indices.cast(pa.int64())
        self._rows, self._values = assigned.rows, assigned.values
        self._tracks = row_codes.integers(of_line).take(self._lines)

    def of(self, measure: Measure) -> TrackValues:
        return self._select([line_measure is measure for line_measure in self._measures])

    def bucket_points(self) -> TrackValues:
        return self._select([measure not in _OF_BROKER for measure in self._measures])

    def _select(self, is_selected: Sequence[bool]) -> TrackValues:
        if all(is_selected):
            return TrackValues(self._tracks, self._rows, self._values)
        mask = pa.array(is_selected, pa.bool_()).take(self._lines)
        return TrackValues(
            *(column.filter(mask) for column in (self._tracks, self._rows, self._values))
        )


class _ActiveController:
    """Moves mutations of the active controller to the pseudo-broker ``CONTROLLER`` and drops those of others."""

    def __init__(
        self, scrapes: DayScrapes, lines: _BrokerSeries, rates: TrackValues, step_ms: int
    ) -> None:
        self.scrapes, self.tracks = scrapes, lines.tracks
        self.passed_over = 0
        mutation = QuotaType.CONTROLLER_MUTATION.value
        self._moves = [track.quota_type == mutation for track in lines.tracks]
        if not any(self._moves):
            return
        times = [moment.ts_ms for moment in scrapes.moments]
        nodes = sorted({track.broker for track in lines.tracks if track.quota_type == mutation})
        totals = self._totals(rates)
        order = active_controller_rows(
            (
                MutationScrape(ts_ms=times[row], node=node, row=row, total=totals.get(row, 0.0))
                for node in nodes
                for row in scrapes.rows[node]
            ),
            step_ms,
        )
        begin = len(times)
        new_row = {row: begin + at for at, row in enumerate(order)}
        self.scrapes = replace(
            scrapes,
            moments=scrapes.moments + tuple(ScrapeTime(CONTROLLER, times[row]) for row in order),
            rows={**scrapes.rows, CONTROLLER: range(begin, begin + len(order))},
        )
        self._row = pa.array([new_row.get(row) for row in range(begin)], pa.int64())
        numbers = {track: number for number, track in enumerate(lines.tracks)}
        moved_tracks = []
        for track, moves in zip(lines.tracks, self._moves, strict=True):
            target = track._replace(broker=CONTROLLER) if moves else track
            moved_tracks.append(numbers.setdefault(target, len(numbers)))
        self.tracks = tuple(numbers)
        self._track = row_codes.integers(moved_tracks)

    def moved(self, values: TrackValues) -> TrackValues:
        """Return the readings with those of the active controller moved."""
        if not any(self._moves):
            return values
        moves = pa.array(self._moves, pa.bool_()).take(values.tracks)
        rows = pc.if_else(moves, self._row.take(values.rows), values.rows)
        stays = pc.is_valid(rows)
        self.passed_over = max(self.passed_over, len(rows) - row_codes.count(stays))
        columns = (self._track.take(values.tracks), rows, values.values)
        return TrackValues(*(column.filter(stays) for column in columns))

    def _totals(self, rates: TrackValues) -> dict[int, float]:
        mask = pa.array(self._moves, pa.bool_()).take(rates.tracks)
        table = pa.table({"row": rates.rows.filter(mask), "value": rates.values.filter(mask)})
        table = table.filter(pc.is_finite(table["value"]))
        summed = table.group_by("row", use_threads=False).aggregate([("value", "sum")])
        return dict(zip(summed["row"].to_pylist(), summed["value_sum"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRates:
    """Rates of counters."""

    rates: TrackValues  # increase per second
    growth: TrackValues  # Increase
    # The last reading of each counter, `(milliseconds, value)`, for the next day.
    last: Mapping[int, tuple[int, float]]


def rate_counters(
    readings: TrackValues,
    *,
    times: Sequence[int],
    max_gap_ms: int,
    before: Mapping[int, tuple[int, float]],
    tally: DropCounts,
) -> CounterRates:
    """Return the rates of counters: one per reading except the first.

    A value below the previous one is a reset: the counter counted at least that value since then. Readings that are not
    finite are ignored. Intervals above ``max_gap_ms`` give no rate, because the time of the increase is unknown.

    Args:
        readings: The readings; rows are indexes in ``times``.
        times: Milliseconds of all rows; ascending within a series.
        max_gap_ms: The longest interval.
        before: The last readings of the previous day.
        tally: Counts first readings, resets and gaps.
    """
    table = pa.table(dict(zip(("track", "row", "value"), readings, strict=True)))
    table = table.filter(pc.is_finite(table["value"]))
    table = table.sort_by([("track", "ascending"), ("row", "ascending")])
    which, row, value = map(row_codes.combine_column, table.columns)
    if not len(which):
        nothing = TrackValues(which, row, value)
        return CounterRates(rates=nothing, growth=nothing, last={})
    ts = row_codes.integers(times).take(row)
    begins = pc.invert(row_codes.sure(pc.equal(which, row_codes.shifted(which))))
    ends = pa.concat_arrays([begins.slice(1), pa.array([True])])
    last = {
        counter: (at, read)
        for counter, at, read in zip(
            *(column.filter(ends).to_pylist() for column in (which, ts, value)), strict=True
        )
    }
    readings_before = [
        before.get(counter, (None, None)) for counter in which.filter(begins).to_pylist()
    ]
    old_ts = pc.replace_with_mask(
        row_codes.shifted(ts), begins, pa.array([at for at, _ in readings_before], pa.int64())
    )
    old = pc.replace_with_mask(
        row_codes.shifted(value),
        begins,
        pa.array([read for _, read in readings_before], pa.float64()),
    )
    passed = pc.subtract(ts, old_ts)
    far = row_codes.sure(pc.greater(passed, max_gap_ms))
    reset = row_codes.sure(pc.less(value, old))
    grown = pc.if_else(reset, value, pc.subtract(value, old))
    usable = pc.and_(pc.is_valid(passed), pc.invert(far))
    tally.add(DropReason.COUNTER_FIRST, row_codes.count(pc.is_null(passed)))
    tally.add(DropReason.COUNTER_GAP, row_codes.count(far))
    tally.add(DropReason.COUNTER_RESET, row_codes.count(pc.and_(reset, usable)))
    per_second = pc.divide(pc.multiply(grown, 1000.0), passed.cast(pa.float64()))
    which, row = which.filter(usable), row.filter(usable)
    return CounterRates(
        rates=TrackValues(which, row, per_second.filter(usable)),
        growth=TrackValues(which, row, grown.filter(usable)),
        last=last,
    )
