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

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.store import sample_columns
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.samples import DAY_MS, QuotaType

SERIES, STEP_MS, GAP_MS, LIMIT = 2_000, 30_000, 150_000, 6_000_000
KEYS = ("quota_type", "series")
BEGIN = 1_793_491_200_000
FIGURES = ("samples", "throttled_ms", "max_delay_ms", "delayed_units")


def write_samples(spark: SparkSession, rows: int, folder: str) -> None:
    """2,000 series every 30 s; every 500th sample follows a gap; rates by a hash. Sorted by series within a day."""
    n, series = fn.floor(fn.col("id") / SERIES), fn.col("id") % SERIES
    ts = (n * STEP_MS + fn.floor(n / 500) * 1_000_000).cast("bigint") + fn.lit(BEGIN)
    frame = spark.range(0, rows, 1, 8).select(
        fn.lit("produce").alias("quota_type"),
        series.cast("int").alias("series"),
        ts.alias("ts_ms"),
        fn.lit(STEP_MS).alias("dt_ms"),
        (fn.abs(fn.hash("id")).cast("bigint") % 10_000_000).alias("rate_units"),
    )
    day = fn.floor(fn.col("ts_ms") / DAY_MS)
    frame_by_day = frame.withColumn("day", day).repartitionByRange(8, "day")
    frame_by_day.sortWithinPartitions("day", "series", "ts_ms").drop("day").write.mode(
        "overwrite"
    ).parquet(folder)


def read(spark: SparkSession, folder: str) -> DataFrame:
    none = fn.lit(None).cast("bigint").alias("throttle_ms")
    return spark.read.parquet(folder).select("*", none, fn.lit("no").alias("censored"))


_SCHEMA = ", ".join(f"{name} bigint" for name in FIGURES)


def _figures(every: Iterable[SampleSeries]) -> pa.Table:
    """The figures of some series, by the kernel."""
    forecasts = [simulate(QuotaType.PRODUCE, demand_of(series, GAP_MS), LIMIT) for series in every]
    return pa.Table.from_pylist(
        [{name: getattr(forecast, name) or 0 for name in FIGURES} for forecast in forecasts]
    )


def _of_runs(runs: pa.Table) -> pa.Table:
    return _figures(series_blocks.series_by(runs, KEYS[1:]).values())


def _of_samples(samples: pa.Table) -> pa.Table:
    return _figures(series for _, series in sample_columns.series_by(samples, KEYS[1:]))


def packed(frame: DataFrame) -> DataFrame:
    """Shuffle runs of samples, as the jobs do."""
    blocks = series_blocks.packed(frame, KEYS[1:])
    some = fn.floor(fn.col("series") / 16).alias("some")
    return blocks.groupBy(some).applyInArrow(_of_runs, _SCHEMA)


def in_arrow(frame: DataFrame) -> DataFrame:
    """Shuffle and sort samples, one Arrow table per series."""
    return frame.groupBy(*KEYS).applyInArrow(_of_samples, _SCHEMA)


def summed(frame: DataFrame) -> list[int]:
    """One line with the result of a query, which must be equal for all engines."""
    row = frame.agg(
        fn.sum("samples"), fn.sum("throttled_ms"), fn.max("max_delay_ms"), fn.sum("delayed_units")
    ).first()
    assert row is not None
    return [int(value) for value in row]


# ---- engines without a JVM -------------------------------------------------------------------


def by_core(folder: str) -> list[int]:
    """Read by Arrow, folded by the kernel, series by series."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder, columns=["series", "ts_ms", "dt_ms", "rate_units"])
    none = pa.nulls(table.num_rows, pa.int64())
    table = table.append_column("throttle_ms", none)
    table = table.append_column("censored", pa.repeat("no", table.num_rows))
    columns = _of_samples(table).to_pydict()
    totals = {
        name: max(values) if name.startswith("max") else sum(values)
        for name, values in columns.items()
    }
    return [totals[name] for name in FIGURES]


_SQL = f"""
WITH looked AS (
  SELECT series, ts_ms, dt_ms,
    CAST((rate_units * dt_ms + 500) // 1000 AS HUGEINT) AS a, (CAST({LIMIT} AS BIGINT) * dt_ms) // 1000 AS g,
    CASE WHEN lag(ts_ms) OVER w IS NULL OR ts_ms - lag(ts_ms) OVER w > {GAP_MS} THEN 1 ELSE 0 END AS fresh
  FROM read_parquet('{{folder}}/*.parquet') WINDOW w AS (PARTITION BY series ORDER BY ts_ms)),
summed AS (SELECT *, sum(fresh) OVER w AS s, sum(a - g) OVER w AS total
  FROM looked WINDOW w AS (PARTITION BY series ORDER BY ts_ms ROWS UNBOUNDED PRECEDING)),
folded AS (SELECT *, total - min(least(total, total - (a - g))) OVER
    (PARTITION BY series, s ORDER BY ts_ms ROWS UNBOUNDED PRECEDING) AS b FROM summed)
SELECT count(*), sum(CASE WHEN b >= {LIMIT} THEN dt_ms ELSE 0 END), max(b) * 1000 // {LIMIT}, sum(least(a, b)) FROM folded
"""  # noqa: S608 - constants of this file


def by_duckdb(folder: str) -> list[int]:
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    row = connection.execute(_SQL.replace("{folder}", folder)).fetchone()
    assert row is not None
    return [int(value) for value in row]


def by_polars(folder: str) -> list[int]:
    import polars as pl

    total = pl.col("x").cum_sum()
    frame = (
        pl.scan_parquet(f"{folder}/*.parquet")
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
    with session.opened(session.SessionSettings(master=master, memory=memory)) as spark:
        frame = read(spark, folder)
        first = {way: _timed(lambda way=way: summed(IN_SPARK[way](frame))) for way in ways}
        answers = {tuple(answer) for _, answer in first.values()}
        assert len(answers) == 1, answers
        times: dict[str, list[float]] = {
            way: [] if rounds else [seconds] for way, (seconds, _) in first.items()
        }
        for _ in range(rounds):
            for way in ways:
                times[way].append(_timed(lambda way=way: summed(IN_SPARK[way](frame)))[0])
    print_figures(seconds=times, answer=list(answers.pop()))


def main(words: list[str]) -> None:
    match words:
        case ["make", rows, folder]:
            with session.opened(session.SessionSettings(master="local[2]", memory="2g")) as spark:
                write_samples(spark, int(rows), folder)
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
