"""A day's points as readings of buckets and brokers at the moments that count; and what the next day has to know of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.telemetry import codes, controller, counters, placing
from reconciler.telemetry.fates import Fate, Tally
from reconciler.telemetry.placing import Placed
from reconciler.telemetry.scrapes import Moment
from reconciler.usage.samples import CONTROLLER, Cadence, QuotaType
from reconciler.usage.tables import Measure
from reconciler.usage.tags import Bucket, GroupKind, bucket_of


class Track(NamedTuple):
    """A bucket on a broker, in the order of the key of ``usage_sample``; without a type it is the broker itself."""

    quota_type: str
    group_kind: str
    user: str
    client_id: str
    ip: str
    broker: str

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return bucket_of(self.user, self.client_id, self.ip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """What a day leaves to the next one. It depends on the points of that day alone, never on the day before it.

    Attributes:
        last: The last kept moment of each broker.
        tracks: The buckets that were named on each broker.
        counters: The last reading of each counter: ``(milliseconds, value)``.
    """

    last: Mapping[str, int] = field(default_factory=dict[str, int])
    tracks: frozenset[Track] = frozenset()
    counters: Mapping[tuple[str, Track], tuple[int, float]] = field(
        default_factory=dict[tuple[str, Track], tuple[int, float]]
    )


class Values(NamedTuple):
    """Readings of some tracks: which, at which row, what."""

    tracks: pa.Int64Array
    rows: pa.Int64Array
    values: pa.DoubleArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What was read at the moments that count.

    Attributes:
        moments: Kept scrapes that succeeded; the place is the row. Those of the active controller come once more, as
            :data:`~reconciler.usage.samples.CONTROLLER`.
        rows: The rows of each broker.
        failed: Scrapes that failed, by broker.
        tracks: Buckets on brokers; the place is their number.
        named: Where a track was named at all.
        rates: In Kafka's own units per second.
        throttles: Mean delays in ms; not a number = none was throttled.
        totals: Of brokers, per second: rows and values by gauge's measure.
        carry: For the day after.
        surmised: Rows of moments that no ``up`` tells of.
        contested: Broker ids that several brokers have, and the instances of these.
    """

    moments: tuple[Moment, ...]
    rows: Mapping[str, range]
    failed: Mapping[str, tuple[int, ...]]
    tracks: tuple[Track, ...]
    named: Values
    rates: Values
    throttles: Values
    totals: Mapping[Measure, tuple[pa.Int64Array, pa.DoubleArray]]
    carry: Carry
    surmised: frozenset[int] = frozenset()
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


_RATE_OF: Final = {
    Measure.RATE_TOTAL: Measure.RATE,
    Measure.BYTES_IN_TOTAL: Measure.BYTES_IN,
    Measure.BYTES_OUT_TOTAL: Measure.BYTES_OUT,
    Measure.REPLICATION_IN_TOTAL: Measure.REPLICATION_IN,
    Measure.REPLICATION_OUT_TOTAL: Measure.REPLICATION_OUT,
}
_GAUGES: Final = (
    Measure.BYTES_IN, Measure.BYTES_OUT, Measure.REPLICATION_IN, Measure.REPLICATION_OUT, Measure.REQUEST_IDLE,
)  # fmt: skip


def readings(points: pa.Table, pace: Cadence, before: Carry, tally: Tally) -> Readings:
    """The readings of one cluster and day.

    Args:
        points: Its rows of ``point``, in any order, no two with one key.
        pace: How often brokers are read.
        before: What the day before left.
        tally: Where everything that is not used is counted.
    """
    found = placing.placed(points, pace.step_ms, tally)
    lines = _Lines(found)
    times = [one.ts_ms for one in found.scrapes.moments]
    last: dict[tuple[str, Track], tuple[int, float]] = {}

    def counted(measure: Measure) -> tuple[Values, Values]:
        """Rates, and growth, of the counters of a measure."""
        these = lines.of(measure)
        known = {
            number: before.counters[measure, track]
            for number, track in enumerate(lines.tracks)
            if (measure, track) in before.counters
        }
        made = counters.rates(
            *these, times=times, max_gap_ms=pace.max_gap_ms, before=known, tally=tally
        )
        last.update(((measure, lines.tracks[one]), read) for one, read in made.last.items())
        return Values(made.series, made.rows, made.values), Values(
            made.series, made.rows, made.grown
        )

    totals = {
        gauge: _either(counted(total)[0] if total else None, lines.of(gauge))
        for gauge in _GAUGES
        for total in (next((one for one, rate in _RATE_OF.items() if rate is gauge), None),)
    }
    rates = _either(counted(Measure.RATE_TOTAL)[0], lines.of(Measure.RATE))
    throttles = _either(counted(Measure.THROTTLE_TOTAL)[1], lines.of(Measure.THROTTLE))
    throne = _Throne(found, lines, rates, pace.step_ms)
    named = throne.moved(lines.named())
    tally.add(Fate.STANDBY_CONTROLLER, throne.passed_over)
    seen = pc.unique(named.tracks).to_pylist()
    return Readings(
        moments=throne.moments,
        rows=throne.rows,
        failed=found.scrapes.failed,
        tracks=throne.tracks,
        named=named,
        rates=throne.moved(rates),
        throttles=throne.moved(throttles),
        totals={gauge: (one.rows, one.values) for gauge, one in totals.items()},
        carry=Carry(
            last={broker: throne.moments[rows[-1]].ts_ms for broker, rows in throne.rows.items()},
            tracks=frozenset(throne.tracks[one] for one in seen),
            counters=last,
        ),
        surmised=throne.surmised,
        contested=found.scrapes.contested,
    )


def _either(first: Values | None, other: Values) -> Values:
    """Both; where a counter and a gauge tell the same, the counter comes first and counts."""
    if first is None or not len(first.tracks):
        return other
    return Values(*(pa.concat_arrays([mine, its]) for mine, its in zip(first, other, strict=True)))


class _Lines:
    """Series of brokers: which track and measure each point has."""

    def __init__(self, found: Placed) -> None:
        moments = found.scrapes.moments
        brokers = {broker: number for number, broker in enumerate(found.scrapes.rows)}
        of_row = codes.integers([brokers[one.broker] for one in moments])
        broker = of_row.take(found.rows)
        lines = codes.coded([broker, *found.names])
        texts = [one.take(lines.firsts).to_pylist() for one in found.names]
        names = list(brokers)
        numbers: dict[Track, int] = {}
        self._measures: list[str] = []
        of_line: list[int] = []
        for at, measure, kind, user, client_id, ip in zip(
            broker.take(lines.firsts).to_pylist(), *texts, strict=True
        ):
            bucket = bucket_of(user, client_id, ip)
            group = bucket.kind if kind else GroupKind.NONE
            track = Track(kind, group.value, bucket.user, bucket.client_id, bucket.ip, names[at])
            self._measures.append(measure)
            of_line.append(numbers.setdefault(track, len(numbers)))
        self.tracks = tuple(numbers)
        self._lines = lines.codes
        self._rows, self._values = found.rows, found.values
        self._tracks = codes.integers(of_line).take(lines.codes)

    def of(self, measure: Measure) -> Values:
        """The points of a measure."""
        return self._where([one == measure for one in self._measures])

    def named(self) -> Values:
        """All points of buckets."""
        of_bucket = [one not in _OF_BROKER for one in self._measures]
        return self._where(of_bucket)

    def _where(self, wanted: Sequence[bool]) -> Values:
        if all(wanted):
            return Values(self._tracks, self._rows, self._values)
        mask = pa.array(wanted, pa.bool_()).take(self._lines)
        return Values(*(one.filter(mask) for one in (self._tracks, self._rows, self._values)))


_OF_BROKER: Final = frozenset(
    str(one) for one in (*_GAUGES, *_RATE_OF) if one is not Measure.RATE_TOTAL
)


class _Throne:
    """Moves the mutations of the active controller to a broker of their own, and drops those of the others."""

    def __init__(self, found: Placed, lines: _Lines, rates: Values, step_ms: int) -> None:
        scrapes = found.scrapes
        self.moments, self.rows, self.tracks = scrapes.moments, dict(scrapes.rows), lines.tracks
        self.passed_over = 0
        self.surmised = scrapes.surmised
        mutation = QuotaType.CONTROLLER_MUTATION.value
        self._moves = [one.quota_type == mutation for one in lines.tracks]
        if not any(self._moves):
            return
        times = [one.ts_ms for one in scrapes.moments]
        nodes = sorted({one.broker for one in lines.tracks if one.quota_type == mutation})
        order = controller.reign(
            controller.sights(
                self._totals(rates), {one: scrapes.rows[one] for one in nodes}, times
            ),
            step_ms,
        )
        begin = len(self.moments)
        self.moments += tuple(Moment(CONTROLLER, times[row]) for row in order)
        self.rows[CONTROLLER] = range(begin, begin + len(order))
        new_row = {row: begin + at for at, row in enumerate(order)}
        self.surmised |= {new for row, new in new_row.items() if row in scrapes.surmised}
        self._row = pa.array([new_row.get(row) for row in range(begin)], pa.int64())
        numbers = {one: number for number, one in enumerate(lines.tracks)}
        moved = []
        for one, moves in zip(lines.tracks, self._moves, strict=True):
            target = one._replace(broker=CONTROLLER) if moves else one
            moved.append(numbers.setdefault(target, len(numbers)))
        self.tracks = tuple(numbers)
        self._track = codes.integers(moved)

    def moved(self, values: Values) -> Values:
        """The readings with those of the active controller as the cluster's."""
        if not any(self._moves):
            return values
        moves = pa.array(self._moves, pa.bool_()).take(values.tracks)
        rows = pc.if_else(moves, self._row.take(values.rows), values.rows)
        stays = pc.is_valid(rows)
        self.passed_over = max(self.passed_over, len(rows) - codes.count(stays))
        made = (self._track.take(values.tracks), rows, values.values)
        return Values(*(one.filter(stays) for one in made))

    def _totals(self, rates: Values) -> dict[int, float]:
        mask = pa.array(self._moves, pa.bool_()).take(rates.tracks)
        table = pa.table({"row": rates.rows.filter(mask), "value": rates.values.filter(mask)})
        table = table.filter(pc.is_finite(table["value"]))
        summed = table.group_by("row", use_threads=False).aggregate([("value", "sum")])
        return dict(zip(summed["row"].to_pylist(), summed["value_sum"].to_pylist(), strict=True))
