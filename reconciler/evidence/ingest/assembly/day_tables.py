"""A day of one cluster: from its points to rows of usage_sample, target_up and broker_sample, with everything counted by name.

A pure function of the day's points, of what the points of the day before leave (:class:`DayCarryover`), and of the looks at the
limits around it. So a rebuild, late points and a second replica all come to the same rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.assembly.broker_readings import (
    BrokerReadings,
    DayCarryover,
    readings,
)
from reconciler.evidence.ingest.assembly.broker_totals import (
    broker_samples,
    target_up,
)
from reconciler.evidence.ingest.assembly.censored_samples import censored
from reconciler.evidence.ingest.assembly.day_warnings import doubts
from reconciler.evidence.ingest.assembly.limit_history import (
    LimitHistory,
    LimitSnapshot,
)
from reconciler.evidence.ingest.assembly.sample_grid import SampleGrid, grid
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.usage.samples import DAY_MS, MILLION, Cadence
from reconciler.usage.tables import USAGE_SAMPLE

VERSION = 3
"""Of the rules in this package: days that were assembled by others are assembled anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledDay:
    """What a day comes to.

    Attributes:
        day: UTC.
        usage: Rows of ``usage_sample``, sorted by its key.
        up: Rows of ``target_up``.
        brokers: Rows of ``broker_sample``.
        counts: Everything that was not simply used, by name.
        coverage: For each broker the share of the day that kept scrapes stand for, in millionths.
        carry: What the day after has to know.
        doubts: What makes the day partial, in sentences.
    """

    day: date
    usage: pa.Table
    up: pa.Table
    brokers: pa.Table
    counts: Mapping[str, int]
    coverage: Mapping[str, int]
    carry: DayCarryover
    doubts: tuple[str, ...] = ()


def assembled(
    cluster_id: str,
    day: date,
    points: pa.Table,
    *,
    pace: Cadence,
    before: DayCarryover | None = None,
    looks: Iterable[LimitSnapshot] = (),
) -> AssembledDay:
    """The rows of a day.

    Args:
        cluster_id: Of which cluster.
        day: UTC.
        points: All its rows of ``point``, in any order, no two with one key.
        pace: How often its brokers are read.
        before: What the day before left; ``None`` = there are no points of it.
        looks: At its limits; more than :func:`reconciler.evidence.ingest.assembly.limit_history.relevant` change nothing.
    """
    tally = DropCounts()
    previous_carry = before or DayCarryover()
    day_readings = readings(points, pace, previous_carry, tally)
    limits = LimitHistory(looks)
    samples = grid(day_readings, previous_carry, limits, pace, tally)
    times = [moment.ts_ms for moment in day_readings.moments]
    up = target_up(cluster_id, day, day_readings, previous_carry, pace)
    return AssembledDay(
        day=day,
        usage=_usage(
            cluster_id, day, day_readings, samples, censored(samples, times, limits, tally)
        ),
        up=up,
        brokers=broker_samples(cluster_id, day, day_readings, previous_carry, pace),
        counts=tally.by_name(),
        coverage=_coverage(up),
        carry=day_readings.carry,
        doubts=doubts(day_readings, up, pace),
    )


def left_by(points: pa.Table, pace: Cadence) -> DayCarryover:
    """What a day leaves to the next one, without its rows."""
    return readings(points, pace, DayCarryover(), DropCounts()).carry


def day_of(ts_ms: int) -> date:
    """The UTC day of a moment."""
    return datetime.fromtimestamp(ts_ms / 1000, UTC).date()


def start_of(day: date) -> int:
    """The first millisecond of a day."""
    return (day - date(1970, 1, 1)).days * DAY_MS


def _usage(
    cluster_id: str, day: date, day_readings: BrokerReadings, samples: SampleGrid, judged: pa.Array
) -> pa.Table:
    count = len(samples.number)
    columns: dict[str, pa.Array] = {
        "cluster_id": same(cluster_id, count),
        "ts_ms": row_codes.integers([moment.ts_ms for moment in day_readings.moments]).take(
            samples.rows
        ),
        "dt_ms": samples.spans.cast(pa.int32()),
        "rate_units": samples.units,
        "throttle_ms": samples.throttles,
        "censored": judged,
        "day": pa.repeat(pa.scalar(day, pa.date32()), count),
    }
    for name, at in (
        ("quota_type", 0), ("group_kind", 1), ("user", 2), ("client_id", 3), ("ip", 4), ("broker_id", 5),
    ):  # fmt: skip
        texts = pa.array([track[at] for track in samples.tracks], pa.string()).dictionary_encode()
        columns[name] = texts.take(samples.number)
    return pa.table({name: columns[name] for name in USAGE_SAMPLE.names})


def same(text: str, count: int) -> pa.DictionaryArray:
    """A column of one text."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), count), [text])


def _coverage(up: pa.Table) -> dict[str, int]:
    answered = up.filter(up["up"])
    summed = answered.group_by("broker_id", use_threads=False).aggregate([("dt_ms", "sum")])
    return {
        broker: min(MILLION, total * MILLION // DAY_MS)
        for broker, total in sorted(
            zip(summed["broker_id"].to_pylist(), summed["dt_ms_sum"].to_pylist(), strict=True)
        )
    }


def split(points: pa.Table) -> dict[date, pa.Table]:
    """Points by the UTC day of their time, whatever their column ``day`` says; sorted by day."""
    numbers = pc.divide(row_codes.combine_column(points["ts_ms"]), DAY_MS)
    return {
        day_of(unique_number * DAY_MS): points.filter(pc.equal(numbers, unique_number))
        for unique_number in sorted(pc.unique(numbers).to_pylist())
    }
