"""What brokers did in all, and when they were asked: rows of broker_sample and target_up."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import pyarrow as pa

from reconciler.evidence.ingest.assembly.broker_readings import (
    BrokerReadings,
    DayCarryover,
)
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.samples import CONTROLLER, MAX_UNITS, MILLION, Cadence, half_up
from reconciler.usage.series import spans
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, Measure

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
    """When each broker was asked and whether it answered, sorted. A scrape stands for the time since the one before it."""
    values_by_column: dict[str, list[object]] = {name: [] for name in TARGET_UP.names}
    for broker in sorted({*day_readings.rows, *day_readings.failed} - {CONTROLLER}):
        answered = [day_readings.moments[row].ts_ms for row in day_readings.rows.get(broker, ())]
        is_up_by_time = dict.fromkeys(day_readings.failed.get(broker, ()), False) | dict.fromkeys(
            answered, True
        )
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
    """What each broker did, per second, at each moment of which anything is known, sorted."""
    read = {name: _by_row(day_readings, measure) for name, measure in _COLUMNS.items()}
    values_by_column: dict[str, list[object]] = {name: [] for name in BROKER_SAMPLE.names}
    for broker, rows in sorted(day_readings.rows.items()):
        rows_with_values = [row for row in rows if any(row in values for values in read.values())]
        times = [day_readings.moments[row].ts_ms for row in rows_with_values]
        values_by_column["cluster_id"] += [cluster_id] * len(times)
        values_by_column["broker_id"] += [broker] * len(times)
        values_by_column["ts_ms"] += times
        values_by_column["dt_ms"] += spans(times, pace, before.last.get(broker))
        for name, values in read.items():
            values_by_column[name] += [values.get(row) for row in rows_with_values]
        values_by_column["day"] += [day] * len(times)
    return pa.table(values_by_column, schema=arrow_tables.schema(BROKER_SAMPLE))


def _by_row(day_readings: BrokerReadings, measure: Measure) -> Mapping[int, int]:
    rows, values = day_readings.totals[measure]
    scale = MILLION if measure is Measure.REQUEST_IDLE else 1
    max_units = MILLION if measure is Measure.REQUEST_IDLE else MAX_UNITS
    return _whole_numbers(rows.to_pylist(), values.to_pylist(), scale, max_units)


def _whole_numbers(
    rows: Sequence[int], values: Sequence[float], scale: int, max_value: int
) -> dict[int, int]:
    """By row; what is not a number is not known. A counter comes before a gauge and counts."""
    values_by_row: dict[int, int] = {}
    for row, value in zip(rows, values, strict=True):
        if value == value:  # noqa: PLR0124 - not a number is never equal to itself
            values_by_row.setdefault(row, half_up(min(max(value * scale, 0.0), float(max_value))))
    return values_by_row
