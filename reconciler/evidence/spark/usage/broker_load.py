"""Budgets of brokers, promised and served rates, and use beyond a fair share in overloaded intervals.

Spark groups by broker; the arithmetic is that of :mod:`reconciler.usage.kernel.broker_load` and :mod:`reconciler.usage.capacity`.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import integer_columns, series_blocks
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.evidence.spark.usage.limit_usage import SERIES
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.capacity import BucketUse, CapacityOfCluster, committed_ppm, shares
from reconciler.usage.kernel.broker_load import BrokerCapacity, BrokerMoments, budgets, load
from reconciler.usage.kernel.series import COLUMNS, NOT_RECORDED
from reconciler.usage.kernel.throttling import demand_of, served
from reconciler.usage.reports.usage import TrafficDirection
from reconciler.usage.samples import QuotaType
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

Capacities: TypeAlias = Mapping[tuple[str, str], BrokerCapacity]
"""The capacity of each broker of a cluster, by cluster id and direction."""


def capacities_of(clusters: Iterable[CapacityOfCluster]) -> Capacities:
    """Return the configured capacities."""
    return {
        (of_cluster.cluster_id, str(way)): BrokerCapacity(
            units=units, headroom_ppm=of_cluster.headroom_ppm
        )
        for of_cluster in clusters
        for way, units in (
            (TrafficDirection.INGRESS, of_cluster.ingress),
            (TrafficDirection.EGRESS, of_cluster.egress),
        )
    }


def direction(quota_type: Column) -> Column:
    """Return the direction of the bytes of a quota type; null for types that do not count bytes."""
    direction_name = fn.when(
        quota_type == str(QuotaType.PRODUCE), fn.lit(str(_DIRECTIONS[QuotaType.PRODUCE]))
    )
    return direction_name.when(
        quota_type == str(QuotaType.FETCH), fn.lit(str(_DIRECTIONS[QuotaType.FETCH]))
    )


def moments(
    runs: DataFrame,
    limits: DataFrame,
    brokers: DataFrame,
    max_gap_ms: Column,
) -> DataFrame:
    """Return for each moment the rate served to all clients of a broker, and the broker's total traffic.

    Args:
        runs: Samples of produce and fetch, as :func:`~reconciler.evidence.spark.usage.series_blocks.packed`; other types are
            ignored.
        limits: :data:`~reconciler.evidence.spark.usage.effective_limits.BUCKET` and ``limit_units``, for buckets that have a limit.
        brokers: ``broker_sample``.
        max_gap_ms: A longer gap starts a new session.

    Returns:
        :data:`MOMENT`, ``dt_ms`` and the other fields of :class:`reconciler.usage.kernel.broker_load.BrokerMoments`.
    """
    bytes_only = runs.where(direction(fn.col("quota_type")).isNotNull())
    blocks = bytes_only.join(limits.select(*BUCKET, "limit_units"), list(BUCKET), "left").select(
        *SERIES,
        *COLUMNS,
        fn.coalesce("limit_units", fn.lit(NO_LIMIT)).cast("bigint").alias("limit_units"),
        max_gap_ms.cast("bigint").alias("gap_ms"),
    )
    served_rows = blocks.groupBy(*SERIES).applyInArrow(_served, _SERVED)
    null = fn.lit(None).cast("bigint")
    zero = fn.lit(0).cast("bigint")
    by_clients = served_rows.select(
        "cluster_id",
        "broker_id",
        direction(fn.col("quota_type")).alias("direction"),
        "ts_ms",
        "dt_ms",
        "served_units",
        fn.col("rate_units").alias("recorded_units"),
        null.alias("broker_units"),
        null.alias("replication_units"),
    )
    joined = by_clients
    for way, (all_bytes, replication) in _BROKER_COLUMNS.items():
        joined = joined.unionByName(
            brokers.select(
                "cluster_id",
                "broker_id",
                fn.lit(str(way)).alias("direction"),
                "ts_ms",
                "dt_ms",
                zero.alias("served_units"),
                zero.alias("recorded_units"),
                fn.col(all_bytes).alias("broker_units"),
                fn.col(replication).alias("replication_units"),
            )
        )
    return joined.groupBy(*MOMENT).agg(
        fn.max("dt_ms").alias("dt_ms"),
        *(fn.sum(name).alias(name) for name in ("served_units", "recorded_units")),
        *(fn.max(name).alias(name) for name in ("broker_units", "replication_units")),
    )


NO_LIMIT: Final = 0
"""Marks a missing limit of runs."""

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


def capacity(
    at: DataFrame, limits: DataFrame, observed: DataFrame, capacities: Capacities, day: dt.date
) -> DataFrame:
    """Return rows of ``capacity_row``.

    Args:
        at: The result of :func:`moments`.
        limits: :data:`~reconciler.evidence.spark.usage.effective_limits.BUCKET` and ``limit_units``.
        observed: :data:`~reconciler.evidence.spark.usage.limit_usage.SERIES` of every bucket recorded by a broker.
        capacities: The result of :func:`capacities_of`.
        day: The last day of the window, under which results are committed.
    """

    def of_broker(moments_of_broker: pa.Table) -> pa.Table:
        (first,) = moments_of_broker.slice(0, 1).select((*BROKER, "promised_units")).to_pylist()
        of_moments = load(_moments(moments_of_broker), _capacity(first, capacities))
        promised_units = first.pop("promised_units") or 0
        budget = of_moments.budget_units
        row = (
            first
            | asdict(of_moments)
            | {
                "committed_ppm": None
                if budget is None
                else committed_ppm([promised_units], budget),
                "basis": str(of_moments.basis),
                "day": day,
            }
        )
        return pa.Table.from_pylist([row], schema=to_arrow_schema(struct(CAPACITY_ROW)))

    with_promises = at.join(promised(limits, observed), list(BROKER), "left")
    return with_promises.groupBy(*BROKER).applyInArrow(of_broker, struct(CAPACITY_ROW))


def _capacity(row: Mapping[str, Any], capacities: Capacities) -> BrokerCapacity:
    return capacities.get((row["cluster_id"], row["direction"]), BrokerCapacity(units=None))


def _moments(at: pa.Table) -> BrokerMoments:
    return BrokerMoments(
        **{
            field.name: pc.fill_null(at.column(field.name), NOT_RECORDED)
            .cast(pa.int64())
            .to_numpy()
            for field in fields(BrokerMoments)
        }
    )


def promised(limits: DataFrame, observed: DataFrame) -> DataFrame:
    """Return the sum of the limits of all buckets recorded by a broker, by direction."""
    limits_of_brokers = (
        observed.select(*SERIES)
        .distinct()
        .join(limits.select(*BUCKET, "limit_units"), list(BUCKET))
    )
    return (
        limits_of_brokers.withColumn("direction", direction(fn.col("quota_type")))
        .where(fn.col("direction").isNotNull())
        .groupBy(*BROKER)
        .agg(fn.sum("limit_units").alias("promised_units"))
    )


def _rates(five_minutes: DataFrame) -> DataFrame:
    """Return ``usage_5m`` of types that count bytes, with ``direction`` and ``rate_units``."""
    rates = five_minutes.withColumn("direction", direction(fn.col("quota_type"))).where(
        fn.col("direction").isNotNull() & (fn.col("sum_dt_ms") > 0)
    )
    return rates.withColumn(
        "rate_units",
        integer_columns.quotient(fn.col("sum_units") * fn.lit(1000), fn.col("sum_dt_ms")),
    )


_INTERVAL_BUDGET: Final = StructType(
    [
        *(StructField(name, StringType()) for name in BROKER),
        StructField("bucket_ms", LongType()),
        StructField("budget_units", LongType()),
    ]
)


def interval_budgets(at: DataFrame, capacities: Capacities, span_ms: int) -> DataFrame:
    """Return the smallest budget of each interval of a broker: :data:`BROKER`, ``bucket_ms``, ``budget_units``; known budgets only.

    Args:
        at: The result of :func:`moments`.
        capacities: The result of :func:`capacities_of`.
        span_ms: Length of an interval.
    """

    def of_broker(moments_of_broker: pa.Table) -> pa.Table:
        (names,) = moments_of_broker.slice(0, 1).select(BROKER).to_pylist()
        available = budgets(_moments(moments_of_broker), _capacity(names, capacities))
        ts = moments_of_broker.column("ts_ms")
        begins = pc.multiply(pc.divide(ts, span_ms), span_ms)
        table = pa.table({"bucket_ms": begins, "budget": available})
        table = table.filter(pc.not_equal(table["budget"], NOT_RECORDED))
        least = table.group_by("bucket_ms", use_threads=False).aggregate([("budget", "min")])
        columns = {name: pa.repeat(names[name], least.num_rows) for name in BROKER}
        columns |= {"bucket_ms": least["bucket_ms"], "budget_units": least["budget_min"]}
        schema = to_arrow_schema(_INTERVAL_BUDGET)
        return pa.table(columns).select(schema.names).cast(schema)

    return at.groupBy(*BROKER).applyInArrow(of_broker, _INTERVAL_BUDGET)


def beyond(five_minutes: DataFrame, budgets_of_intervals: DataFrame) -> DataFrame:
    """Return the intervals in which the use of a broker exceeded its budget.

    Args:
        five_minutes: ``usage_5m`` of the window.
        budgets_of_intervals: The result of :func:`interval_budgets`.

    Returns:
        :data:`BROKER`, ``bucket_ms``, ``budget_units``, and ``rank`` within the cluster: 1 has the largest excess.
    """
    sums = (
        _rates(five_minutes).groupBy(*BROKER, "bucket_ms").agg(fn.sum("rate_units").alias("_rate"))
    )
    over = sums.join(budgets_of_intervals, [*BROKER, "bucket_ms"]).where(
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
    """Return the intervals with the largest excess over the budget, with all clients of these intervals.

    Args:
        five_minutes: As for :func:`beyond`.
        over: The result of :func:`beyond`, persisted, so that Spark knows its size.
        max_intervals: Maximum number of intervals of each cluster; clusters do not displace each other.

    Returns:
        Rows of ``usage_5m`` with ``direction``, ``rate_units`` and ``budget_units``.
    """
    hottest = over.where(fn.col("rank") <= max_intervals).drop("rank")
    return _rates(five_minutes).join(hottest, [*BROKER, "bucket_ms"])


def left_out(over: DataFrame, max_intervals: int) -> DataFrame:
    """Return the number of intervals beyond the maximum of :func:`hot`: ``cluster_id`` and ``intervals``; only clusters with any."""
    omitted_intervals = over.where(fn.col("rank") > max_intervals)
    return omitted_intervals.groupBy("cluster_id").agg(fn.count(fn.lit(1)).alias("intervals"))


def noisy(intervals: DataFrame, limits: DataFrame, day: dt.date) -> DataFrame:
    """Return rows of ``noisy_row``: ``shares`` of ``usage.capacity`` for each hot interval; buckets without an excess are dropped.

    Args:
        intervals: The result of :func:`hot`.
        limits: :data:`~reconciler.evidence.spark.usage.effective_limits.BUCKET` and ``limit_units``: the weights.
        day: As for :func:`capacity`.
    """
    weighted = intervals.join(limits.select(*BUCKET, "limit_units"), list(BUCKET), "left").select(
        "cluster_id",
        "broker_id",
        "bucket_ms",
        *BUCKET[1:],
        "budget_units",
        "rate_units",
        "limit_units",
        fn.lit(day).alias("day"),
    )
    intervals_of_types = weighted.groupBy("cluster_id", "broker_id", "bucket_ms", "quota_type")
    return intervals_of_types.applyInArrow(_shared, struct(NOISY_ROW))


def _shared(interval: pa.Table) -> pa.Table:
    """Compute the excess over fair shares in one interval of one broker and quota type."""
    rows = interval.to_pylist()
    uses = [
        BucketUse(
            bucket=bucket_of(row["user"], row["client_id"]),
            rate=row["rate_units"],
            weight=row["limit_units"] or 1,
        )
        for row in rows
    ]
    shares_by_bucket = {share.bucket: share for share in shares(uses, rows[0]["budget_units"])}
    result_rows = [
        {**row, "fair_units": share.fair, "excess_units": share.excess}
        for row in rows
        if (share := shares_by_bucket[bucket_of(row["user"], row["client_id"])]).excess
    ]
    return pa.Table.from_pylist(result_rows, schema=arrow_tables.schema(NOISY_ROW))
