"""The job ``resolve``: the limit of each client (or bucket), and limits that apply to no client; writes ``effective_quota`` and ``dead_quota``."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.limits import effective_limits
from reconciler.evidence.spark.limits.effective_limits import BUCKET, CLIENT
from reconciler.evidence.spark.limits.unused_limits import (
    ObservedClients,
    dated,
    find_unused_limits,
)
from reconciler.evidence.spark.tables import bounded_rows, reader, unit_writer
from reconciler.evidence.spark.tables.bounded_rows import MOST_CLUSTERS
from reconciler.evidence.spark.tables.reader import limits_of_snapshots
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.spark.usage import report_rows
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import (
    SnapshotHeader,
    clusters_with_snapshot,
    last_snapshots,
)
from reconciler.quota.precedence import Principal
from reconciler.usage.reports.fleet import (
    ClusterTotals,
    EffectiveRow,
    FleetReport,
    UnusedLimitRow,
)
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import DEAD_QUOTA, EFFECTIVE_QUOTA, USAGE_HIST_D

NO_LIST: Final = (
    "no list of clients was given: results cover the tags that use was recorded under, and a limit that closer"
    " ones may hide is reported as no_data"
)


def resolved(
    spark: SparkSession,
    lake: Lake,
    span: ReportWindow,
    principals: tuple[Principal, ...] | None,
    progress: Progress,
) -> FleetReport:
    """Resolve, commit all rows, report the first.

    Args:
        span: The look-back, whose end is the moment, and the clusters.
        principals: The clients, in every cluster; ``None`` = the tags of recorded use.

    Raises:
        UsageError: No cluster has a complete snapshot, or the list cannot be used.
        LakeError: The lake cannot be read or written.
    """
    last = last_snapshots(lake, span.cluster or None, span.to_ms)
    names, notes = clusters_with_snapshot(last, span.cluster)
    limits = limits_of_snapshots(spark, lake, {name: last[name] for name in names}).cache()
    five_minutes = rollup.five_minutes(spark, lake, names, span, progress).where(
        fn.col("bucket_ms") < span.to_ms
    )
    progress("resolving", 0, 0)
    day = fn.lit(span.last_day)
    buckets = _tags_seen(five_minutes)
    if principals is not None:
        listed_clients = _listed(spark, principals, names).cache()
        client_limits = effective_limits.principals(listed_clients.withColumn("day", day), limits)
        observed_clients = listed_clients.withColumn("last_seen_ms", fn.lit(None).cast("bigint"))
    else:
        listed_clients, observed_clients = buckets.cache(), None
        client_limits = of_tags(listed_clients, limits, day)
        notes += (NO_LIST,)
        buckets = listed_clients
    unused_limits = find_unused_limits(
        limits,
        ObservedClients(
            clients=observed_clients,
            buckets=buckets,
            measured=_types_heard(five_minutes),
            since_ms=span.from_ms,
        ),
    )
    effective, undated_limits = client_limits.cache(), unused_limits.withColumn("day", day).cache()
    dated_limits = _dated(spark, lake, undated_limits, limits, span).cache()
    for frame, table in ((effective, EFFECTIVE_QUOTA), (dated_limits, DEAD_QUOTA)):
        _ = unit_writer.commit_results(lake, frame, table, names, span=span, progress=progress)
    report = _build_report(
        effective,
        dated_limits,
        {cluster_id: last[cluster_id] for cluster_id in names},
        notes,
        max_rows=span.most,
    )
    for frame in (effective, dated_limits, undated_limits, listed_clients, limits):
        _ = frame.unpersist()
    return report


def _listed(
    spark: SparkSession, principals: Iterable[Principal], clusters: Iterable[str]
) -> DataFrame:
    """Return each client of a list in each cluster: ``effective_limits.CLIENT``."""
    rows = [
        (principal.user or "", principal.client_id or "", principal.ip or "")
        for principal in principals
    ]
    clients = spark.createDataFrame(rows, "user string, client_id string, ip string")
    # Clusters are few.
    everywhere = clients.withColumn("cluster_id", fn.explode(fn.array(*map(fn.lit, clusters))))
    return everywhere.dropDuplicates().select(*CLIENT)


def _tags_seen(five_minutes: DataFrame) -> DataFrame:
    """Return the tags with any use or throttling, with ``last_seen_ms``: ``effective_limits.BUCKET``, each once.

    Args:
        five_minutes: ``usage_5m`` of the look-back; intervals without use do not count as use.
    """
    used = five_minutes.where((fn.col("max_rate_units") > 0) | (fn.col("throttled_samples") > 0))
    return used.groupBy(*BUCKET).agg(fn.max("bucket_ms").alias("last_seen_ms"))


def _tags_used(hist: DataFrame) -> DataFrame:
    """Return the tags with any use, with ``last_seen_ms``: the begin of their last day of use. ``effective_limits.BUCKET``, each once.

    Args:
        hist: ``usage_hist_d``; histogram bucket 0 means no use.
    """
    last = fn.unix_date(fn.max("day")).cast("bigint") * fn.lit(DAY_MS)
    return hist.where(fn.col("bucket") > 0).groupBy(*BUCKET).agg(last.alias("last_seen_ms"))


def _types_heard(five_minutes: DataFrame) -> DataFrame:
    """Return the quota types that have telemetry: ``cluster_id`` and ``quota_type``."""
    return five_minutes.select("cluster_id", "quota_type").distinct()


def of_tags(buckets: DataFrame, limits: DataFrame, day: object) -> DataFrame:
    """Return ``effective_quota`` of tags: the limit of each bucket."""
    bucket_limits = effective_limits.tags(buckets, limits).withColumn(
        "quota_key", effective_limits.key_of(fn.col("quota_type"))
    )
    return conforming(bucket_limits.withColumn("day", day), EFFECTIVE_QUOTA)  # type: ignore[arg-type]  # a column


def _dated(
    spark: SparkSession, lake: Lake, unused_limits: DataFrame, limits: DataFrame, span: TimeWindow
) -> DataFrame:
    """Add the last day of use to limits that applied to no client in the look-back.

    Daily histograms are kept longest (25 months). They are read for clusters with such limits only, and of each day only
    the tags, which are grouped before the exchange.
    """
    undated_clusters = (
        unused_limits.where(fn.col("last_effective_ms").isNull()).select("cluster_id").distinct()
    )
    names = [
        row["cluster_id"] for row in bounded_rows.rows(undated_clusters, MOST_CLUSTERS, "clusters")
    ]
    if not names:
        return unused_limits
    days = reader.frame(spark, lake, USAGE_HIST_D, names, to_day=span.last_day)
    return dated(unused_limits, _tags_used(days), limits)


def _build_report(
    effective: DataFrame,
    unused_limits: DataFrame,
    snapshots: Mapping[str, SnapshotHeader],
    notes: tuple[str, ...],
    *,
    max_rows: int,
) -> FleetReport:
    reasons = report_rows.count_by_cluster(unused_limits, "reason")
    limited = effective.groupBy("cluster_id").agg(
        fn.count(fn.lit(1)).alias("resolved"), fn.count("level").alias("limited")
    )
    sums = {
        row["cluster_id"]: {"resolved": row["resolved"], "limited": row["limited"]}
        for row in bounded_rows.rows(limited, MOST_CLUSTERS, "clusters")
    }
    rows, remaining_rows = report_rows.first(
        effective, EffectiveRow, (*CLIENT, "quota_key"), max_rows
    )
    unused_rows, more_gone = report_rows.first(
        unused_limits,
        UnusedLimitRow,
        ("cluster_id", "reason", "entity_json", "quota_key"),
        max_rows,
    )
    remaining_by_table = {EFFECTIVE_QUOTA.name: remaining_rows, DEAD_QUOTA.name: more_gone}
    return FleetReport(
        about="resolve",
        clusters=tuple(
            ClusterTotals(
                cluster_id=cluster_id,
                look_ms=snapshot.observed_at_ms,
                counts={"resolved": 0, "limited": 0}
                | sums.get(cluster_id, {})
                | reasons.get(cluster_id, {}),
            )
            for cluster_id, snapshot in snapshots.items()
        ),
        effective=rows,
        dead=unused_rows,
        left_out={name: amount for name, amount in remaining_by_table.items() if amount},
        notes=notes,
    )
