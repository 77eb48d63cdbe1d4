"""Inputs that several jobs share: evidence notes, limits of buckets, coverage. Frames and bounded values."""

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import effective_limits
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.evidence.store.quota_snapshots import SnapshotHeader
from reconciler.evidence.store.recorded_window import NO_SAMPLES, evidence_note
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
    samples: dict[str, list[Manifest]] = {cluster_id: [] for cluster_id in clusters or ()}
    for manifest in lake.manifests(USAGE_SAMPLE, clusters, **days(span)):
        samples.setdefault(manifest.unit.cluster_id, []).append(manifest)
    return tuple(
        evidence_note(
            lake,
            cluster_id,
            manifests,
            (span.from_ms, span.to_ms),
            source=lake.store.redacted_address,
            made_ms=max((manifest.made_ms for manifest in manifests), default=0),
            snapshot_id=snapshots[cluster_id].snapshot_id if cluster_id in snapshots else "",
            stale="" if manifests else NO_SAMPLES,
        )
        for cluster_id, manifests in sorted(samples.items())
    )


def days(span: TimeWindow) -> dict[str, dt.date]:
    """Return the days of a window as arguments of :func:`reconciler.evidence.spark.tables.reader.frame`."""
    return {"from_day": span.first_day, "to_day": span.last_day}
