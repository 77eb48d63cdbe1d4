"""Use against limits: percentiles from daily histograms, sums from five-minute intervals, a state for each bucket on each broker.

States are :class:`reconciler.usage.reports.usage.UsageState`, bounds :data:`reconciler.usage.histogram.BOUNDS`.
"""

import datetime as dt
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.evidence.spark.usage import integer_columns
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.usage.reports.usage import UsageState
from reconciler.usage.samples import MILLION
from reconciler.usage.tables import USAGE_ROW

SERIES: Final = (*BUCKET, "broker_id")
_PERCENTILES: Final = {"p50_units": 500_000, "p95_units": 950_000, "p99_units": 990_000}


def percentiles(hist: DataFrame) -> DataFrame:
    """Return percentiles of the rate over time: one row per bucket and broker.

    Args:
        hist: Rows of ``usage_hist_d``, of any days.

    Returns:
        The columns of :data:`SERIES` and ``p50_units``, ``p95_units``, ``p99_units``.
    """
    merged = hist.groupBy(*SERIES, "bucket").agg(fn.sum("n_dt_ms").alias("n"))
    series_window = Window.partitionBy(*SERIES)
    rising = series_window.orderBy("bucket").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    passed = merged.withColumn("passed", fn.sum("n").over(rising)).withColumn(
        "whole",
        fn.sum("n").over(
            series_window.orderBy("bucket").rowsBetween(
                Window.unboundedPreceding, Window.unboundedFollowing
            )
        ),
    )
    return passed.groupBy(*SERIES).agg(
        *(integer_columns.largest_in(_first(ppm)).alias(name) for name, ppm in _PERCENTILES.items())
    )


def _first(ppm: int) -> Column:
    """Return the first histogram bucket up to which the given share of the time lies, in millionths."""
    reached = fn.col("passed") * fn.lit(MILLION) >= fn.lit(ppm) * fn.col("whole")
    return fn.min(fn.when(reached, fn.col("bucket")))


def sums(five_minutes: DataFrame) -> DataFrame:
    """Return the sums over a window: one row per bucket and broker.

    Args:
        five_minutes: Rows of ``usage_5m``.
    """
    return five_minutes.groupBy(*SERIES).agg(
        fn.sum("sum_dt_ms").alias("covered_ms"),
        fn.max("max_rate_units").alias("max_rate_units"),
        fn.sum("throttled_ms").alias("throttled_ms"),  # null only if all are null
        fn.sum("censored_ms").alias("censored_ms"),
    )


def use(five_minutes: DataFrame, hist: DataFrame, limits: DataFrame, day: dt.date) -> DataFrame:
    """Return rows of ``usage_row`` for all recorded use.

    Args:
        five_minutes: ``usage_5m`` of the window.
        hist: ``usage_hist_d`` of the window.
        limits: The columns of :data:`BUCKET`, ``limit_units`` and ``source_entity``, one row for each bucket that has a finite limit.
        day: The last day of the window, under which results are committed.
    """
    usage_rows = (
        sums(five_minutes)
        .join(percentiles(hist), list(SERIES), "left")
        .join(limits.select(*BUCKET, "limit_units", "source_entity"), list(BUCKET), "left")
        .withColumn("source_entity", fn.coalesce(fn.col("source_entity"), fn.lit("")))
    )
    return conforming(
        usage_rows.withColumn("state", state()).withColumn("day", fn.lit(day)), USAGE_ROW
    )


def unused(
    observed: DataFrame, declared: DataFrame, measured: DataFrame, day: dt.date
) -> DataFrame:
    """Return rows of ``usage_row`` for limits of named buckets without use: ``unused``, or ``no_data`` without telemetry of the type.

    Args:
        observed: The result of :func:`use`.
        declared: Buckets that a limit names exactly: the columns of :data:`BUCKET`, ``limit_units``, ``source_entity``.
        measured: ``cluster_id`` and ``quota_type`` of recorded types.
        day: As for :func:`use`.
    """
    observed_buckets = observed.select(*BUCKET).distinct()
    unused_limits = (
        measured.select("cluster_id", "quota_type").distinct().withColumn("_counted", fn.lit(1))
    )
    missing = declared.join(observed_buckets, list(BUCKET), "left_anti").join(
        unused_limits, ["cluster_id", "quota_type"], "left"
    )
    none, zero = fn.lit(None).cast("bigint"), fn.lit(0).cast("bigint")
    word = fn.when(fn.col("_counted") == 1, fn.lit(str(UsageState.UNUSED))).otherwise(
        fn.lit(str(UsageState.NO_DATA))
    )
    return conforming(
        missing.select(
            *BUCKET,
            fn.lit("").alias("broker_id"),
            "limit_units",
            "source_entity",
            zero.alias("covered_ms"),
            *(none.alias(name) for name in _PERCENTILES),
            zero.alias("max_rate_units"),
            none.alias("throttled_ms"),
            zero.alias("censored_ms"),
            word.alias("state"),
            fn.lit(day).alias("day"),
        ),
        USAGE_ROW,
    )


def state() -> Column:
    """Return the ``UsageState`` of recorded use; the first that applies."""
    max_rate, limit = fn.col("max_rate_units"), fn.col("limit_units")
    return (
        fn.when(max_rate == 0, fn.lit(str(UsageState.UNUSED)))
        .when(fn.coalesce(fn.col("throttled_ms"), fn.lit(0)) > 0, fn.lit(str(UsageState.THROTTLED)))
        .when(limit.isNull(), fn.lit(str(UsageState.USED)))
        .when(max_rate * 10 >= limit * 9, fn.lit(str(UsageState.NEAR_LIMIT)))
        .when(max_rate * 10 <= limit, fn.lit(str(UsageState.IDLE)))
        .otherwise(fn.lit(str(UsageState.USED)))
    )


def curves(five_minutes: DataFrame, drawn_series: DataFrame, span_ms: int) -> DataFrame:
    """Return use over time of some buckets in equal spans, for charts.

    Args:
        five_minutes: ``usage_5m`` of the window.
        drawn_series: The columns of :data:`SERIES`; a few dozen rows.
        span_ms: Length of a span; a multiple of five minutes.

    Returns:
        The columns of :data:`SERIES`, ``span_ms`` (its begin), ``mean_units``, ``max_rate_units``, ``throttled_ms``.
    """
    begin = integer_columns.quotient(fn.col("bucket_ms"), fn.lit(span_ms)) * fn.lit(span_ms)
    drawn_rows = five_minutes.join(
        fn.broadcast(drawn_series.select(*SERIES).distinct()), list(SERIES), "left_semi"
    )
    return drawn_rows.groupBy(*SERIES, begin.alias("begin_ms")).agg(
        # A sum of units fits a bigint, but a thousand times the sum of a long span may not.
        integer_columns.quotient(
            fn.sum(fn.col("sum_units").cast("decimal(28,0)")) * fn.lit(1000), fn.sum("sum_dt_ms")
        )
        .cast("bigint")
        .alias("mean_units"),
        fn.max("max_rate_units").alias("max_rate_units"),
        fn.coalesce(fn.sum("throttled_ms"), fn.lit(0).cast("bigint")).alias("throttled_ms"),
    )
