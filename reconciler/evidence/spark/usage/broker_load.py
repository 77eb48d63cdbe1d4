"""What brokers can give, what is promised and served at one time, and who goes beyond a fair share where that is too much.

The definitions are :mod:`reconciler.usage.reports.broker_load` and :mod:`reconciler.usage.reports.capacity`. Sums of bytes are decimals where
64 bits could be too few; those are compared before they are divided (:func:`reconciler.evidence.spark.usage.integer_columns.quotient`).
"""

import datetime as dt
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.limits.effective_limits import BUCKET
from reconciler.evidence.spark.tables.schemas import conforming, struct
from reconciler.evidence.spark.usage import integer_columns, series_blocks
from reconciler.evidence.spark.usage.limit_usage import SERIES
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.kernel.throttling import demand_of, served
from reconciler.usage.reports.broker_load import (
    COINCIDENT_PPM,
    MOST_PPM,
    BudgetBasis,
)
from reconciler.usage.reports.capacity import MOST_COMMITTED, BucketUse, shares
from reconciler.usage.reports.usage import TrafficDirection
from reconciler.usage.samples import MILLION, QuotaType
from reconciler.usage.tables import CAPACITY_ROW, NOISY_ROW
from reconciler.usage.tags import bucket_of

MOMENT: Final = ("cluster_id", "broker_id", "direction", "ts_ms")
BROKER: Final = ("cluster_id", "broker_id", "direction")
_DIRECTIONS: Final = {
    QuotaType.PRODUCE: TrafficDirection.INGRESS,
    QuotaType.FETCH: TrafficDirection.EGRESS,
}
_BROKER_COLUMNS: Final = {
    TrafficDirection.INGRESS: ("bytes_in", "replication_in"),
    TrafficDirection.EGRESS: ("bytes_out", "replication_out"),
}
_WIDE: Final = "decimal(28,0)"

CAPACITIES: Final = "cluster_id string, direction string, capacity_units bigint, headroom_ppm bigint, replication_factor int"
"""The schema of capacities: one row per cluster and direction; null = not configured, or no factor assumed."""


def direction(quota_type: Column) -> Column:
    """Which way the bytes of a quota type go; null for what is not bytes."""
    direction_name = fn.when(
        quota_type == str(QuotaType.PRODUCE), fn.lit(str(_DIRECTIONS[QuotaType.PRODUCE]))
    )
    return direction_name.when(
        quota_type == str(QuotaType.FETCH), fn.lit(str(_DIRECTIONS[QuotaType.FETCH]))
    )


def moments(
    samples: DataFrame,
    limits: DataFrame,
    brokers: DataFrame,
    max_gap_ms: Column,
) -> DataFrame:
    """What all clients of a broker together were served at each moment, beside what the broker did in all.

    Args:
        samples: ``usage_sample`` of produce and fetch; other types are passed over.
        limits: :data:`~reconciler.evidence.spark.limits.effective_limits.BUCKET` and ``limit_units``, for buckets that have a limit.
        brokers: ``broker_sample``.
        max_gap_ms: A longer gap begins a session.

    Returns:
        :data:`MOMENT`, ``dt_ms`` and the other fields of :class:`reconciler.usage.reports.broker_load.LoadMoment`.
    """
    bytes_only = samples.where(direction(fn.col("quota_type")).isNotNull())
    limited = bytes_only.join(limits.select(*BUCKET, "limit_units"), list(BUCKET), "left").select(
        *bytes_only.columns,
        fn.coalesce("limit_units", fn.lit(NO_LIMIT)).cast("bigint").alias("limit_units"),
        max_gap_ms.cast("bigint").alias("gap_ms"),
    )
    blocks = series_blocks.packed(limited, (*SERIES, "limit_units", "gap_ms"))
    served_rows = blocks.groupBy(*SERIES).applyInArrow(_served, _SERVED)
    null = fn.lit(None).cast("bigint")
    zero = fn.lit(0).cast("bigint")
    by_clients = served_rows.select(
        "cluster_id", "broker_id", direction(fn.col("quota_type")).alias("direction"), "ts_ms", "dt_ms",
        "served_units", fn.col("rate_units").alias("recorded_units"),
        null.alias("broker_units"), null.alias("replication_units"), null.alias("copied_units"),
    )  # fmt: skip
    joined = by_clients
    for way, (all_bytes, replication) in _BROKER_COLUMNS.items():
        joined = joined.unionByName(
            brokers.select(
                "cluster_id", "broker_id", fn.lit(str(way)).alias("direction"), "ts_ms", "dt_ms",
                zero.alias("served_units"), zero.alias("recorded_units"),
                fn.col(all_bytes).alias("broker_units"), fn.col(replication).alias("replication_units"),
                (fn.col("bytes_in") if way is TrafficDirection.EGRESS else null).alias("copied_units"),
            )
        )  # fmt: skip
    return joined.groupBy(*MOMENT).agg(
        fn.max("dt_ms").alias("dt_ms"),
        *(fn.sum(name).alias(name) for name in ("served_units", "recorded_units")),
        *(
            fn.max(name).alias(name)
            for name in ("broker_units", "replication_units", "copied_units")
        ),
    )


NO_LIMIT: Final = 0
"""Stands for no limit where samples are packed."""

_SERVED: Final = StructType(
    [
        *(StructField(name, StringType()) for name in ("cluster_id", "broker_id", "quota_type")),
        StructField("ts_ms", LongType()),
        StructField("dt_ms", IntegerType()),
        StructField("rate_units", LongType()),
        StructField("served_units", LongType()),
    ]
)


def _served(blocks: pa.Table) -> pa.Table:
    """One series -> what was served in the time of each of its samples."""
    (row,) = blocks.slice(0, 1).select((*SERIES, "limit_units", "gap_ms")).to_pylist()
    (series,) = series_blocks.series_by(blocks, SERIES).values()
    schema = to_arrow_schema(_SERVED)
    columns: dict[str, Any] = {
        name: pa.repeat(row[name], len(series))
        for name in ("cluster_id", "broker_id", "quota_type")
    }
    columns |= {"ts_ms": series.ts_ms, "dt_ms": series.dt_ms, "rate_units": series.rate_units}
    limit = None if row["limit_units"] == NO_LIMIT else row["limit_units"]
    columns["served_units"] = served(demand_of(series, row["gap_ms"]), limit)
    return pa.table(columns).select(schema.names).cast(schema)


def budgeted(at: DataFrame, capacities: DataFrame) -> DataFrame:
    """Moments with ``budget_units`` (null = not known) and ``basis``: ``load.budget_at``."""
    joined = at.join(fn.broadcast(capacities), ["cluster_id", "direction"], "left")
    usable = integer_columns.quotient(
        fn.col("capacity_units").cast(_WIDE) * fn.col("headroom_ppm"), fn.lit(MILLION)
    ).cast("bigint")
    remaining_units = fn.greatest(fn.lit(0).cast("bigint"), usable - fn.col("replication_units"))
    factor = fn.col("replication_factor").cast("bigint")
    copies = fn.col("copied_units").cast(_WIDE) * (factor - fn.lit(1))
    assumed = fn.when(
        fn.col("direction") == str(TrafficDirection.EGRESS),
        fn.greatest(fn.lit(0).cast(_WIDE), usable.cast(_WIDE) - copies).cast("bigint"),
    ).otherwise(integer_columns.quotient(usable, factor))
    measured = fn.col("replication_units").isNotNull() & fn.col("capacity_units").isNotNull()
    is_measured = (fn.col("direction") != str(TrafficDirection.EGRESS)) | fn.col(
        "copied_units"
    ).isNotNull()
    factored = factor.isNotNull() & fn.col("capacity_units").isNotNull() & is_measured
    return joined.select(
        *(name for name in at.columns if name != "copied_units"),
        fn.when(measured, remaining_units).when(factored, assumed).alias("budget_units"),
        fn.when(measured, fn.lit(str(BudgetBasis.MEASURED)))
        .when(factored, fn.lit(str(BudgetBasis.REPLICATION_FACTOR)))
        .otherwise(fn.lit(str(BudgetBasis.NO_DATA)))
        .alias("basis"),
    )


def load_ppm(served: Column, dt: Column, available: Column) -> Column:
    """``load.load_ppm``: the rate reaches a thousand budgets where ``served >= available * dt``, for those are 1000 a ms."""
    ms = dt.cast("bigint")
    remainder = integer_columns.quotient((served % ms) * fn.lit(1000), ms)
    rate = integer_columns.quotient(served, ms).cast(_WIDE) * fn.lit(1000) + remainder
    none = fn.when(served > 0, fn.lit(MOST_PPM)).otherwise(fn.lit(0))
    return (
        fn.when(available.isNull(), fn.lit(None).cast("bigint"))
        .when(available <= 0, none.cast("bigint"))
        .when(served.cast(_WIDE) >= available.cast(_WIDE) * ms, fn.lit(MOST_PPM).cast("bigint"))
        .otherwise(integer_columns.quotient(rate * fn.lit(MILLION), available))
    )


def committed_ppm(promised: Column, available: Column) -> Column:
    """``capacity.committed_ppm``, cut where that cuts; null where there is no budget. ``promised`` is a decimal."""
    parts = promised * fn.lit(MILLION)
    return fn.when(
        available > 0,
        fn.when(
            parts >= available.cast(_WIDE) * fn.lit(MOST_COMMITTED).cast("decimal(19,0)"),
            fn.lit(MOST_COMMITTED),
        ).otherwise(integer_columns.quotient(parts, available)),
    )


def capacity(at: DataFrame, limits: DataFrame, observed: DataFrame, day: dt.date) -> DataFrame:
    """Rows of ``capacity_row``.

    Args:
        at: What :func:`budgeted` gave.
        limits: :data:`~reconciler.evidence.spark.limits.effective_limits.BUCKET` and ``limit_units``.
        observed: :data:`~reconciler.evidence.spark.usage.limit_usage.SERIES` of every bucket that a broker saw.
        day: The last day of the window, by which results are kept.
    """
    known_moments = at.withColumn(
        "load_ppm", load_ppm(fn.col("served_units"), fn.col("dt_ms"), fn.col("budget_units"))
    )
    rising = (
        Window.partitionBy(*BROKER)
        .orderBy(fn.col("load_ppm").asc_nulls_last())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    broker_window = Window.partitionBy(*BROKER).orderBy(fn.col("load_ppm").asc_nulls_last()).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )  # fmt: skip
    counted_ms = fn.when(fn.col("load_ppm").isNotNull(), fn.col("dt_ms").cast("bigint"))
    passed = known_moments.withColumn("_passed", fn.sum(counted_ms).over(rising)).withColumn(
        "_whole", fn.sum(counted_ms).over(broker_window)
    )
    reached = fn.col("_passed") * fn.lit(MILLION) >= fn.col("_whole") * fn.lit(COINCIDENT_PPM)
    in_all = _amount("broker_units")
    attributed_units = fn.when(fn.col("broker_units").isNotNull(), _amount("recorded_units"))
    assumed = fn.max(
        fn.when(fn.col("basis") == str(BudgetBasis.REPLICATION_FACTOR), 1).otherwise(0)
    )
    rows_by_broker = passed.groupBy(*BROKER).agg(
        fn.min("budget_units").alias("budget_units"),
        fn.min(fn.when(reached, fn.col("load_ppm"))).alias("coincident_ppm"),
        fn.sum(
            fn.when(fn.col("load_ppm") > MILLION, fn.col("dt_ms").cast("bigint"))
            .when(fn.col("load_ppm").isNotNull(), fn.lit(0).cast("bigint"))
        ).alias("overload_ms"),
        fn.sum(in_all).alias("_in_all"),
        fn.sum(attributed_units).alias("_named"),
        fn.sum("dt_ms").alias("covered_ms"),
        assumed.alias("_assumed"),
    )  # fmt: skip
    missing = fn.greatest(fn.lit(0).cast(_WIDE), fn.col("_in_all") - fn.col("_named"))
    unattributed = fn.when(
        fn.col("_in_all") > 0,
        integer_columns.quotient(missing * fn.lit(MILLION), fn.col("_in_all")),
    ).cast("bigint")
    basis = (
        fn.when(fn.col("budget_units").isNull(), fn.lit(str(BudgetBasis.NO_DATA)))
        .when(fn.col("_assumed") == 1, fn.lit(str(BudgetBasis.REPLICATION_FACTOR)))
        .otherwise(fn.lit(str(BudgetBasis.MEASURED)))
    )
    committed = committed_ppm(
        fn.coalesce(fn.col("_promised"), fn.lit(0).cast(_WIDE)), fn.col("budget_units")
    )
    return conforming(
        rows_by_broker.join(promised(limits, observed), list(BROKER), "left")
        .withColumn("unattributed_ppm", unattributed)
        .withColumn("basis", basis)
        .withColumn("committed_ppm", committed)
        .withColumn("day", fn.lit(day)),
        CAPACITY_ROW,
    )


def _amount(name: str) -> Column:
    """Units of a rate in the time of a moment: ``rate * dt div 1000`` in two steps, of which no quotient leaves 64 bits."""
    rate, ms = fn.col(name), fn.col("dt_ms").cast("bigint")
    remainder = integer_columns.quotient((rate % fn.lit(1000)) * ms, fn.lit(1000))
    return integer_columns.quotient(rate, fn.lit(1000)).cast(_WIDE) * ms + remainder


def promised(limits: DataFrame, observed: DataFrame) -> DataFrame:
    """The sum of the limits of all buckets that a broker saw, by direction."""
    limits_of_brokers = (
        observed.select(*SERIES)
        .distinct()
        .join(limits.select(*BUCKET, "limit_units"), list(BUCKET))
    )
    return (
        limits_of_brokers.withColumn("direction", direction(fn.col("quota_type")))
        .where(fn.col("direction").isNotNull())
        .groupBy(*BROKER)
        .agg(fn.sum(fn.col("limit_units").cast(_WIDE)).alias("_promised"))
    )


def _rates(five_minutes: DataFrame) -> DataFrame:
    """``usage_5m`` of bytes with ``direction`` and ``rate_units``."""
    rates = five_minutes.withColumn("direction", direction(fn.col("quota_type"))).where(
        fn.col("direction").isNotNull() & (fn.col("sum_dt_ms") > 0)
    )
    return rates.withColumn(
        "rate_units",
        integer_columns.quotient(
            fn.col("sum_units").cast(_WIDE) * fn.lit(1000), fn.col("sum_dt_ms")
        ),
    )


def beyond(five_minutes: DataFrame, at: DataFrame, span_ms: int) -> DataFrame:
    """The intervals in which a broker was used beyond its budget.

    Args:
        five_minutes: ``usage_5m`` of the window.
        at: What :func:`budgeted` gave: the budget of an interval is the smallest in it.
        span_ms: Length of an interval of ``usage_5m``.

    Returns:
        :data:`BROKER`, ``bucket_ms``, ``budget_units``, and ``rank`` within the cluster: 1 is furthest beyond.
    """
    begin = integer_columns.div_down(fn.col("ts_ms"), fn.lit(span_ms)) * fn.lit(span_ms)
    budgets = (
        at.where(fn.col("budget_units").isNotNull())
        .groupBy(*BROKER, begin.alias("bucket_ms"))
        .agg(fn.min("budget_units").alias("budget_units"))
    )
    sums = (
        _rates(five_minutes).groupBy(*BROKER, "bucket_ms").agg(fn.sum("rate_units").alias("_rate"))
    )
    over = sums.join(budgets, [*BROKER, "bucket_ms"]).where(
        fn.col("_rate") > fn.col("budget_units")
    )
    order = ((fn.col("_rate") - fn.col("budget_units")).desc(), *BROKER[1:], "bucket_ms")
    return over.select(
        *BROKER,
        "bucket_ms",
        "budget_units",
        fn.row_number().over(Window.partitionBy("cluster_id").orderBy(*order)).alias("rank"),
    )


def hot(five_minutes: DataFrame, over: DataFrame, max_intervals: int) -> DataFrame:
    """The intervals in which a broker was used furthest beyond its budget, with all clients that used it.

    Args:
        five_minutes: As in :func:`beyond`.
        over: What that gave; kept, so that Spark knows how small it is.
        max_intervals: How many intervals of each cluster: none is left out because of another's.

    Returns:
        Rows of ``usage_5m`` with ``direction``, ``rate_units`` and ``budget_units``.
    """
    hottest = over.where(fn.col("rank") <= max_intervals).drop("rank")
    return _rates(five_minutes).join(hottest, [*BROKER, "bucket_ms"])


def left_out(over: DataFrame, max_intervals: int) -> DataFrame:
    """How many hot intervals :func:`hot` leaves out: ``cluster_id`` and ``intervals``; clusters without any are missing."""
    omitted_intervals = over.where(fn.col("rank") > max_intervals)
    return omitted_intervals.groupBy("cluster_id").agg(fn.count(fn.lit(1)).alias("intervals"))


def noisy(intervals: DataFrame, limits: DataFrame, day: dt.date) -> DataFrame:
    """Rows of ``noisy_row``: the core's water-filling, asked once per hot interval; buckets without an excess are left out.

    Args:
        intervals: What :func:`hot` gave: few.
        limits: :data:`~reconciler.evidence.spark.limits.effective_limits.BUCKET` and ``limit_units``: the weights.
        day: As in :func:`capacity`.
    """
    weighted = intervals.join(limits.select(*BUCKET, "limit_units"), list(BUCKET), "left").select(
        "cluster_id", "broker_id", "bucket_ms", *BUCKET[1:], "budget_units", "rate_units", "limit_units",
        fn.lit(day).alias("day"),
    )  # fmt: skip
    noisy_rows = weighted.groupBy(
        "cluster_id", "broker_id", "bucket_ms", "quota_type"
    ).applyInArrow(_shared, struct(NOISY_ROW))
    return conforming(noisy_rows, NOISY_ROW)


def _shared(interval: pa.Table) -> pa.Table:
    """One interval of one broker: who used more than a fair share."""
    rows = interval.to_pylist()
    uses = [
        BucketUse(bucket=bucket_of(row["user"], row["client_id"]), rate=row["rate_units"], weight=row["limit_units"] or 1)
        for row in rows
    ]  # fmt: skip
    shares_by_bucket = {share.bucket: share for share in shares(uses, rows[0]["budget_units"])}
    result_rows = [
        {**row, "fair_units": share.fair, "excess_units": share.excess}
        for row in rows
        if (share := shares_by_bucket[bucket_of(row["user"], row["client_id"])]).excess
    ]
    return pa.Table.from_pylist(result_rows, schema=arrow_tables.schema(NOISY_ROW))
