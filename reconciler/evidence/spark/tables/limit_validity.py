"""The periods in which each limit was seen.

Snapshots are points in time; changes between two of them are unknown. So a limit is valid from the snapshot that first
has it, and the time since the snapshot before is uncertain. Only a complete snapshot without the limit ends it.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.usage.tables import QUOTA_VALIDITY

_PAIR: Final = ("cluster_id", "entity_json", "quota_key")


def quota_validity(entries: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the period of each value of a limit: rows of ``quota_validity``. One exchange and one sort of the entries.

    Args:
        entries: ``quota_entry`` of all snapshots.
        snapshots: ``snapshot`` of the same.
    """
    dated_entries = entries.drop("observed_at_ms").join(
        fn.broadcast(_with_neighbours(snapshots)), ["cluster_id", "snapshot_id"]
    )
    along = Window.partitionBy(*_PAIR).orderBy("observed_at_ms", "snapshot_id")
    limit_window = along.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = fn.lag("observed_at_ms").over(along)
    missed = (
        fn.col("whole_looks") - fn.col("complete").cast("int") - fn.lag("whole_looks").over(along)
    )
    is_same_value = fn.col("value") == fn.lag("value").over(along)
    marked = (
        dated_entries.withColumn("before_ms", before)
        .withColumn("before_next_ms", fn.lag("next_whole_ms").over(along))
        .withColumn("missed", missed)
        .withColumn("begins", fn.coalesce((missed > 0) | ~is_same_value, before.isNull()))
        .withColumn("last_ms", fn.last("observed_at_ms").over(limit_window))
        .withColumn("last_next_ms", fn.last("next_whole_ms").over(limit_window))
        .where("begins")
    )
    next_from = fn.lead("observed_at_ms").over(along)
    next_missed = fn.lead("missed").over(along)
    ended = (
        fn.when(next_from.isNull(), fn.col("last_next_ms"))
        .when(next_missed == 0, next_from)
        .otherwise(fn.lead("before_next_ms").over(along))
    )
    last = fn.coalesce(fn.lead("before_ms").over(along), fn.col("last_ms"))
    validity_periods = (
        marked.withColumn("valid_to_ms", ended)
        .withColumn("valid_to_after_ms", fn.when(ended.isNotNull(), last))
        .withColumn(
            "valid_from_after_ms",
            fn.when(fn.col("missed") == 0, fn.col("before_ms")).otherwise(
                fn.coalesce("before_whole_ms", fn.lit(0))
            ),
        )
        .withColumnRenamed("observed_at_ms", "valid_from_ms")
    )
    return conforming(validity_periods, QUOTA_VALIDITY)


def _with_neighbours(snapshots: DataFrame) -> DataFrame:
    """Add to each snapshot the number of complete ones so far, and the complete ones before and after. A few rows per cluster and day."""
    along = Window.partitionBy("cluster_id").orderBy("observed_at_ms", "snapshot_id")
    until = along.rowsBetween(Window.unboundedPreceding, 0)
    before_window = along.rowsBetween(Window.unboundedPreceding, -1)
    after_window = along.rowsBetween(1, Window.unboundedFollowing)
    whole_ms = fn.when(fn.col("complete"), fn.col("observed_at_ms"))
    return snapshots.select(
        "cluster_id",
        "snapshot_id",
        "observed_at_ms",
        "complete",
        fn.sum(fn.col("complete").cast("int")).over(until).alias("whole_looks"),
        fn.max(whole_ms).over(before_window).alias("before_whole_ms"),
        fn.min(whole_ms).over(after_window).alias("next_whole_ms"),
    )
