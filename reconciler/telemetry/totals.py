"""What brokers did in all, and when they were asked: rows of broker_sample and target_up."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import pyarrow as pa

from reconciler.lake import arrow
from reconciler.telemetry.readings import Carry, Readings
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
    cluster_id: str, day: date, found: Readings, before: Carry, pace: Cadence
) -> pa.Table:
    """When each broker was asked and whether it answered, sorted. A scrape stands for the time since the one before it."""
    made: dict[str, list[object]] = {name: [] for name in TARGET_UP.names}
    for broker in sorted({*found.rows, *found.failed} - {CONTROLLER}):
        answered = [found.moments[row].ts_ms for row in found.rows.get(broker, ())]
        asked = dict.fromkeys(found.failed.get(broker, ()), False) | dict.fromkeys(answered, True)
        times = sorted(asked)
        made["cluster_id"] += [cluster_id] * len(times)
        made["broker_id"] += [broker] * len(times)
        made["ts_ms"] += times
        made["dt_ms"] += spans(times, pace, before.last.get(broker))
        made["up"] += [asked[ts] for ts in times]
        made["day"] += [day] * len(times)
    return pa.table(made, schema=arrow.schema(TARGET_UP))


def broker_samples(
    cluster_id: str, day: date, found: Readings, before: Carry, pace: Cadence
) -> pa.Table:
    """What each broker did, per second, at each moment of which anything is known, sorted."""
    read = {name: _by_row(found, measure) for name, measure in _COLUMNS.items()}
    made: dict[str, list[object]] = {name: [] for name in BROKER_SAMPLE.names}
    for broker, rows in sorted(found.rows.items()):
        known = [row for row in rows if any(row in values for values in read.values())]
        times = [found.moments[row].ts_ms for row in known]
        made["cluster_id"] += [cluster_id] * len(times)
        made["broker_id"] += [broker] * len(times)
        made["ts_ms"] += times
        made["dt_ms"] += spans(times, pace, before.last.get(broker))
        for name, values in read.items():
            made[name] += [values.get(row) for row in known]
        made["day"] += [day] * len(times)
    return pa.table(made, schema=arrow.schema(BROKER_SAMPLE))


def _by_row(found: Readings, measure: Measure) -> Mapping[int, int]:
    rows, values = found.totals[measure]
    scale = MILLION if measure is Measure.REQUEST_IDLE else 1
    most = MILLION if measure is Measure.REQUEST_IDLE else MAX_UNITS
    return _whole_numbers(rows.to_pylist(), values.to_pylist(), scale, most)


def _whole_numbers(
    rows: Sequence[int], values: Sequence[float], scale: int, most: int
) -> dict[int, int]:
    """By row; what is not a number is not known. A counter comes before a gauge and counts."""
    found: dict[int, int] = {}
    for row, value in zip(rows, values, strict=True):
        if value == value:  # noqa: PLR0124 - not a number is never equal to itself
            found.setdefault(row, half_up(min(max(value * scale, 0.0), float(most))))
    return found
