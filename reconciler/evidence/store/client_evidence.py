"""Reads what the lake has of one client in a window: its series and the limits that can apply to them, without a JVM."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store import quota_snapshots, recorded_window, sample_columns
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.state import QuotaState
from reconciler.usage.kernel.series import COLUMNS
from reconciler.usage.reports.client_throttling import ClientEvidence, ClientNames, is_own
from reconciler.usage.tables import USAGE_SAMPLE
from reconciler.usage.tags import Bucket, entities_of

_NAMES: Final = ("user", "client_id", "ip")
_SERIES: Final = ("quota_type", *sample_columns.BUCKET, "broker_id")


def client_evidence(
    lake: Lake, cluster_id: str, client: ClientNames, from_ms: int, to_ms: int
) -> ClientEvidence:
    """Return the evidence of one client in a window of a cluster.

    Raises:
        LakeError: The lake cannot be read.
        QuotaValueError: A sample is duplicated or out of range.
    """
    window = recorded_window.opened(lake, cluster_id, from_ms, to_ms)
    row_filter = (pc.field("ts_ms") >= from_ms) & (pc.field("ts_ms") < to_ms)
    for column, name in zip(_NAMES, client, strict=True):
        row_filter &= pc.field(column).isin(pa.array(["", *([name] if name else [])], pa.string()))
    rows = lake.read(window.samples, [*_SERIES, *COLUMNS], row_filter, table=USAGE_SAMPLE)
    buckets_by_type = {
        kind: {bucket for bucket in set().union(*buckets.values()) if is_own(client, bucket)}
        for kind, buckets in sample_columns.buckets_by_type(rows).items()
    }
    buckets = set[Bucket]().union(*buckets_by_type.values())
    return ClientEvidence(
        cluster_id=cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        cadence=window.cadence,
        series=recorded_window.series(rows, buckets_by_type),
        limits=_limits(lake, cluster_id, buckets, from_ms, to_ms),
        coverage_ppm=recorded_window.coverage_ppm(lake, cluster_id, from_ms, to_ms),
        is_partial=any(manifest.partial for manifest in window.samples),
        reason="" if window.rows else recorded_window.NO_SAMPLES,
    )


def _limits(
    lake: Lake, cluster_id: str, buckets: set[Bucket], from_ms: int, to_ms: int
) -> tuple[tuple[int, QuotaState], ...]:
    """Return the limits of these buckets in each snapshot of the window, after the one in force at its begin."""
    entities = {canonical_text(entity) for bucket in buckets for entity in entities_of(bucket)}
    matching = pa.array(sorted(entities), pa.string())
    snapshots = quota_snapshots.complete_snapshots(lake, cluster_id, from_ms, to_ms)
    return tuple(
        (
            header.observed_at_ms,
            quota_snapshots.state_of(
                rows.filter(pc.is_in(rows.column("entity_json"), matching)), cluster_id
            ),
        )
        for header, rows in snapshots.read()
        if rows is not None
    )
