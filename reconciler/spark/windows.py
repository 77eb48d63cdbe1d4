"""Windows of many clusters at once: their samples as one frame, and what each window is worth as evidence."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.lake.lake import Lake
from reconciler.lake.looks import day_of
from reconciler.lake.replay import Replay
from reconciler.spark import bounded, reading
from reconciler.usage.findings import Evidence
from reconciler.usage.samples import MILLION
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE

MOST_CLUSTERS: Final = 100_000


def samples(spark: SparkSession, lake: Lake, windows: Sequence[Replay]) -> DataFrame:
    """The samples of all windows, which are of one span of time."""
    ts = fn.col("ts_ms")
    units = [unit for one in windows for unit in one.samples]
    inside = (ts >= windows[0].from_ms) & (ts < windows[0].to_ms)
    return reading.of(spark, lake, USAGE_SAMPLE, units).where(inside)


def evidence(
    spark: SparkSession, lake: Lake, windows: Sequence[Replay], *, source: str, now_ms: int
) -> tuple[Evidence, ...]:
    """What each window is worth, coverage included."""
    clusters = [one.cluster_id for one in windows]
    begin, end = windows[0].from_ms, windows[0].to_ms
    first, last = day_of(begin), day_of(end - 1)
    up = reading.frame(spark, lake, TARGET_UP, clusters, from_day=first, to_day=last)
    ts = fn.col("ts_ms")
    each = (
        up.where((ts >= begin) & (ts < end) & fn.col("up"))
        .groupBy("cluster_id", "broker_id")
        .agg(fn.sum("dt_ms").alias("covered"))
        .groupBy("cluster_id")
        .agg(fn.min("covered").alias("covered"))
    )
    whole = end - begin
    covered = {
        row["cluster_id"]: min(MILLION, row["covered"] * MILLION // whole)
        for row in bounded.rows(each, MOST_CLUSTERS, "clusters")
    }
    return tuple(one.note(source, now_ms, covered.get(one.cluster_id, 0)) for one in windows)
