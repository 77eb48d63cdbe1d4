"""What the figures of replaying use measure, in a process of its own: samples made, and one question in many engines.

Run by `spark_simulate` as `python -m tests.bench.spark_replay WORDS`; prints JSON. The question is always the same: each
series under one limit, sessions included; throttled time, worst delay, delayed units, and samples, summed up to one line,
by which the engines are compared, too.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.usage import throttle_windows
from reconciler.usage.samples import Censored, QuotaType, Sample
from reconciler.usage.throttle_models import arrivals, simulate

SERIES, STEP_MS, GAP_MS, LIMIT = 2_000, 30_000, 150_000, 6_000_000
KEYS = ("quota_type", "series")
BEGIN = 1_793_491_200_000
FIGURES = ("samples", "throttled_ms", "max_delay_ms", "delayed_units")


def made(spark: SparkSession, rows: int, folder: str) -> None:
    """2,000 series every 30 s; every 500th sample follows a gap; rates of all sizes by a hash."""
    n, series = fn.floor(fn.col("id") / SERIES), fn.col("id") % SERIES
    ts = (n * STEP_MS + fn.floor(n / 500) * 1_000_000).cast("bigint") + fn.lit(BEGIN)
    frame = spark.range(0, rows, 1, 8).select(
        fn.lit("produce").alias("quota_type"),
        series.cast("int").alias("series"),
        ts.alias("ts_ms"),
        fn.lit(STEP_MS).alias("dt_ms"),
        (fn.abs(fn.hash("id")).cast("bigint") % 10_000_000).alias("rate_units"),
    )
    frame.write.mode("overwrite").parquet(folder)


def read(spark: SparkSession, folder: str) -> DataFrame:
    return spark.read.parquet(folder)


def native(frame: DataFrame) -> DataFrame:
    limit = {"q": fn.lit(LIMIT).cast("bigint")}
    found = throttle_windows.forecasts(frame, KEYS, limit, fn.lit(GAP_MS))
    return found.select("samples", *(f"q.{name}" for name in FIGURES[1:]))


def _core(samples: list[Sample]) -> dict[str, int]:
    found = simulate(QuotaType.PRODUCE, arrivals(samples, GAP_MS), LIMIT)
    return {name: getattr(found, name) or 0 for name in FIGURES}


_SCHEMA = ", ".join(f"{name} bigint" for name in FIGURES)


def in_arrow(frame: DataFrame) -> DataFrame:
    """The same recursion in Python, one Arrow table per series."""
    import pyarrow as pa

    def grouped(table: "pa.Table") -> "pa.Table":
        table = table.sort_by("ts_ms")
        columns = [table.column(name).to_pylist() for name in ("ts_ms", "dt_ms", "rate_units")]
        samples = [Sample(*one, 0, Censored.NO) for one in zip(*columns, strict=True)]
        return pa.Table.from_pylist([_core(samples)])

    return frame.groupBy(*KEYS).applyInArrow(grouped, _SCHEMA)


def in_pandas(frame: DataFrame) -> DataFrame:
    """The same, one pandas frame per series."""
    import pandas as pd

    def grouped(table: "pd.DataFrame") -> "pd.DataFrame":
        table = table.sort_values("ts_ms")
        columns = [table[name].tolist() for name in ("ts_ms", "dt_ms", "rate_units")]
        samples = [Sample(*one, 0, Censored.NO) for one in zip(*columns, strict=True)]
        return pd.DataFrame([_core(samples)])

    return frame.groupBy(*KEYS).applyInPandas(grouped, _SCHEMA)


def summed(frame: DataFrame) -> list[int]:
    """One line of a question: what every engine has to agree on."""
    row = frame.agg(
        fn.sum("samples"), fn.sum("throttled_ms"), fn.max("max_delay_ms"), fn.sum("delayed_units")
    ).first()
    assert row is not None
    return [int(one) for one in row]


# ---- engines without a JVM -------------------------------------------------------------------


def by_core(folder: str) -> list[int]:
    """Read by Arrow, folded in Python, series by series."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    totals = [0, 0, 0, 0]
    table = pq.read_table(folder).sort_by([("series", "ascending"), ("ts_ms", "ascending")])
    for samples in _each_series(table, pc):
        found = _core(samples)
        totals = [
            totals[0] + found["samples"],
            totals[1] + found["throttled_ms"],
            max(totals[2], found["max_delay_ms"]),
            totals[3] + found["delayed_units"],
        ]
    return totals


def _each_series(table: object, pc: object) -> Iterator[list[Sample]]:
    counts = table.column("series").value_counts().to_pylist()  # type: ignore[attr-defined]
    begin = 0
    for one in sorted(counts, key=lambda each: each["values"]):
        part = table.slice(begin, one["counts"])  # type: ignore[attr-defined]
        columns = [part.column(name).to_pylist() for name in ("ts_ms", "dt_ms", "rate_units")]
        yield [Sample(*each, 0, Censored.NO) for each in zip(*columns, strict=True)]
        begin += one["counts"]


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
    return [int(one) for one in row]


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
    return [int(one) for one in frame.row(0)]


WITHOUT_JVM: dict[str, Callable[[str], list[int]]] = {
    "core": by_core,
    "duckdb": by_duckdb,
    "polars": by_polars,
}
IN_SPARK = {"native": native, "arrow": in_arrow, "pandas": in_pandas}


def _timed(work: Callable[[], list[int]]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def told(**figures: object) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures | {"rss_mb": round(peak)}))


def in_spark(folder: str, ways: list[str], rounds: int, master: str, memory: str) -> None:
    """Every way in turn, warm, in one session; without rounds, the first and only time is told."""
    with session.opened(session.SessionSettings(master=master, memory=memory)) as spark:
        frame = read(spark, folder)
        first = {way: _timed(lambda way=way: summed(IN_SPARK[way](frame))) for way in ways}
        answers = {tuple(answer) for _, answer in first.values()}
        assert len(answers) == 1, answers
        taken: dict[str, list[float]] = {
            way: [] if rounds else [seconds] for way, (seconds, _) in first.items()
        }
        for _ in range(rounds):
            for way in ways:
                taken[way].append(_timed(lambda way=way: summed(IN_SPARK[way](frame)))[0])
    told(seconds=taken, answer=list(answers.pop()))


def main(words: list[str]) -> None:
    match words:
        case ["make", rows, folder]:
            with session.opened(session.SessionSettings(master="local[2]", memory="2g")) as spark:
                made(spark, int(rows), folder)
        case ["spark", folder, ways, rounds, master, memory]:
            in_spark(folder, ways.split(","), int(rounds), master, memory)
        case [engine, folder, rounds] if engine in WITHOUT_JVM and Path(folder).exists():
            taken = [_timed(lambda: WITHOUT_JVM[engine](folder)) for _ in range(int(rounds))]
            told(seconds={engine: [seconds for seconds, _ in taken]}, answer=taken[0][1])
        case _:
            raise SystemExit(f"what is {words}?")


if __name__ == "__main__":
    main(sys.argv[1:])
