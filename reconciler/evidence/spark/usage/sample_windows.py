"""Windows of several clusters: their samples as one frame, and the evidence of each window."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import reader
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import facts
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.recorded_window import RecordedWindow
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.tables import USAGE_SAMPLE


def samples(spark: SparkSession, lake: Lake, windows: Sequence[RecordedWindow]) -> DataFrame:
    """Return the samples of all windows, which have the same time span."""
    ts = fn.col("ts_ms")
    units = [unit for window in windows for unit in window.samples]
    in_window = (ts >= windows[0].from_ms) & (ts < windows[0].to_ms)
    return reader.of(spark, lake, USAGE_SAMPLE, units).where(in_window)


def evidence(
    spark: SparkSession, lake: Lake, windows: Sequence[RecordedWindow], *, source: str, now_ms: int
) -> tuple[EvidenceNote, ...]:
    """Return the evidence of each window, including coverage."""
    span = TimeWindow(from_ms=windows[0].from_ms, to_ms=windows[0].to_ms)
    covered = facts.covered_ppm(spark, lake, [window.cluster_id for window in windows], span)
    return tuple(
        window.note(source, now_ms, covered.get(window.cluster_id, 0)) for window in windows
    )
