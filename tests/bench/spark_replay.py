"""Measurements of replaying use, in a separate process: generated samples, and one query in several engines.

Run by `spark_simulate` as `python -m tests.bench.spark_replay WORDS`; prints JSON. The query is always the same: each
series under one limit, with sessions; throttled time, worst delay, delayed units and samples, summed up to one line,
which also serves to compare the engines.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.clock import SystemClock
from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.spark.tables import reader
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.store import sample_columns
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.object_store import opened
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.samples import DAY_MS, QuotaType, day_of
from reconciler.usage.tables import USAGE_SAMPLE

SERIES, STEP_MS, GAP_MS, LIMIT = 2_000, 30_000, 150_000, 6_000_000
CLUSTER = "bench"
BEGIN = 1_793_491_200_000
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
        _ = lake.commit(unit, UnitContent(rows=rows), None)


def opened_lake(folder: str) -> Lake:
    return Lake(opened(folder, create=True), clock=SystemClock())


def units_of(folder: str) -> tuple[Manifest, ...]:
    return opened_lake(folder).manifests(USAGE_SAMPLE)


def files_of(folder: str) -> list[str]:
    return [f"{folder}/{file.path}" for unit in units_of(folder) for file in unit.files]


_SCHEMA = ", ".join(f"{name} bigint" for name in FIGURES)


def _figures(every: Iterable[SampleSeries]) -> pa.Table:
    """The figures of some series, by the kernel."""
    forecasts = [simulate(QuotaType.PRODUCE, demand_of(series, GAP_MS), LIMIT) for series in every]
    return pa.Table.from_pylist(
        [{name: getattr(forecast, name) or 0 for name in FIGURES} for forecast in forecasts]
    )


def _of_runs(runs: pa.Table) -> pa.Table:
    return _figures(series_blocks.series_by(runs, ("user",)).values())


def _of_samples(samples: pa.Table) -> pa.Table:
    return _figures(series for _, series in sample_columns.series_by(samples, ("user",)))


def packed(spark: SparkSession, folder: str) -> DataFrame:
    """Shuffle runs of samples, as the jobs do."""
    samples = series_blocks.SampleFiles(
        spark=spark, lake=opened_lake(folder), units=units_of(folder), from_ms=0, to_ms=2**60
    )
    some = fn.floor(fn.col("user").cast("int") / 16).alias("some")
    return samples.runs().groupBy(some).applyInArrow(_of_runs, _SCHEMA)


def in_arrow(spark: SparkSession, folder: str) -> DataFrame:
    """Shuffle and sort samples, one Arrow table per series."""
    frame = reader.of(spark, opened_lake(folder), USAGE_SAMPLE, units_of(folder))
    return frame.groupBy("quota_type", "user").applyInArrow(_of_samples, _SCHEMA)


def summed(frame: DataFrame) -> list[int]:
    """One line with the result of a query, which must be equal for all engines."""
    row = frame.agg(
        fn.sum("samples"), fn.sum("throttled_ms"), fn.max("max_delay_ms"), fn.sum("delayed_units")
    ).first()
    assert row is not None
    return [int(value) for value in row]


# ---- engines without a JVM -------------------------------------------------------------------


def by_core(folder: str) -> list[int]:
    """Read by the store, folded by the kernel, series by series."""
    columns_read = ["user", "ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored"]
    rows = opened_lake(folder).read(units_of(folder), columns_read)
    columns = _of_samples(rows).to_pydict()
    totals = {
        name: max(values) if name.startswith("max") else sum(values)
        for name, values in columns.items()
    }
    return [totals[name] for name in FIGURES]


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

    connection = duckdb.connect(config={"threads": 2})
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
    "core": by_core,
    "duckdb": by_duckdb,
    "polars": by_polars,
}
IN_SPARK = {"packed": packed, "arrow": in_arrow}


def _timed(work: Callable[[], list[int]]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def print_figures(**figures: object) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures | {"rss_mb": round(peak)}))


def in_spark(folder: str, ways: list[str], rounds: int, master: str, memory: str) -> None:
    """Every way in turn, warm, in one session; without rounds, the first and only time."""
    with session.opened(SessionSettings(master=master, memory=memory)) as spark:
        first = {way: _timed(lambda way=way: summed(IN_SPARK[way](spark, folder))) for way in ways}
        answers = {tuple(answer) for _, answer in first.values()}
        assert len(answers) == 1, answers
        times: dict[str, list[float]] = {
            way: [] if rounds else [seconds] for way, (seconds, _) in first.items()
        }
        for _ in range(rounds):
            for way in ways:
                times[way].append(_timed(lambda way=way: summed(IN_SPARK[way](spark, folder)))[0])
    print_figures(seconds=times, answer=list(answers.pop()))


def main(words: list[str]) -> None:
    match words:
        case ["make", rows, folder]:
            write_samples(int(rows), folder)
        case ["spark", folder, ways, rounds, master, memory]:
            in_spark(folder, ways.split(","), int(rounds), master, memory)
        case [engine, folder, rounds] if engine in WITHOUT_JVM and Path(folder).exists():
            begin = time.process_time()
            runs = [_timed(lambda: WITHOUT_JVM[engine](folder)) for _ in range(int(rounds))]
            cpu_s = round((time.process_time() - begin) / int(rounds), 3)
            print_figures(
                seconds={engine: [seconds for seconds, _ in runs]}, answer=runs[0][1], cpu_s=cpu_s
            )
        case _:
            raise SystemExit(f"what is {words}?")


if __name__ == "__main__":
    main(sys.argv[1:])
