"""Converts a day's points to readings at the selected scrapes, and to the carry-over to the next day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import (
    broker_identities,
    row_codes,
    scrape_assignment,
)
from reconciler.evidence.ingest.assembly.scrape_assignment import AssignedPoints
from reconciler.evidence.ingest.assembly.scrapes import ScrapeTime
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
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
    """What a day passes on to the next one; depends on the points of that day only.

    Attributes:
        last: Time of the last selected scrape of each broker.
        tracks: The buckets with values on each broker.
        counters: The last reading of each counter: ``(milliseconds, value)``.
    """

    last: Mapping[str, int] = field(default_factory=dict[str, int])
    tracks: frozenset[BrokerBucket] = frozenset()
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
    """The readings at the selected scrapes of a day.

    Attributes:
        moments: Selected successful scrapes; the index is the row. Those of the active controller are repeated as
            :data:`~reconciler.usage.samples.CONTROLLER`.
        failed: Times of failed scrapes, by broker.
        tracks: Buckets on brokers; the index is their number.
        rates: Per second, in Kafka's unit of the quota type.
        throttles: Mean delay, or growth of the counter, in ms; NaN = no request was throttled.
        totals: Rows and values of broker metrics, by gauge: rates per second, or a share (``request_idle``).
        inferred_rows: Rows of scrapes that are inferred from points, without ``up``.
        contested: Broker ids that several brokers have, with their instances.
    """

    moments: tuple[ScrapeTime, ...]
    rows: Mapping[str, range]
    failed: Mapping[str, tuple[int, ...]]
    tracks: tuple[BrokerBucket, ...]
    occurrences: TrackValues
    rates: TrackValues
    throttles: TrackValues
    totals: Mapping[Measure, tuple[pa.Int64Array, pa.DoubleArray]]
    carry: DayCarryover
    inferred_rows: frozenset[int] = frozenset()
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


_RATE_OF: Final = {
    Measure.RATE_TOTAL: Measure.RATE,
    Measure.BYTES_IN_TOTAL: Measure.BYTES_IN,
    Measure.BYTES_OUT_TOTAL: Measure.BYTES_OUT,
    Measure.REPLICATION_IN_TOTAL: Measure.REPLICATION_IN,
    Measure.REPLICATION_OUT_TOTAL: Measure.REPLICATION_OUT,
}
_GAUGES: Final = (
    Measure.BYTES_IN,
    Measure.BYTES_OUT,
    Measure.REPLICATION_IN,
    Measure.REPLICATION_OUT,
    Measure.REQUEST_IDLE,
)


def readings(
    points: pa.Table, pace: Cadence, before: DayCarryover, tally: DropCounts
) -> BrokerReadings:
    """Return the readings of one cluster and day.

    Args:
        points: Its rows of ``point``, in any order, with unique keys.
        pace: The scrape interval.
        before: The carry-over of the previous day.
        tally: Counts everything that is not used.
    """
    assigned = scrape_assignment.placed(points, pace.step_ms, tally)
    lines = _BrokerSeries(assigned)
    times = [moment.ts_ms for moment in assigned.scrapes.moments]
    last: dict[tuple[str, BrokerBucket], tuple[int, float]] = {}

    def counted(measure: Measure) -> tuple[TrackValues, TrackValues]:
        """Return rates and growth of the counters of a measure."""
        these = lines.of(measure)
        readings_before = {
            number: before.counters[measure, track]
            for number, track in enumerate(lines.tracks)
            if (measure, track) in before.counters
        }
        measured_rates = rate_counters(
            *these, times=times, max_gap_ms=pace.max_gap_ms, before=readings_before, tally=tally
        )
        last.update(
            ((measure, lines.tracks[track_number]), read)
            for track_number, read in measured_rates.last.items()
        )
        return TrackValues(
            measured_rates.series, measured_rates.rows, measured_rates.values
        ), TrackValues(measured_rates.series, measured_rates.rows, measured_rates.grown)

    totals = {
        gauge: _either(counted(total)[0] if total else None, lines.of(gauge))
        for gauge in _GAUGES
        for total in (
            next(
                (counter_measure for counter_measure, rate in _RATE_OF.items() if rate is gauge),
                None,
            ),
        )
    }
    rates = _either(counted(Measure.RATE_TOTAL)[0], lines.of(Measure.RATE))
    throttles = _either(counted(Measure.THROTTLE_TOTAL)[1], lines.of(Measure.THROTTLE))
    controller = _ActiveController(assigned, lines, rates, pace.step_ms)
    occurrences = controller.moved(lines.bucket_points())
    tally.add(DropReason.STANDBY_CONTROLLER, controller.passed_over)
    track_numbers = pc.unique(occurrences.tracks).to_pylist()
    return BrokerReadings(
        moments=controller.moments,
        rows=controller.rows,
        failed=assigned.scrapes.failed,
        tracks=controller.tracks,
        occurrences=occurrences,
        rates=controller.moved(rates),
        throttles=controller.moved(throttles),
        totals={
            gauge: (total_values.rows, total_values.values)
            for gauge, total_values in totals.items()
        },
        carry=DayCarryover(
            last={
                broker: controller.moments[rows[-1]].ts_ms
                for broker, rows in controller.rows.items()
            },
            tracks=frozenset(controller.tracks[track_number] for track_number in track_numbers),
            counters=last,
        ),
        inferred_rows=controller.inferred_rows,
        contested=assigned.scrapes.contested,
    )


def _either(first: TrackValues | None, second: TrackValues) -> TrackValues:
    """Concatenate both; where a counter and a gauge measure the same, the counter comes first and is used."""
    if first is None or not len(first.tracks):
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
        broker = of_row.take(assigned.rows)
        lines = row_codes.coded([broker, *assigned.names])
        texts = [column.take(lines.firsts).to_pylist() for column in assigned.names]
        names = list(brokers)
        numbers: dict[BrokerBucket, int] = {}
        self._measures: list[str] = []
        of_line: list[int] = []
        for at, measure, kind, user, client_id, ip in zip(
            broker.take(lines.firsts).to_pylist(), *texts, strict=True
        ):
            bucket = bucket_of(user, client_id, ip)
            group = bucket.kind if kind else GroupKind.NONE
            track = BrokerBucket(
                kind, group.value, bucket.user, bucket.client_id, bucket.ip, names[at]
            )
            self._measures.append(measure)
            of_line.append(numbers.setdefault(track, len(numbers)))
        self.tracks = tuple(numbers)
        self._lines = lines.codes
        self._rows, self._values = assigned.rows, assigned.values
        self._tracks = row_codes.integers(of_line).take(lines.codes)

    def of(self, measure: Measure) -> TrackValues:
        return self._select([name == measure for name in self._measures])

    def bucket_points(self) -> TrackValues:
        of_bucket = [name not in _OF_BROKER for name in self._measures]
        return self._select(of_bucket)

    def _select(self, is_selected: Sequence[bool]) -> TrackValues:
        if all(is_selected):
            return TrackValues(self._tracks, self._rows, self._values)
        mask = pa.array(is_selected, pa.bool_()).take(self._lines)
        return TrackValues(
            *(column.filter(mask) for column in (self._tracks, self._rows, self._values))
        )


_OF_BROKER: Final = frozenset(
    str(measure) for measure in (*_GAUGES, *_RATE_OF) if measure is not Measure.RATE_TOTAL
)


class _ActiveController:
    """Moves mutations of the active controller to the pseudo-broker ``CONTROLLER`` and drops those of others."""

    def __init__(
        self, assigned: AssignedPoints, lines: _BrokerSeries, rates: TrackValues, step_ms: int
    ) -> None:
        scrapes = assigned.scrapes
        self.moments, self.rows, self.tracks = scrapes.moments, dict(scrapes.rows), lines.tracks
        self.passed_over = 0
        self.inferred_rows = scrapes.inferred_rows
        mutation = QuotaType.CONTROLLER_MUTATION.value
        self._moves = [track.quota_type == mutation for track in lines.tracks]
        if not any(self._moves):
            return
        times = [moment.ts_ms for moment in scrapes.moments]
        nodes = sorted({track.broker for track in lines.tracks if track.quota_type == mutation})
        order = broker_identities.active_controller_rows(
            broker_identities.sights(
                self._totals(rates), {node: scrapes.rows[node] for node in nodes}, times
            ),
            step_ms,
        )
        begin = len(self.moments)
        self.moments += tuple(ScrapeTime(CONTROLLER, times[row]) for row in order)
        self.rows[CONTROLLER] = range(begin, begin + len(order))
        new_row = {row: begin + at for at, row in enumerate(order)}
        self.inferred_rows |= {new for row, new in new_row.items() if row in scrapes.inferred_rows}
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
    """Rates of counters.

    Attributes:
        series: Index of the counter.
        values: Increase per second.
        grown: Increase.
        last: The last reading of each counter, ``(milliseconds, value)``, for the next day.
    """

    series: pa.Int64Array
    rows: pa.Int64Array
    values: pa.DoubleArray
    grown: pa.DoubleArray
    last: Mapping[int, tuple[int, float]]


def rate_counters(
    series: pa.Array,
    rows: pa.Array,
    values: pa.Array,
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
        series: Index of the counter of each reading.
        rows: Index in ``times`` of each reading.
        values: The readings.
        times: Milliseconds of all rows; ascending within a series.
        max_gap_ms: The longest interval.
        before: The last readings of the previous day.
        tally: Counts first readings, resets and gaps.
    """
    real = pc.is_finite(values)
    table = pa.table({"series": series, "row": rows, "value": values}).filter(real)
    table = table.sort_by([("series", "ascending"), ("row", "ascending")])
    which, row, value = (
        row_codes.combine_column(table.column(name)) for name in ("series", "row", "value")
    )
    if not len(which):
        return CounterRates(series=which, rows=row, values=value, grown=value, last={})
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
    return CounterRates(
        series=which.filter(usable),
        rows=row.filter(usable),
        values=pc.divide(pc.multiply(grown, 1000.0), passed.cast(pa.float64())).filter(usable),
        grown=grown.filter(usable),
        last=last,
    )
