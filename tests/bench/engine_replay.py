"""Measurements of replaying use, in a separate process: generated samples, and one query in several engines.

Run by `replay` as `python -m tests.bench.engine_replay WORDS`; prints JSON. The query is always the same: each
series under one limit, with sessions; throttled time, worst delay, delayed units and samples, summed up to one line,
which also serves to compare the engines.
"""

import contextlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.clock import SystemClock
from reconciler.evidence.analysis.engine import Engine, LocalEngine, portions
from reconciler.evidence.spark.session_settings import SessionSettings
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.files.table_store import opened
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.samples import read_runs, recorded_series
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.samples import DAY_MS, QuotaType, day_of
from reconciler.usage.tables import USAGE_SAMPLE
from tests.bench.sample import memory

SERIES, STEP_MS, GAP_MS, LIMIT = 2_000, 30_000, 150_000, 6_000_000
CLUSTER = "bench"
BEGIN = 1_793_491_200_000
CORES = 2
FIGURES = ("samples", "throttled_ms", "max_delay_ms", "delayed_units")


def write_samples(rows: int, folder: str) -> None:
    """A lake: 2,000 series every 30 s, one unit for each day; every 500th sample follows a gap; rates by a hash."""
    lake = opened_lake(folder)
    names, series = (pa.array(sorted(map(str, range(SERIES)))), np.arange(SERIES))
    moments = np.arange(max(1, rows // SERIES))
    ts_ms = BEGIN + moments * STEP_MS + moments // 500 * 1_000_000
    for day in np.unique(ts_ms // DAY_MS):
        ts, of_day = np.tile(ts_ms[ts_ms // DAY_MS == day], SERIES), moments[ts_ms // DAY_MS == day]
        number = np.repeat(series, of_day.size)
        ids = (np.tile(of_day, SERIES) * SERIES + number).astype(np.uint64)
        rates = (ids * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
        schema, amount = arrow_tables.schema(USAGE_SAMPLE), ts.size
        same = {
            "cluster_id": CLUSTER,
            "quota_type": "produce",
            "group_kind": "user",
            "censored": "no",
        }
        columns = {
            **{name: pa.repeat(same.get(name, ""), amount) for name in (*same, "client_id", "ip")},
            "broker_id": pa.repeat("1", amount),
            "user": names.take(pa.array(number)),
            "ts_ms": ts,
            "dt_ms": np.full(amount, STEP_MS, np.int32),
            "rate_units": (rates % np.uint64(10_000_000)).astype(np.int64),
            "throttle_ms": pa.nulls(amount, pa.int64()),
            "day": pa.repeat(pa.scalar(int(day), pa.int32()).cast(pa.date32()), amount),
        }
        unit = Unit(table=USAGE_SAMPLE, cluster_id=CLUSTER, day=day_of(int(day) * DAY_MS))
        rows = pa.table(columns).select(schema.names).cast(schema)
        _ = lake.put(unit, UnitContent(rows=rows), None)


def opened_lake(folder: str) -> Lake:
    return Lake(opened(folder, create=True), clock=SystemClock())


def copy(folder: str, destination: str) -> None:
    """Copy a lake to another store."""
    lake, copied = opened_lake(folder), opened_lake(destination)
    for unit in lake.units(USAGE_SAMPLE):
        rows = lake.read(lake.days(USAGE_SAMPLE, None, unit.day, unit.day), table=USAGE_SAMPLE)
        _ = copied.put(unit, UnitContent(rows=rows), None)


def files_of(folder: str) -> list[str]:
    return [f"{folder}/{unit.path}" for unit in opened_lake(folder).units(USAGE_SAMPLE)]


SCHEMA = pa.schema([(name, pa.int64()) for name in FIGURES])


@dataclass(frozen=True)
class FiguresTask:
    """Some series, replayed by the kernel."""

    units: tuple[Unit, ...]
    keys: tuple[Key, ...]
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        files = [TableFile(lake.reader, unit.path, USAGE_SAMPLE) for unit in self.units]
        runs = read_runs(files, (0, 2**62), self.keys)
        forecasts = [
            simulate(QuotaType.PRODUCE, demand_of(runs.series(key), GAP_MS), LIMIT)
            for key in self.keys
        ]
        rows = [{name: getattr(each, name) or 0 for name in FIGURES} for each in forecasts]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""


def summed(engine: Engine, folder: str) -> list[int]:
    """One line with the result of a query, which must be equal for all engines."""
    lake = opened_lake(folder)
    days = lake.days(USAGE_SAMPLE)
    recorded = recorded_series(days)
    units = tuple(day.unit for day in days)
    tasks = [FiguresTask(units, *part) for part in portions(recorded, recorded.__getitem__)]
    rows = pa.concat_tables(engine.run(lake.store.at, tasks, SCHEMA, silent))
    totals = {name: pc.max if name.startswith("max") else pc.sum for name in FIGURES}
    return [total(rows[name]).as_py() for name, total in totals.items()]


def by_local(folder: str) -> list[int]:
    return summed(LocalEngine(CORES), folder)


# ---- peers -----------------------------------------------------------------------------------


_SQL = f"""
WITH samples AS (SELECT CAST("user" AS INTEGER) AS series, ts_ms, dt_ms, rate_units FROM read_parquet({{files}})),
looked AS (
  SELECT series, ts_ms, dt_ms,
    CAST((rate_units * dt_ms + 500) // 1000 AS HUGEINT) AS a, (CAST({LIMIT} AS BIGINT) * dt_ms) // 1000 AS g,
    CASE WHEN lag(ts_ms) OVER w IS NULL OR ts_ms - lag(ts_ms) OVER w > {GAP_MS} THEN 1 ELSE 0 END AS fresh
  FROM samples WINDOW w AS (PARTITION BY series ORDER BY ts_ms)),
summed AS (SELECT *, sum(fresh) OVER w AS s, sum(a - g) OVER w AS total
  FROM looked WINDOW w AS (PARTITION BY series ORDER BY ts_ms ROWS UNBOUNDED PRECEDING)),
folded AS (SELECT *, total - min(least(total, total - (a - g))) OVER
    (PARTITION BY series, s ORDER BY ts_ms ROWS UNBOUNDED PRECEDING) AS b FROM summed)
SELECT count(*), sum(CASE WHEN b >= {LIMIT} THEN dt_ms ELSE 0 END), max(b) * 1000 // {LIMIT}, sum(least(a, b)) FROM folded
"""  # noqa: S608 - constants of this file


def by_duckdb(folder: str) -> list[int]:
    import duckdb

    connection = duckdb.connect(config={"threads": CORES})
    row = connection.execute(_SQL.replace("{files}", str(files_of(folder)))).fetchone()
    assert row is not None
    return [int(value) for value in row]


def by_polars(folder: str) -> list[int]:
    import polars as pl

    total = pl.col("x").cum_sum()
    frame = (
        pl.scan_parquet(files_of(folder))
        .with_columns(series=pl.col("user").cast(pl.Int32))
        .sort("series", "ts_ms")
        .with_columns(
            a=(pl.col("rate_units") * pl.col("dt_ms") + 500) // 1000,
            fresh=(pl.col("ts_ms").diff().over("series").fill_null(GAP_MS + 1) > GAP_MS),
        )
        .with_columns(
            x=pl.col("a") - (LIMIT * pl.col("dt_ms").cast(pl.Int64)) // 1000,
            s=pl.col("fresh").cast(pl.Int64).cum_sum(),
        )
        .with_columns(total=total.over("s"))
        .with_columns(low=pl.min_horizontal("total", pl.col("total") - pl.col("x")))
        .with_columns(b=pl.col("total") - pl.col("low").cum_min().over("s"))
        .select(
            pl.len(),
            pl.when(pl.col("b") >= LIMIT).then(pl.col("dt_ms")).otherwise(0).cast(pl.Int64).sum(),
            (pl.col("b").max() * 1000 // LIMIT).alias("worst"),
            pl.min_horizontal("a", "b").sum().alias("delayed"),
        )
        .collect()
    )
    return [int(value) for value in frame.row(0)]


WITHOUT_JVM: dict[str, Callable[[str], list[int]]] = {
    "local": by_local,
    "duckdb": by_duckdb,
    "polars": by_polars,
}


def _timed(work: Callable[[], list[int]]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def tree(pid: int) -> list[int]:
    """A process and those that it started, which still run."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(process for child in children for process in tree(child))]


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it started."""
    ticks = 0
    for process in tree(os.getpid()):
        with contextlib.suppress(OSError):
            numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, numbers[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def print_figures(engine: str, work: Callable[[], list[int]], rounds: int) -> None:
    """Measure some rounds after those that warm up, and print their medians."""
    first = work() if rounds > 1 else None
    began = cpu_seconds()
    runs = [_timed(work) for _ in range(max(1, rounds - 1))]
    cpu_s = (cpu_seconds() - began) / len(runs)
    own, child = memory("VmHWM"), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if first is not None and first != runs[0][1]:
        raise SystemExit(f"{engine} answers {first}, then {runs[0][1]}")
    figures = {
        "wall": statistics.median(seconds for seconds, _ in runs),
        "cpu": round(cpu_s, 3),
        "rss_mb": round((own + CORES * child) / 1024),
    }
    print(json.dumps({"figures": figures, "answer": runs[0][1]}))


def in_spark(folder: str, rounds: int, settings: SessionSettings) -> None:
    """Warm, in one session."""
    from reconciler.evidence.spark import engine as spark_engine

    with spark_engine.opened(settings) as engine:
        print_figures("spark", lambda: summed(engine, folder), rounds)


def main(words: list[str]) -> None:
    match words:
        case ["make", rows, folder]:
            write_samples(int(rows), folder)
        case ["spark", folder, rounds, memory, master]:
            in_spark(folder, int(rounds), SessionSettings(master=master, memory=memory))
        case [engine, folder, rounds] if engine in WITHOUT_JVM:
            print_figures(engine, lambda: WITHOUT_JVM[engine](folder), int(rounds))
        case _:
            raise SystemExit(f"what is {words}?")


if __name__ == "__main__":
    main(sys.argv[1:])
