"""Inputs that several jobs share: evidence notes, limits of buckets, coverage. Frames and bounded values."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits import effective_limits
from reconciler.evidence.spark.limits.effective_limits import BUCKET
from reconciler.evidence.spark.tables import bounded_rows, reader
from reconciler.evidence.spark.tables.latest_snapshots import (
    MOST_CLUSTERS,
    LatestSnapshot,
)
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, states_of_all
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.samples import KEY_OF, MILLION, ValueState
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import GroupKind

_NAMED: Final = {
    GroupKind.USER: ("named", "absent", "absent"),
    GroupKind.CLIENT: ("absent", "named", "absent"),
    GroupKind.PAIR: ("named", "named", "absent"),
    GroupKind.IP: ("absent", "absent", "named"),
}
"""Kinds of the three slots of an entity that matches exactly one bucket."""


def limits_of(buckets: DataFrame, entries: DataFrame) -> DataFrame:
    """Return the buckets that have a finite limit: ``BUCKET``, ``limit_units``, ``source_entity``.

    Args:
        buckets: ``BUCKET``, each once.
        entries: Limits of one snapshot per cluster (:func:`reconciler.evidence.spark.tables.latest_snapshots.limits`).
    """
    return (
        effective_limits.tags(buckets.select(*BUCKET), entries)
        .where(fn.col("value_state") == str(ValueState.FINITE))
        .select(*BUCKET, fn.col("quota_units").alias("limit_units"), "source_entity")
    )


def named_limits(entries: DataFrame) -> DataFrame:
    """Return the finite limits of entities that match exactly one bucket, used or not; columns as :func:`limits_of`."""
    kinds = fn.struct("user_kind", "client_kind", "ip_kind")
    group = fn.lit(None).cast("string")
    for kind, (user, client_id, ip) in _NAMED.items():
        this = fn.struct(fn.lit(user), fn.lit(client_id), fn.lit(ip))
        group = fn.when(kinds == this, fn.lit(str(kind))).otherwise(group)
    type_of = fn.lit(None).cast("string")
    for quota_type, key in KEY_OF.items():
        type_of = fn.when(fn.col("quota_key") == str(key), fn.lit(str(quota_type))).otherwise(
            type_of
        )
    return (
        entries.where(fn.col("value_state") == str(ValueState.FINITE))
        .withColumn("group_kind", group)
        .withColumn("quota_type", type_of)
        .where(fn.col("group_kind").isNotNull() & fn.col("quota_type").isNotNull())
        .select(
            *BUCKET,
            fn.col("quota_units").alias("limit_units"),
            fn.col("entity_json").alias("source_entity"),
        )
    )


def evidence(
    spark: SparkSession,
    lake: Lake,
    clusters: Collection[str] | None,
    span: TimeWindow,
    snapshots: Mapping[str, LatestSnapshot],
) -> tuple[EvidenceNote, ...]:
    """Return the evidence of a report about a window, one note per cluster that has samples or is in ``clusters``.

    The coverage is that of the broker with the fewest answers; ``stale`` reports a cluster without samples.

    Args:
        spark: The session.
        lake: The lake with the samples.
        clusters: Cluster ids; all by default.
        span: The window.
        snapshots: Snapshots of the limits (:func:`reconciler.evidence.spark.tables.latest_snapshots.last_snapshots`).
    """
    samples = lake.manifests(USAGE_SAMPLE, clusters, **days(span))
    clusters_with_samples = {manifest.unit.cluster_id for manifest in samples}
    paces = scrape_interval.of(samples)
    covered = covered_ppm(spark, lake, clusters, span)
    return tuple(
        EvidenceNote(
            cluster_id=cluster_id,
            source=lake.store.redacted_address,
            from_ms=span.from_ms,
            to_ms=span.to_ms,
            made_ms=max(
                (
                    manifest.created_ms
                    for manifest in samples
                    if manifest.unit.cluster_id == cluster_id
                ),
                default=0,
            ),
            step_ms=paces[cluster_id].step_ms if cluster_id in paces else 0,
            coverage_ppm=covered.get(cluster_id, 0),
            snapshot_id=snapshots[cluster_id].snapshot_id if cluster_id in snapshots else "",
            partial=_partial(
                manifest for manifest in samples if manifest.unit.cluster_id == cluster_id
            ),
            counts=states_of_all(
                manifest for manifest in samples if manifest.unit.cluster_id == cluster_id
            ),
            stale=""
            if cluster_id in clusters_with_samples
            else "no samples were recorded in this window",
        )
        for cluster_id in sorted(clusters_with_samples | set(clusters or ()))
    )


def covered_ppm(
    spark: SparkSession, lake: Lake, clusters: Collection[str] | None, span: TimeWindow
) -> dict[str, int]:
    """Return the share of a window in which brokers answered, in millionths, by cluster: that of the broker with the lowest share."""
    up = reader.frame(spark, lake, TARGET_UP, clusters, **days(span))
    in_window = (fn.col("ts_ms") >= span.from_ms) & (fn.col("ts_ms") < span.to_ms)
    lasted = fn.when(fn.col("up"), fn.col("dt_ms").cast("bigint")).otherwise(
        fn.lit(0).cast("bigint")
    )
    by_broker = (
        up.where(in_window).groupBy("cluster_id", "broker_id").agg(fn.sum(lasted).alias("ms"))
    )
    least = by_broker.groupBy("cluster_id").agg(fn.min("ms").alias("ms"))
    window_ms = span.to_ms - span.from_ms
    rows = bounded_rows.rows(least, MOST_CLUSTERS, "clusters")
    return {row.cluster_id: min(MILLION, row.ms * MILLION // window_ms) for row in rows}


def _partial(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            f"{manifest.unit.day}: {text}" for manifest in manifests for text in manifest.partial
        )
    )[:20]


def days(span: TimeWindow) -> dict[str, dt.date]:
    """Return the days of a window as arguments of :func:`reconciler.evidence.spark.tables.reader.frame`."""
    return {"from_day": span.first_day, "to_day": span.last_day}
