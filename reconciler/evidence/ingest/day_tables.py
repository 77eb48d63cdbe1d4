"""Assembles rows of ``usage_sample``, ``target_up`` and ``broker_sample`` from the points of one day and cluster.

A pure function of the day's points, the carry-over of the previous day (:class:`DayCarryover`) and the surrounding
quota snapshots: a rebuild, late points and a second replica give the same rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from statistics import median_low
from typing import Final

import pyarrow as pa

from reconciler.evidence.ingest.broker_readings import (
    BrokerReadings,
    DayCarryover,
    readings,
)
from reconciler.evidence.ingest.censored_samples import censored
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.limit_history import LimitHistory
from reconciler.evidence.ingest.points import Points
from reconciler.evidence.ingest.sample_grid import SampleGrid, grid
from reconciler.evidence.store.files import arrow_tables, row_codes
from reconciler.usage.samples import CONTROLLER, DAY_MS, MAX_UNITS, MILLION, Cadence, half_up, spans
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE, Measure

VERSION = 5
"""Version of the assembly rules: a day that is read again is assembled again if its version differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledDay:
    """The result of assembling a day."""

    day: date  # UTC
    usage: pa.Table  # rows of `usage_sample`, sorted by its key
    up: pa.Table  # rows of `target_up`
    brokers: pa.Table  # rows of `broker_sample`
    counts: Mapping[str, int]  # number of points and samples by drop reason
    # The share of the day that the scrapes of each broker cover, in millionths.
    coverage: Mapping[str, int]
    carry: DayCarryover
    doubts: tuple[str, ...] = ()  # sentences about why the day is partial


def assembled(
    cluster_id: str,
    day: date,
    points: Points,
    *,
    pace: Cadence,
    before: DayCarryover | None = None,
    limits: LimitHistory | None = None,
) -> AssembledDay:
    """Assemble the rows of a day.

    Args:
        day: UTC.
        points: All its points, in any order.
        pace: The scrape interval.
        before: The carry-over of the previous day; ``None`` if it has no points.
        limits: The limits over time; ``None`` = unknown.
    """
    tally = DropCounts()
    previous_carry = before or DayCarryover()
    day_readings = readings(points, pace, previous_carry, tally)
    limits = limits or LimitHistory(())
    samples = grid(day_readings, previous_carry, limits, pace, tally)
    times = [moment.ts_ms for moment in day_readings.scrapes.moments]
    up = target_up(cluster_id, day, day_readings, previous_carry, pace)
    return AssembledDay(
        day=day,
        usage=_usage(
            cluster_id, day, day_readings, samples, censored(samples, times, limits, tally)
        ),
        up=up,
        brokers=broker_samples(cluster_id, day, day_readings, previous_carry, pace),
        counts=tally.by_name(),
        coverage=coverage(up),
        carry=day_readings.carry,
        doubts=doubts(day_readings, up, pace),
    )


def carryover_of(points: Points, pace: Cadence) -> DayCarryover:
    """Return the carry-over of a day without assembling its rows."""
    return readings(points, pace, DayCarryover(), DropCounts()).carry


def _usage(
    cluster_id: str, day: date, day_readings: BrokerReadings, samples: SampleGrid, judged: pa.Array
) -> pa.Table:
    count = len(samples.number)
    columns: dict[str, pa.Array] = {
        "cluster_id": same(cluster_id, count),
        "ts_ms": row_codes.integers([moment.ts_ms for moment in day_readings.scrapes.moments]).take(
            samples.rows
        ),
        "dt_ms": samples.spans.cast(pa.int32()),
        "rate_units": samples.units,
        "throttle_ms": samples.throttles,
        "censored": judged,
        "day": pa.repeat(pa.scalar(day, pa.date32()), count),
    }
    for name, at in (
        ("quota_type", 0),
        ("group_kind", 1),
        ("user", 2),
        ("client_id", 3),
        ("ip", 4),
        ("broker_id", 5),
    ):
        texts = pa.array([track[at] for track in samples.tracks], pa.string()).dictionary_encode()
        columns[name] = texts.take(samples.number)
    return pa.table({name: columns[name] for name in USAGE_SAMPLE.names})


def same(text: str, count: int) -> pa.DictionaryArray:
    """Return a column with one repeated string."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), count), [text])


def coverage(up: pa.Table) -> dict[str, int]:
    """Return the share of the day in which each broker of ``target_up`` answered scrapes, in millionths."""
    answered = up.filter(up["up"])
    summed = answered.group_by("broker_id", use_threads=False).aggregate([("dt_ms", "sum")])
    return {
        broker: min(MILLION, total * MILLION // DAY_MS)
        for broker, total in sorted(
            zip(summed["broker_id"].to_pylist(), summed["dt_ms_sum"].to_pylist(), strict=True)
        )
    }


_COLUMNS: Final = {
    "bytes_in": Measure.BYTES_IN,
    "bytes_out": Measure.BYTES_OUT,
    "replication_in": Measure.REPLICATION_IN,
    "replication_out": Measure.REPLICATION_OUT,
    "request_idle_ppm": Measure.REQUEST_IDLE,
}


def target_up(
    cluster_id: str, day: date, day_readings: BrokerReadings, before: DayCarryover, pace: Cadence
) -> pa.Table:
    """Return the scrapes of each broker and their results, sorted; a scrape covers the time since the one before it."""
    values_by_column: dict[str, list[object]] = {name: [] for name in TARGET_UP.names}
    for broker in sorted({*day_readings.scrapes.rows, *day_readings.scrapes.failed} - {CONTROLLER}):
        answered = [
            day_readings.scrapes.moments[row].ts_ms
            for row in day_readings.scrapes.rows.get(broker, ())
        ]
        is_up_by_time = dict.fromkeys(
            day_readings.scrapes.failed.get(broker, ()), False
        ) | dict.fromkeys(answered, True)
        times = sorted(is_up_by_time)
        values_by_column["cluster_id"] += [cluster_id] * len(times)
        values_by_column["broker_id"] += [broker] * len(times)
        values_by_column["ts_ms"] += times
        values_by_column["dt_ms"] += spans(times, pace, before.last.get(broker))
        values_by_column["up"] += [is_up_by_time[ts] for ts in times]
        values_by_column["day"] += [day] * len(times)
    return pa.table(values_by_column, schema=arrow_tables.schema(TARGET_UP))


def broker_samples(
    cluster_id: str, day: date, day_readings: BrokerReadings, before: DayCarryover, pace: Cadence
) -> pa.Table:
    """Return the readings of each broker at each scrape with any value, sorted."""
    read = {name: _by_row(day_readings, measure) for name, measure in _COLUMNS.items()}
    values_by_column: dict[str, list[object]] = {name: [] for name in BROKER_SAMPLE.names}
    for broker, rows in sorted(day_readings.scrapes.rows.items()):
        rows_with_values = [row for row in rows if any(row in values for values in read.values())]
        times = [day_readings.scrapes.moments[row].ts_ms for row in rows_with_values]
        values_by_column["cluster_id"] += [cluster_id] * len(times)
        values_by_column["broker_id"] += [broker] * len(times)
        values_by_column["ts_ms"] += times
        values_by_column["dt_ms"] += spans(times, pace, before.last.get(broker))
        for name, values in read.items():
            values_by_column[name] += [values.get(row) for row in rows_with_values]
        values_by_column["day"] += [day] * len(times)
    return pa.table(values_by_column, schema=arrow_tables.schema(BROKER_SAMPLE))


def _by_row(day_readings: BrokerReadings, measure: Measure) -> Mapping[int, int]:
    _, rows, values = day_readings.totals[measure]
    scale = MILLION if measure is Measure.REQUEST_IDLE else 1
    max_units = MILLION if measure is Measure.REQUEST_IDLE else MAX_UNITS
    return _whole_numbers(rows.to_pylist(), values.to_pylist(), scale, max_units)


def _whole_numbers(
    rows: Sequence[int], values: Sequence[float], scale: int, max_value: int
) -> dict[int, int]:
    """Return scaled values by row without NaN; of two values of a row the first, a counter's, is used."""
    values_by_row: dict[int, int] = {}
    for row, value in zip(rows, values, strict=True):
        if value == value:  # noqa: PLR0124 - not a number is never equal to itself
            values_by_row.setdefault(row, half_up(min(max(value * scale, 0.0), float(max_value))))
    return values_by_row


LEAST: Final = 20
"""Minimum number of intervals to determine the usual scrape interval of a broker."""

_NEAR: Final = 4
"""Intervals that differ by more than 1/_NEAR of the configured step are reported."""

_SHOWN: Final = 5


def doubts(day_readings: BrokerReadings, up: pa.Table, pace: Cadence) -> tuple[str, ...]:
    """Return sentences about duplicate broker ids, brokers without ``up`` and unexpected scrape intervals.

    Args:
        day_readings: The readings of the day.
        up: Rows of ``target_up``, sorted.
        pace: The scrape interval that the day was assembled with.
    """
    scrapes = day_readings.scrapes
    return (*_shared(scrapes.contested), *_silent(scrapes.without_up), *_paces(up, pace))


def _silent(without_up: Sequence[str]) -> Iterator[str]:
    if without_up:
        yield (
            f"{_join_names(without_up)} have no `up`, so it is not known when they answered; they are not used: keep `up`"
            " with the labels of their series (federation: honor_labels), or export it"
        )


def _shared(contested: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for broker, instances in sorted(contested.items()):
        yield (
            f"{_join_names(instances)} report clients under the broker id {broker} at the same time; they are not used: name in"
            " telemetry.matchers the cluster, or the one job of its brokers, or correct telemetry.brokerId"
        )


def _paces(up: pa.Table, pace: Cadence) -> Iterator[str]:
    times: dict[str, list[int]] = {}
    for broker, ts in zip(up["broker_id"].to_pylist(), up["ts_ms"].to_pylist(), strict=True):
        times.setdefault(broker, []).append(ts)
    brokers_by_step: dict[int, list[str]] = {}
    for broker, scrape_times in times.items():
        usual = _usual(scrape_times)
        if usual is not None and abs(usual - pace.step_ms) * _NEAR > pace.step_ms:
            brokers_by_step.setdefault(round(usual / 1000), []).append(broker)
    for seconds, brokers in sorted(brokers_by_step.items()):
        were = "broker {} was" if len(brokers) == 1 else "brokers {} were"
        yield (
            f"{were.format(_join_names(brokers))} read every {seconds} s, and telemetry.scrapeStep means every"
            f" {_seconds(pace.step_ms)} with gaps of up to {_seconds(pace.max_gap_ms)}: correct it, then --rebuild"
        )


def _usual(times: Sequence[int]) -> int | None:
    if len(times) <= LEAST:
        return None
    return median_low([later_ts - earlier for earlier, later_ts in pairwise(times)])


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def _join_names(names: Iterable[str]) -> str:
    all_names = list(names)
    suffix = f" and {len(all_names) - _SHOWN} more" if len(all_names) > _SHOWN else ""
    return ", ".join(all_names[:_SHOWN]) + suffix
