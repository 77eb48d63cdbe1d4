"""Windows of many clusters at once: their samples as one frame, and what each window is worth as evidence."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.lake.lake import Lake
from reconciler.lake.replay import Replay
from reconciler.spark import facts, reading
from reconciler.spark.span import Span
from reconciler.usage.findings import Evidence
from reconciler.usage.tables import USAGE_SAMPLE


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
    span = Span(from_ms=windows[0].from_ms, to_ms=windows[0].to_ms)
    covered = facts.covered_ppm(spark, lake, [one.cluster_id for one in windows], span)
    return tuple(one.note(source, now_ms, covered.get(one.cluster_id, 0)) for one in windows)
