"""Builds the samples of all buckets: the readings, and zeros where the broker answered without the bucket.

Tests compare it row by row with ``filled`` and ``timed`` of ``tests.usage.reference``.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.broker_readings import (
    BrokerBucket,
    BrokerReadings,
    DayCarryover,
    TrackValues,
)
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.limit_history import LimitHistory
from reconciler.evidence.store.files import row_codes
from reconciler.usage.samples import MAX_UNITS, SCALE, Cadence, QuotaType


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleGrid:
    """Samples without their censoring, sorted by track and time."""

    # Buckets on brokers, sorted, including those of the previous day.
    tracks: tuple[BrokerBucket, ...]
    number: pa.Int64Array
    rows: pa.Int64Array
    spans: pa.Int64Array  # the time that a sample covers, in ms
    units: pa.Int64Array
    throttles: pa.Int64Array  # mean delay in ms; null = not recorded
    read: pa.BooleanArray  # whether the sample was read; otherwise it was filled
    size: int  # number of rows: `number * size + row` is a unique key

    def keys(self) -> pa.Int64Array:
        """Return a unique integer per sample."""
        return row_codes.paired(self.number, self.rows, self.size)


def grid(
    day_readings: BrokerReadings,
    before: DayCarryover,
    limits: LimitHistory,
    pace: Cadence,
    tally: DropCounts,
) -> SampleGrid:
    """Return the samples of a day.

    A bucket is known from its first value on the day, or from midnight if it had a value on that broker at the end of
    the previous day. From then on each successful selected scrape gives a sample: zero where the bucket has no value.
    This requires that the broker measured the type: the surrounding snapshots have a limit of it or, without a
    snapshot, another bucket of it has a value. If a snapshot has no limit of the type, one must have a rate above zero:
    newer brokers stop counting when the last limit of a type is removed (KAFKA-19282); its metrics stay at zero for an
    hour.

    Args:
        before: The carry-over of the previous day.
        limits: The limits over time.
        pace: The scrape interval.
        tally: Counts filled, clamped and omitted samples.
    """
    rows_by_broker = day_readings.scrapes.rows
    earlier_tracks = {track for track in before.tracks if track.broker in rows_by_broker}
    tracks = tuple(sorted(day_readings.carry.tracks | earlier_tracks))
    size = max(1, len(day_readings.scrapes.moments))
    place = {track: number for number, track in enumerate(tracks)}
    renumber = pa.array([place.get(track) for track in day_readings.tracks], pa.int64())

    def keys_of(values: TrackValues) -> pa.Int64Array:
        return row_codes.paired(renumber.take(values.tracks), values.rows, size)

    named_keys = keys_of(day_readings.occurrences)
    firsts = _firsts(day_readings, renumber)
    bases = _MeasuredRows(day_readings, limits, tally)
    numbers: list[pa.Array] = []
    stretches: list[pa.Array] = []
    for number, track in enumerate(tracks):
        is_earlier = track in earlier_tracks
        begin = rows_by_broker[track.broker].start if is_earlier else firsts[number]
        rows = bases.rows(track, begin)
        numbers.append(pa.repeat(pa.scalar(number, pa.int64()), len(rows)))
        stretches.append(rows)
    empty = row_codes.integers([])
    number, row = pa.concat_arrays([empty, *numbers]), pa.concat_arrays([empty, *stretches])
    key = row_codes.paired(number, row, size)
    scales = pa.array([float(SCALE[QuotaType(track.quota_type)]) for track in tracks], pa.float64())
    rate = day_readings.rates.values.take(pc.index_in(key, value_set=keys_of(day_readings.rates)))
    is_named = pc.is_in(key, value_set=named_keys)
    scale = scales.take(number)
    units = row_codes.units(rate, scale, MAX_UNITS)
    absent = pc.invert(is_named)
    usable = pc.or_(absent, pc.is_valid(units))
    tally.add(DropReason.FILLED, row_codes.count(absent))
    tally.add(DropReason.RATE_NOT_A_NUMBER, row_codes.count(pc.is_nan(rate)))
    tally.add(DropReason.RATE_BELOW_ZERO, row_codes.count(pc.less(rate, 0.0)))
    tally.add(
        DropReason.RATE_CLAMPED,
        row_codes.count(pc.greater(pc.multiply(rate, scale), float(MAX_UNITS))),
    )
    delay = day_readings.throttles.values.take(
        pc.index_in(key, value_set=keys_of(day_readings.throttles))
    )
    throttle = pc.if_else(absent, 0, _delays(delay))
    number, row = number.filter(usable), row.filter(usable)
    return SampleGrid(
        tracks=tracks,
        number=number,
        rows=row,
        spans=_spans(day_readings, tracks, number, row, before=before, pace=pace),
        units=pc.fill_null(units, 0).filter(usable),
        throttles=throttle.filter(usable),
        read=is_named.filter(usable),
        size=size,
    )


def _firsts(day_readings: BrokerReadings, renumber: pa.Array) -> Mapping[int, int]:
    """Return the first row with a value of each track."""
    table = pa.table(
        {
            "track": renumber.take(day_readings.occurrences.tracks),
            "row": day_readings.occurrences.rows,
        }
    )
    least = table.group_by("track", use_threads=False).aggregate([("row", "min")])
    return dict(zip(least["track"].to_pylist(), least["row_min"].to_pylist(), strict=True))


def _delays(values: pa.Array) -> pa.Int64Array:
    """Return integer ms: NaN is 0 (no request was throttled), and a positive delay is at least 1."""
    known_delays = pc.if_else(pc.is_nan(values), 0.0, values)
    cut = pc.min_element_wise(known_delays, pa.scalar(float(MAX_UNITS)), skip_nulls=False)
    least = pc.if_else(pc.greater(cut, 0.0), pc.max_element_wise(cut, 1.0, skip_nulls=False), 0.0)
    return row_codes.half_up(least)


def _spans(
    day_readings: BrokerReadings,
    tracks: Sequence[BrokerBucket],
    number: pa.Array,
    row: pa.Array,
    *,
    before: DayCarryover,
    pace: Cadence,
) -> pa.Int64Array:
    ts = row_codes.integers([moment.ts_ms for moment in day_readings.scrapes.moments]).take(row)
    carried = [
        before.last.get(track.broker) if track in before.tracks else None for track in tracks
    ]
    is_same_track = row_codes.sure(pc.equal(number, row_codes.shifted(number)))
    old = pc.if_else(
        is_same_track, row_codes.shifted(ts), pa.array(carried, pa.int64()).take(number)
    )
    distance = pc.subtract(ts, old)
    close = row_codes.sure(pc.less_equal(distance, pace.max_gap_ms))
    return pc.if_else(close, distance, pace.step_ms)


class _MeasuredRows:
    """The rows at which buckets were measured: each ip by itself, other buckets by broker and quota type."""

    def __init__(
        self, day_readings: BrokerReadings, limits: LimitHistory, tally: DropCounts
    ) -> None:
        scrapes = day_readings.scrapes
        self._rows_by_broker, self._limits, self._tally = scrapes.rows, limits, tally
        self._spans = [limits.at(moment.ts_ms) for moment in scrapes.moments]
        keys = [_measured_together(track) for track in day_readings.tracks]
        places = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        key_of_track = row_codes.integers([places[key] for key in keys])
        self._named, self._used = (
            _rows_by_key(tuple(places), key_of_track, values, max(1, len(scrapes.moments)))
            for values in (day_readings.occurrences, _busy(day_readings.rates))
        )
        self._known: dict[BrokerBucket, tuple[list[int], pa.Int64Array]] = {}

    def rows(self, track: BrokerBucket, begin: int) -> pa.Int64Array:
        """Return the rows from ``begin`` on at which the bucket would have a value if it was used."""
        key = _measured_together(track)
        if key not in self._known:
            known_rows = self._known_rows(key)
            self._known[key] = known_rows, row_codes.integers(known_rows)
        rows, column = self._known[key]
        at = bisect_left(rows, begin)
        missed = self._rows_by_broker[track.broker].stop - begin - (len(rows) - at)
        self._tally.add(DropReason.NOT_MEASURED, missed)
        return column.slice(at)

    def _known_rows(self, key: BrokerBucket) -> list[int]:
        """Return the rows at which a missing value is zero use, by the limits at their time."""
        kind, named_rows, used = (
            QuotaType(key.quota_type),
            self._named.get(key, set()),
            self._used.get(key, set()),
        )
        is_measured_by_span = {
            span: self._limits.is_ip_counted(span, key.bucket)
            if kind is QuotaType.IP
            else self._limits.measured(span, kind)
            for span in set(self._spans)
        }

        def is_known(row: int) -> bool:
            is_measured = is_measured_by_span[self._spans[row]]  # None = no snapshot
            return is_measured or row in (named_rows if is_measured is None else used)

        return [row for row in self._rows_by_broker[key.broker] if is_known(row)]


def _measured_together(track: BrokerBucket) -> BrokerBucket:
    """Return one value for all tracks that a broker measures or does not measure together."""
    if track.quota_type == QuotaType.IP:  # only while an own or default limit applies to it
        return track
    return BrokerBucket(track.quota_type, "", "", "", "", track.broker)


def _rows_by_key(
    keys: Sequence[BrokerBucket], key_of_track: pa.Int64Array, values: TrackValues, size: int
) -> dict[BrokerBucket, set[int]]:
    rows_by_key: dict[BrokerBucket, set[int]] = {}
    pairs = row_codes.paired(key_of_track.take(values.tracks), values.rows, size)
    for pair in pc.unique(pairs).to_pylist():
        at, row = divmod(pair, size)
        rows_by_key.setdefault(keys[at], set()).add(row)
    return rows_by_key


def _busy(rates: TrackValues) -> TrackValues:
    mask = row_codes.sure(pc.greater(rates.values, 0.0))
    return TrackValues(*(column.filter(mask) for column in rates))
