"""What several jobs need to know first: evidence notes, the limits of buckets, what was measured. Frames and bounded values."""

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.lake import pace
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Manifest, states_of_all
from reconciler.spark import bounded, reading, resolve
from reconciler.spark.resolve import BUCKET
from reconciler.spark.span import Span
from reconciler.usage.findings import Evidence
from reconciler.usage.samples import KEY_OF, MILLION, ValueState
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import GroupKind

MOST_CLUSTERS: Final = 100_000

_NAMED: Final = {
    GroupKind.USER: ("named", "absent", "absent"),
    GroupKind.CLIENT: ("absent", "named", "absent"),
    GroupKind.PAIR: ("named", "named", "absent"),
    GroupKind.IP: ("absent", "absent", "named"),
}
"""Kinds of the three slots of an entity that is one bucket by itself."""


def in_force(
    spark: SparkSession, lake: Lake, clusters: Collection[str] | None, span: Span
) -> DataFrame:
    """The limits of each cluster as of the last complete look before the window ends: rows of ``quota_entry``."""
    entries = reading.frame(spark, lake, QUOTA_ENTRY, clusters, to_day=span.last_day)
    looks = reading.frame(spark, lake, SNAPSHOT, clusters, to_day=span.last_day)
    before = fn.col("observed_at_ms") < span.to_ms
    return resolve.latest(entries.where(before), looks.where(before))


def limits_of(buckets: DataFrame, entries: DataFrame) -> DataFrame:
    """The buckets that have a limit which can be computed with: ``BUCKET``, ``limit_units``, ``source_entity``.

    Args:
        buckets: ``BUCKET``, each once.
        entries: What :func:`in_force` gave.
    """
    return (
        resolve.tags(buckets.select(*BUCKET), entries)
        .where(fn.col("value_state") == str(ValueState.FINITE))
        .select(*BUCKET, fn.col("quota_units").alias("limit_units"), "source_entity")
    )


def named_limits(entries: DataFrame) -> DataFrame:
    """Limits of entities that are one bucket by themselves, seen or not; columns as :func:`limits_of`."""
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
    spark: SparkSession, lake: Lake, clusters: Collection[str] | None, span: Span
) -> tuple[Evidence, ...]:
    """On what a report about a window rests, one note per cluster that has samples or was asked for.

    The coverage is that of the broker that was seen least; a cluster without samples says so in ``stale``.
    """
    samples = lake.manifests(USAGE_SAMPLE, clusters, **days(span))
    there = {one.unit.cluster_id for one in samples}
    paces = pace.of(samples)
    looks = reading.frame(spark, lake, SNAPSHOT, clusters, to_day=span.last_day)
    covered = covered_ppm(spark, lake, clusters, span)
    last = _last_looks(looks, span)
    return tuple(
        Evidence(
            cluster_id=one,
            source=lake.store.shown,
            from_ms=span.from_ms,
            to_ms=span.to_ms,
            made_ms=max(
                (found.made_ms for found in samples if found.unit.cluster_id == one), default=0
            ),
            step_ms=paces[one].step_ms if one in paces else 0,
            coverage_ppm=covered.get(one, 0),
            snapshot_id=last.get(one, ""),
            partial=_partial(found for found in samples if found.unit.cluster_id == one),
            counts=states_of_all(found for found in samples if found.unit.cluster_id == one),
            stale="" if one in there else "no samples were recorded in this window",
        )
        for one in sorted(there | set(clusters or ()))
    )


def covered_ppm(
    spark: SparkSession, lake: Lake, clusters: Collection[str] | None, span: Span
) -> dict[str, int]:
    """The share of a window in which brokers answered, in millionths: of each cluster, of the broker that was seen least."""
    up = reading.frame(spark, lake, TARGET_UP, clusters, **days(span))
    inside = (fn.col("ts_ms") >= span.from_ms) & (fn.col("ts_ms") < span.to_ms)
    lasted = fn.when(fn.col("up"), fn.col("dt_ms").cast("bigint")).otherwise(
        fn.lit(0).cast("bigint")
    )
    by_broker = up.where(inside).groupBy("cluster_id", "broker_id").agg(fn.sum(lasted).alias("ms"))
    least = by_broker.groupBy("cluster_id").agg(fn.min("ms").alias("ms"))
    whole = span.to_ms - span.from_ms
    rows = bounded.rows(least, MOST_CLUSTERS, "clusters")
    return {one.cluster_id: min(MILLION, one.ms * MILLION // whole) for one in rows}


def _last_looks(looks: DataFrame, span: Span) -> dict[str, str]:
    whole = looks.where(fn.col("complete") & (fn.col("observed_at_ms") < span.to_ms))
    last = whole.groupBy("cluster_id").agg(
        fn.max(fn.struct("observed_at_ms", "snapshot_id")).alias("last")
    )
    rows = bounded.rows(last, MOST_CLUSTERS, "clusters")
    return {one.cluster_id: one["last"].snapshot_id for one in rows}


def _partial(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(f"{one.unit.day}: {text}" for one in manifests for text in one.partial)
    )[:20]


def days(span: Span) -> dict[str, dt.date]:
    """The days of a window as :func:`reconciler.spark.reading.frame` takes them."""
    return {"from_day": span.first_day, "to_day": span.last_day}
