"""Lakes with samples, written without Spark, and the rollups that the core computes from them."""

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from reconciler.evidence.analysis import rollup
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.table_store import opened
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import StoredDay, Unit, UnitContent
from reconciler.usage.samples import MAX_UNITS, Censored
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE, Table
from tests.fakes.clock import FakeClock
from tests.usage.reference import Sample, arrived, histogram, throttled_ms

FIRST = dt.date(2026, 11, 1)
DAY_MS = 86_400_000
EPOCH = dt.date(1970, 1, 1)
SERIES = ("quota_type", "group_kind", "user", "client_id", "ip", "broker_id")
Row = dict[str, Any]
Rows = dict[str, list[Row]]


def day(number: int) -> dt.date:
    """The first day, the next one, …"""
    return FIRST + dt.timedelta(days=number)


def lake(folder: Path, run_id: str = "test") -> Lake:
    """An empty lake in a folder."""
    return Lake(opened(str(folder), create=True), clock=FakeClock(), run_id=run_id)


def samples(
    cluster: str, on: dt.date, *, seed: int = 1, series: int = 4, each: int = 60
) -> list[Row]:
    """Rows of `usage_sample` with gaps, jitter, capped rates, missing, unknown and lingering throttling."""
    draw = random.Random(f"{cluster} {on} {seed}")
    start = (on - EPOCH).days * DAY_MS
    rows: list[Row] = []
    for number in range(series):
        kind = ("produce", "fetch", "request")[number % 3]
        ts = start + draw.randrange(30_000)
        for _ in range(each):
            step = 30_000 + draw.randrange(-1, 2) if draw.random() < 0.97 else 1_500_000
            ts += step
            if ts >= start + DAY_MS:
                break
            rows.append(
                {
                    "cluster_id": cluster,
                    "quota_type": kind,
                    "group_kind": "user",
                    "user": f"ünï user/{number}" if number else "a=b c%2F",
                    "client_id": "",
                    "ip": "",
                    "broker_id": str(number % 2),
                    "ts_ms": ts,
                    "dt_ms": min(step, 30_001),
                    "rate_units": draw.choice([0, 1, MAX_UNITS, int(2 ** draw.uniform(0, 43))]),
                    "throttle_ms": draw.choice([None, 0, 0, 5]),
                    "censored": draw.choice(["no", "no", "yes", "unknown"]),
                    "day": on,
                }
            )
    return rows


def commit(into: Lake, cluster: str, on: dt.date, rows: list[Row]) -> StoredDay:
    """Commit rows as the samples of a day."""
    unit = Unit(table=USAGE_SAMPLE, cluster_id=cluster, day=on)
    table = pa.Table.from_pylist(rows, schema=arrow_tables.schema(USAGE_SAMPLE))
    stored = into.replace(unit, UnitContent(rows=table))
    rollup.write(into, cluster, on)
    return stored


def rows_of(of: Lake, table: Table) -> list[Row]:
    """The rows of a table in a lake, sorted."""
    return of.read(of.days(table), table=table).to_pylist()


def sorted_rows(table: Table, rows: Iterable[Row]) -> list[Row]:
    """Rows by cluster, day and key, as in a lake."""
    keys = ("cluster_id", "day", *table.key)
    return sorted(rows, key=lambda row: tuple(_bytes(row[name]) for name in keys))


def _bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def expected(rows: Iterable[Row]) -> Rows:
    """Both rollups, by the functions of the core."""
    series: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        series[row["cluster_id"], row["day"], *(row[name] for name in SERIES)].append(row)
    fives: list[Row] = []
    hists: list[Row] = []
    for (cluster, on, *names), series_rows in series.items():
        common = {"cluster_id": cluster, "day": on, **dict(zip(SERIES, names, strict=True))}
        by_interval: defaultdict[int, list[Sample]] = defaultdict(list)
        every = [
            Sample(
                row["ts_ms"],
                row["dt_ms"],
                row["rate_units"],
                row["throttle_ms"],
                Censored(row["censored"]),
            )
            for row in sorted(series_rows, key=lambda row: row["ts_ms"])
        ]
        for sample in every:
            by_interval[sample.ts_ms // 300_000 * 300_000].append(sample)
        fives += [{**common, "bucket_ms": at, **_five(part)} for at, part in by_interval.items()]
        hists += [
            {**common, "bucket": bucket, "n_dt_ms": weight}
            for bucket, weight in histogram(every).items()
        ]
    return {
        "usage_5m": sorted_rows(USAGE_5M, fives),
        "usage_hist_d": sorted_rows(USAGE_HIST_D, hists),
    }


def _five(part: list[Sample]) -> Row:
    throttled_samples = [sample for sample in part if sample.throttle_ms]
    return {
        "n": len(part),
        "sum_dt_ms": sum(sample.dt_ms for sample in part),
        "sum_units": sum(map(arrived, part)),
        "max_rate_units": max(sample.rate_units for sample in part),
        "throttled_samples": len(throttled_samples),
        "throttled_ms": throttled_ms(part),
        "censored_ms": sum(sample.dt_ms for sample in part if sample.censored is Censored.YES),
    }
