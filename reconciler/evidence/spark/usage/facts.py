"""Inputs that several jobs share: evidence notes, limits of buckets, coverage. Frames and bounded values."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits import effective_limits
from reconciler.evidence.spark.limits.effective_limits import BUCKET
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, states_of_all
from reconciler.evidence.store.quota_snapshots import SnapshotHeader
from reconciler.evidence.store.recorded_window import coverage_ppm
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.samples import KEY_OF, ValueState
from reconciler.usage.tables import USAGE_SAMPLE
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
        entries: Limits of one snapshot per cluster (:func:`reconciler.evidence.spark.tables.reader.limits_of_snapshots`).
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
    lake: Lake,
    clusters: Collection[str] | None,
    span: TimeWindow,
    snapshots: Mapping[str, SnapshotHeader],
) -> tuple[EvidenceNote, ...]:
    """Return the evidence of a report about a window, one note per cluster that has samples or is in ``clusters``.

    The coverage is that of the broker with the fewest answers; ``stale`` reports a cluster without samples.

    Args:
        lake: The lake with the samples.
        clusters: Cluster ids; all by default.
        snapshots: Snapshots of the limits (:func:`reconciler.evidence.store.quota_snapshots.last_snapshots`).
    """
    samples = lake.manifests(USAGE_SAMPLE, clusters, **days(span))
    clusters_with_samples = {manifest.unit.cluster_id for manifest in samples}
    paces = scrape_interval.of(samples)
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
            coverage_ppm=coverage_ppm(lake, cluster_id, span.from_ms, span.to_ms),
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


def _partial(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            f"{manifest.unit.day}: {text}" for manifest in manifests for text in manifest.partial
        )
    )[:20]


def days(span: TimeWindow) -> dict[str, dt.date]:
    """Return the days of a window as arguments of :func:`reconciler.evidence.spark.tables.reader.frame`."""
    return {"from_day": span.first_day, "to_day": span.last_day}
