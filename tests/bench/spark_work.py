"""Measurements of sessions, in a separate process: a tiny query, or rollups of many samples, warm.

Run by `spark_start`, as a script or as the main file of spark-submit, so it imports nothing of the tests. Prints
JSON, or writes it to a file.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.spark.usage import rollup
from reconciler.usage.tables import USAGE_SAMPLE

SERIES, STEP_MS, FILES = 2_000, 30_000, 8


def tiny(spark: SparkSession) -> None:
    """The query of T1: a thousand rows, seven groups."""
    rows = spark.range(1000).groupBy((fn.col("id") % 7).alias("k")).count().collect()
    assert len(rows) == 7


def default_start() -> None:
    """PySpark with default settings and two threads."""
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    tiny(spark)
    spark.stop()


def tuned_start(*, brief: bool) -> None:
    """PySpark with the settings of kquota."""
    settings = SessionSettings(master="local[2]", brief=brief)
    with session.opened(settings) as spark:
        tiny(spark)


def write_samples(spark: SparkSession, rows: int, folder: str) -> None:
    """Samples of 2,000 series, every 30 s, in files of equal size."""
    number, series = fn.col("id"), (fn.col("id") % SERIES).cast("string")
    ts = (fn.floor(number / SERIES) * STEP_MS).cast("bigint") + fn.lit(1_793_491_200_000)
    columns = {
        "cluster_id": fn.lit("bench"),
        "quota_type": fn.lit("produce"),
        "group_kind": fn.lit("user"),
        "user": fn.concat(fn.lit("user-"), series),
        "client_id": fn.lit(""),
        "ip": fn.lit(""),
        "broker_id": fn.lit("1"),
        "ts_ms": ts,
        "dt_ms": fn.lit(STEP_MS),
        "rate_units": fn.abs(fn.hash("id")).cast("bigint") % 10_000_000,
        "throttle_ms": fn.when(number % 50 == 0, fn.lit(20)).cast("bigint"),
        "censored": fn.lit("no"),
        "day": fn.date_from_unix_date(fn.floor(ts / 86_400_000).cast("int")),
    }
    frame = spark.range(0, rows, 1, FILES).select(
        *(column.alias(name) for name, column in columns.items())
    )
    schemas.conforming(frame, USAGE_SAMPLE).write.mode("overwrite").parquet(folder)


def seconds(spark: SparkSession, folder: str, repeats: int = 3) -> float:
    """Both rollups of all rows, the best of some warm runs."""

    def once() -> float:
        start = time.perf_counter()
        samples: DataFrame = spark.read.schema(schemas.struct(USAGE_SAMPLE)).parquet(folder)
        for frame in (rollup.usage_5m(samples), rollup.usage_hist_d(samples)):
            frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    once()
    return min(once() for _ in range(repeats))


def main(words: list[str]) -> None:
    match words:
        case ["start", "default"]:
            default_start()
        case ["start", kind]:
            tuned_start(brief="brief" in kind)
        case ["make", rows, folder]:
            with session.opened(SessionSettings(master="local[2]", memory="2g")) as spark:
                write_samples(spark, int(rows), folder)
        case ["local", cores, folder]:
            with session.opened(SessionSettings(master=f"local[{cores}]", memory="2g")) as spark:
                print(json.dumps({"seconds": seconds(spark, folder)}))
        case ["submitted", folder, output]:
            with session.opened(SessionSettings()) as spark:
                Path(output).write_text(
                    json.dumps({"seconds": seconds(spark, folder)}), encoding="utf-8"
                )
        case _:
            raise SystemExit(
                "start KIND | make ROWS FOLDER | local CORES FOLDER | submitted FOLDER OUTPUT"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
