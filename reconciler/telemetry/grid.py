"""Every moment at which something is known of a bucket: what was read, and zero where the broker answered without it.

Column form of :func:`reconciler.usage.series.filled` and :func:`reconciler.usage.series.timed`; a law holds them together.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.telemetry import codes
from reconciler.telemetry.fates import Fate, Tally
from reconciler.telemetry.limits import Limits
from reconciler.telemetry.readings import Carry, Readings, Track, Values
from reconciler.usage.samples import MAX_UNITS, SCALE, Cadence, QuotaType


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Samples but for their censoring, sorted by track and time.

    Attributes:
        tracks: The buckets on brokers, sorted; those that the day before named come in, too.
        number: The track of each sample.
        rows: Its moment.
        spans: The time that it stands for, in ms.
        units: Its rate.
        throttles: Mean delay in ms; null = not recorded.
        read: Whether it was read, and not filled.
        size: How many rows there are: ``number * size + row`` is a key.
    """

    tracks: tuple[Track, ...]
    number: pa.Int64Array
    rows: pa.Int64Array
    spans: pa.Int64Array
    units: pa.Int64Array
    throttles: pa.Int64Array
    read: pa.BooleanArray
    size: int

    def keys(self) -> pa.Int64Array:
        """One number per sample."""
        return codes.paired(self.number, self.rows, self.size)


def grid(found: Readings, before: Carry, limits: Limits, pace: Cadence, tally: Tally) -> Grid:
    """The samples of a day.

    A bucket is known from its first mention on that day, or from midnight if the day before named it on that broker.
    From then on every kept scrape that succeeded says something of it: nothing used where it is not named. But
    only if the broker measured: a limit of the type may have been set then, or it named some other bucket of the type.

    Args:
        found: What was read.
        before: What the day before left.
        limits: In force, as far as looks tell.
        pace: How often brokers are read.
        tally: Where what is filled, cut or left out is counted.
    """
    tracks = tuple(
        sorted({*found.carry.tracks, *(one for one in before.tracks if one.broker in found.rows)})
    )
    size = max(1, len(found.moments))
    place = {one: number for number, one in enumerate(tracks)}
    renumber = pa.array([place.get(one) for one in found.tracks], pa.int64())

    def keys_of(values: Values) -> pa.Int64Array:
        return codes.paired(renumber.take(values.tracks), values.rows, size)

    named = keys_of(found.named)
    firsts = _firsts(found, renumber)
    bases = _Bases(found, limits, tally)
    numbers: list[pa.Array] = []
    stretches: list[pa.Array] = []
    for number, track in enumerate(tracks):
        begin = found.rows[track.broker].start if track in before.tracks else firsts[number]
        rows = bases.rows(track, begin)
        numbers.append(pa.repeat(pa.scalar(number, pa.int64()), len(rows)))
        stretches.append(rows)
    empty = codes.integers([])
    number, row = pa.concat_arrays([empty, *numbers]), pa.concat_arrays([empty, *stretches])
    key = codes.paired(number, row, size)
    scales = pa.array([float(SCALE[QuotaType(one.quota_type)]) for one in tracks], pa.float64())
    rate = found.rates.values.take(pc.index_in(key, value_set=keys_of(found.rates)))
    is_named = pc.is_in(key, value_set=named)
    scale = scales.take(number)
    units = codes.units(rate, scale, MAX_UNITS)
    absent = pc.invert(is_named)
    usable = pc.or_(absent, pc.is_valid(units))
    tally.add(Fate.FILLED, codes.count(absent))
    tally.add(Fate.RATE_NOT_A_NUMBER, codes.count(pc.is_nan(rate)))
    tally.add(Fate.RATE_BELOW_ZERO, codes.count(pc.less(rate, 0.0)))
    tally.add(
        Fate.RATE_CLAMPED, codes.count(pc.greater(pc.multiply(rate, scale), float(MAX_UNITS)))
    )
    delay = found.throttles.values.take(pc.index_in(key, value_set=keys_of(found.throttles)))
    throttle = pc.if_else(absent, 0, _delays(delay))
    number, row = number.filter(usable), row.filter(usable)
    return Grid(
        tracks=tracks,
        number=number,
        rows=row,
        spans=_spans(found, tracks, number, row, before=before, pace=pace),
        units=pc.fill_null(units, 0).filter(usable),
        throttles=throttle.filter(usable),
        read=is_named.filter(usable),
        size=size,
    )


def _firsts(found: Readings, renumber: pa.Array) -> Mapping[int, int]:
    """The first row at which each track was named."""
    table = pa.table({"track": renumber.take(found.named.tracks), "row": found.named.rows})
    least = table.group_by("track", use_threads=False).aggregate([("row", "min")])
    return dict(zip(least["track"].to_pylist(), least["row_min"].to_pylist(), strict=True))


def _delays(values: pa.Array) -> pa.Int64Array:
    """Whole ms: not a number is 0 (no request was throttled), and a delay that rounds to 0 is still one."""
    known = pc.if_else(pc.is_nan(values), 0.0, values)
    cut = pc.min_element_wise(known, pa.scalar(float(MAX_UNITS)), skip_nulls=False)
    least = pc.if_else(pc.greater(cut, 0.0), pc.max_element_wise(cut, 1.0, skip_nulls=False), 0.0)
    return codes.half_up(least)


def _spans(
    found: Readings,
    tracks: Sequence[Track],
    number: pa.Array,
    row: pa.Array,
    *,
    before: Carry,
    pace: Cadence,
) -> pa.Int64Array:
    ts = codes.integers([one.ts_ms for one in found.moments]).take(row)
    carried = [before.last.get(one.broker) if one in before.tracks else None for one in tracks]
    same = codes.sure(pc.equal(number, codes.shifted(number)))
    old = pc.if_else(same, codes.shifted(ts), pa.array(carried, pa.int64()).take(number))
    distance = pc.subtract(ts, old)
    close = codes.sure(pc.less_equal(distance, pace.max_gap_ms))
    return pc.if_else(close, distance, pace.step_ms)


class _Bases:
    """The rows at which each type was measured on each broker."""

    def __init__(self, found: Readings, limits: Limits, tally: Tally) -> None:
        self._found, self._limits, self._tally = found, limits, tally
        self._span = [limits.at(one.ts_ms) for one in found.moments]
        self._named: dict[tuple[str, str], set[int]] = {}
        self._of_track: dict[Track, set[int]] = {}
        self._known: dict[tuple[str, str], tuple[list[int], pa.Int64Array]] = {}
        kinds = sorted({(one.broker, one.quota_type) for one in found.tracks})
        kind_of = codes.integers(
            [kinds.index((one.broker, one.quota_type)) for one in found.tracks]
        )
        size = max(1, len(found.moments))
        pairs = codes.paired(kind_of.take(found.named.tracks), found.named.rows, size)
        for pair in pc.unique(pairs).to_pylist():
            kind, row = divmod(pair, size)
            self._named.setdefault(kinds[kind], set()).add(row)
        self._ips(found)

    def rows(self, track: Track, begin: int) -> pa.Int64Array:
        """The rows from ``begin`` on at which a bucket would have been named, had it used anything."""
        if track.quota_type == QuotaType.IP:
            return self._of_ip(track, begin)
        kind = (track.broker, track.quota_type)
        known = self._known.get(kind)
        if known is None:
            known = self._measured(*kind)
            self._known[kind] = known
        rows, column = known
        at = bisect_left(rows, begin)
        missed = self._found.rows[track.broker].stop - begin - (len(rows) - at)
        self._tally.add(Fate.NOT_MEASURED, missed)
        return column.slice(at)

    def _measured(self, broker: str, kind: str) -> tuple[list[int], pa.Int64Array]:
        named = self._named.get((broker, kind), set())
        spans = {span: self._limits.measured(span, QuotaType(kind)) for span in set(self._span)}
        rows = [row for row in self._found.rows[broker] if row in named or spans[self._span[row]]]
        return rows, codes.integers(rows)

    def _ips(self, found: Readings) -> None:
        of_ip = [
            number for number, one in enumerate(found.tracks) if one.quota_type == QuotaType.IP
        ]
        if not of_ip:
            return
        mask = pc.is_in(found.named.tracks, value_set=codes.integers(of_ip))
        for number, row in zip(
            found.named.tracks.filter(mask).to_pylist(),
            found.named.rows.filter(mask).to_pylist(),
            strict=True,
        ):
            self._of_track.setdefault(found.tracks[number], set()).add(row)

    def _of_ip(self, track: Track, begin: int) -> pa.Int64Array:
        """An address is counted only while it has a limit of its own or the default's."""
        named = self._of_track.get(track, set())
        limited = {
            span: self._limits.limit(span, QuotaType.IP, track.bucket) for span in set(self._span)
        }
        rows = [
            row
            for row in range(begin, self._found.rows[track.broker].stop)
            if row in named or isinstance(limited[self._span[row]], int)
        ]
        self._tally.add(Fate.NOT_MEASURED, self._found.rows[track.broker].stop - begin - len(rows))
        return codes.integers(rows)
