"""The periods in which each limit was seen.

Snapshots are points in time; changes between two of them are unknown. So a limit is valid from the snapshot that first
has it, and the time since the snapshot before is uncertain. A snapshot without the limit ends it.
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
        snapshots: ``snapshot`` of the same; entries of other snapshots are ignored.
    """
    dated_entries = entries.drop("observed_at_ms").join(
        fn.broadcast(_with_neighbours(snapshots)), ["cluster_id", "snapshot_id"]
    )
    along = Window.partitionBy(*_PAIR).orderBy("number")
    limit_window = along.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = fn.lag("number").over(along)
    is_same_value = fn.col("value") == fn.lag("value").over(along)
    continues = (fn.col("number") - before == 1) & is_same_value
    begun = (
        dated_entries.withColumn("ended_after_ms", fn.lag("observed_at_ms").over(along))
        .withColumn("ended_ms", fn.lag("next_ms").over(along))
        .withColumn("begins", ~fn.coalesce(continues, before.isNotNull()))
        .withColumn("last_ms", fn.last("observed_at_ms").over(limit_window))
        .withColumn("last_next_ms", fn.last("next_ms").over(limit_window))
        .where("begins")
    )
    ended = fn.coalesce(fn.lead("ended_ms").over(along), fn.col("last_next_ms"))
    last = fn.coalesce(fn.lead("ended_after_ms").over(along), fn.col("last_ms"))
    validity_periods = (
        begun.withColumn("valid_to_ms", ended)
        .withColumn("valid_to_after_ms", fn.when(ended.isNotNull(), last))
        .withColumnRenamed("observed_at_ms", "valid_from_ms")
        .withColumnRenamed("before_ms", "valid_from_after_ms")
    )
    return conforming(validity_periods, QUOTA_VALIDITY)


def _with_neighbours(snapshots: DataFrame) -> DataFrame:
    """Add to each snapshot its number and the times of the ones before (0 = none) and after. A few rows per cluster and day."""
    along = Window.partitionBy("cluster_id").orderBy("observed_at_ms", "snapshot_id")
    return snapshots.select(
        "cluster_id",
        "snapshot_id",
        "observed_at_ms",
        fn.row_number().over(along).alias("number"),
        fn.lag("observed_at_ms", 1, 0).over(along).alias("before_ms"),
        fn.lead("observed_at_ms").over(along).alias("next_ms"),
    )
