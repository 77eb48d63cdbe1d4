"""Windows of several clusters: their samples as one frame, and the evidence of each window."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import reader
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.recorded_window import RecordedWindow
from reconciler.usage.tables import USAGE_SAMPLE


def samples(spark: SparkSession, lake: Lake, windows: Sequence[RecordedWindow]) -> DataFrame:
    """Return the samples of all windows, which have the same time span."""
    ts = fn.col("ts_ms")
    units = [unit for window in windows for unit in window.samples]
    in_window = (ts >= windows[0].from_ms) & (ts < windows[0].to_ms)
    return reader.of(spark, lake, USAGE_SAMPLE, units).where(in_window)
