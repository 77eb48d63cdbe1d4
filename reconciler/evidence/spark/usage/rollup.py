"""Five-minute sums and daily histograms of samples; each unit uses the samples of its own day.

``usage_5m`` has the units of :func:`reconciler.usage.kernel.throttling.demand_of` summed over five minutes,
``usage_hist_d`` the time in each bucket of :data:`reconciler.usage.histogram.BOUNDS` per day.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.spark.usage import integer_columns
from reconciler.usage.samples import Censored
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D

INTERVAL_MS: Final = 300_000

RULE: Final = "1"
"""Increased whenever equal samples would give other rows; then all units are written again."""

_SERIES: Final = (
    "cluster_id",
    "quota_type",
    "group_kind",
    "user",
    "client_id",
    "ip",
    "broker_id",
    "day",
)


def interval(ts_ms: Column) -> Column:
    """Return the five-minute interval of a sample, by the time at which it was read."""
    return integer_columns.quotient(ts_ms, fn.lit(INTERVAL_MS)) * fn.lit(INTERVAL_MS).cast("bigint")


def usage_5m(samples: DataFrame) -> DataFrame:
    """Convert ``usage_sample`` to ``usage_5m``."""
    lasted = fn.col("dt_ms").cast("bigint")
    throttled = fn.coalesce(fn.col("throttle_ms") > 0, fn.expr("false"))
    nothing = fn.lit(0).cast("bigint")
    return schemas.conforming(
        samples.groupBy(*_SERIES, interval(fn.col("ts_ms")).alias("bucket_ms")).agg(
            fn.count("*").alias("n"),
            fn.sum(lasted).alias("sum_dt_ms"),
            fn.sum(integer_columns.arrived(fn.col("rate_units"), lasted)).alias("sum_units"),
            fn.max("rate_units").alias("max_rate_units"),
            fn.count_if(throttled).alias("throttled_samples"),
            # Null if no sample has a throttle time: a sum ignores nulls, and is null if all values are.
            fn.sum(
                fn.when(throttled, lasted).when(fn.col("throttle_ms").isNotNull(), nothing)
            ).alias("throttled_ms"),
            fn.sum(
                fn.when(fn.col("censored") == str(Censored.YES), lasted).otherwise(nothing)
            ).alias("censored_ms"),
        ),
        USAGE_5M,
    )


def usage_hist_d(samples: DataFrame) -> DataFrame:
    """Convert ``usage_sample`` to ``usage_hist_d``."""
    return schemas.conforming(
        samples.groupBy(
            *_SERIES, integer_columns.bucket_index(fn.col("rate_units")).alias("bucket")
        ).agg(fn.sum(fn.col("dt_ms").cast("bigint")).alias("n_dt_ms")),
        USAGE_HIST_D,
    )
