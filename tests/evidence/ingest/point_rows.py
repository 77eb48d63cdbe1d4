"""Points for tests in short notation: brokers that answer every 30 s, buckets with rates and delays."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

import pyarrow as pa

from reconciler.evidence.ingest import day_tables, limit_history
from reconciler.evidence.ingest.broker_readings import DayCarryover
from reconciler.evidence.ingest.cluster_sources import SampleOrigin, ScrapeTarget
from reconciler.evidence.ingest.dialect import SeriesNames
from reconciler.evidence.ingest.points import Points, PointSeries
from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.usage.samples import Cadence, cadence, start_of
from reconciler.usage.tables import Measure

DAY = date(2026, 1, 2)
START = start_of(DAY)
STEP = 30_000
PACE = cadence(STEP)
NAN = float("nan")

Row = tuple[str | ScrapeTarget, str, str, str, str, str, str, int, float]


def times(count: int, *, begin: int = START, step: int = STEP) -> list[int]:
    return [begin + step * number for number in range(count)]


def gauge(
    measure: str,
    at: Sequence[int],
    values: Iterable[float] | float,
    *,
    instance: str | ScrapeTarget = "b1:7071",
    replica: str = "",
    kind: str = "",
    user: str = "",
    client_id: str = "",
    ip: str = "",
) -> list[Row]:
    """One series: a value for each time, or the same value at each."""
    several = [values] * len(at) if isinstance(values, int | float) else list(values)
    return [
        (instance, replica, measure, kind, user, client_id, ip, ts, float(value))
        for ts, value in zip(at, several, strict=True)
    ]


def broker(
    number: int, at: Sequence[int], *, instance: str | ScrapeTarget = "", replica: str = ""
) -> list[Row]:
    """A broker that answers with its identity."""
    name = instance or f"b{number}:7071"
    return [
        *gauge("up", at, 1, instance=name, replica=replica),
        *gauge("broker_id", at, number, instance=name, replica=replica),
    ]


def points(rows: Iterable[Row]) -> Points:
    """The points of one cluster."""
    series: dict[PointSeries, int] = {}
    columns: list[tuple[int, int, float]] = []
    for instance, replica, measure, kind, user, client_id, ip, ts, value in rows:
        target = instance if isinstance(instance, ScrapeTarget) else ScrapeTarget(instance)
        names = SeriesNames(Measure(measure), kind, user, client_id, ip)
        key = PointSeries(names, SampleOrigin(target, replica))
        columns.append((series.setdefault(key, len(series)), ts, value))
    numbers, at, values = zip(*columns, strict=True) if columns else ((), (), ())
    return Points.of(
        series,
        pa.table(
            {
                "series": pa.array(numbers, pa.int64()),
                "ts_ms": pa.array(at, pa.int64()),
                "value": pa.array(values, pa.float64()),
            }
        ),
    )


def day(
    rows: Iterable[Row],
    *,
    looks: Sequence[LimitSnapshot] = (),
    before: DayCarryover | None = None,
    pace: Cadence = PACE,
    on: date = DAY,
) -> day_tables.AssembledDay:
    return day_tables.assembled(
        "c", on, points(rows), pace=pace, before=before, limits=limit_history.LimitHistory(looks)
    )


def usage(done: day_tables.AssembledDay, **values: str) -> list[Mapping[str, object]]:
    """Samples as mappings; only those with these values."""
    return [
        row
        for row in done.usage.to_pylist()
        if all(row[name] == value for name, value in values.items())
    ]


def column(done: day_tables.AssembledDay, name: str, **values: str) -> list[object]:
    return [row[name] for row in usage(done, **values)]
