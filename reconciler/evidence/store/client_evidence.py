"""Reads what the lake has of one client in a window: its series and the limits that can apply to them."""

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import QuotaValueError
from reconciler.evidence.store import quota_snapshots, recorded_window, samples
from reconciler.evidence.store.lake import LakeReader
from reconciler.quota.entity import canonical_text, from_parts
from reconciler.quota.keys import Key
from reconciler.quota.results.audit_entry import AuditEntry
from reconciler.quota.state import QuotaState
from reconciler.usage.reports.client_throttling import ClientEvidence, ClientNames, is_own
from reconciler.usage.tags import Bucket, entities_of


def client_evidence(
    lake: LakeReader,
    cluster_id: str,
    client: ClientNames,
    from_ms: int,
    to_ms: int,
    *,
    at_ms: int | None = None,
    changes: Sequence[AuditEntry] = (),
) -> ClientEvidence:
    """Return the evidence of one client in a window of a cluster.

    Args:
        at_ms: The time in question.
        changes: What the audit log says of limits, in order of time; entries of other clusters are ignored.

    Raises:
        LakeError: The lake cannot be read.
        QuotaValueError: A sample is duplicated or out of range.
    """
    window = recorded_window.opened(lake, cluster_id, from_ms, to_ms)
    recorded = samples.recorded_series(window.samples, (from_ms, to_ms))
    keys = [key for key in recorded if is_own(client, samples.parts_of(key)[1])]
    series = samples.read_runs(
        [day.file for day in window.samples], (from_ms, to_ms), keys
    ).by_bucket()
    buckets = {bucket for of_kind in series.values() for bucket in of_kind}
    return ClientEvidence(
        note=recorded_window.evidence_note(
            lake,
            cluster_id,
            window.samples,
            (from_ms, to_ms),
            source="",
            made_ms=0,
            snapshot_id=window.snapshot_id,
            stale="" if recorded else recorded_window.NO_SAMPLES,
        ),
        cadence=window.cadence,
        series=series,
        limits=_limits(lake, cluster_id, buckets, (from_ms, to_ms), changes),
        at_ms=at_ms,
        silent_brokers=()
        if at_ms is None
        else recorded_window.silent_brokers(
            lake, cluster_id, (from_ms, to_ms + window.cadence.max_gap_ms), at_ms
        ),
    )


def _limits(
    lake: LakeReader,
    cluster_id: str,
    buckets: set[Bucket],
    window: tuple[int, int],
    changes: Iterable[AuditEntry],
) -> tuple[tuple[int, QuotaState], ...]:
    """Return the limits of these buckets in each snapshot of the window, in the ones before and after it, and after changes."""
    entities = {canonical_text(entity) for bucket in buckets for entity in entities_of(bucket)}
    matching = pa.array(sorted(entities), pa.string())
    snapshots = quota_snapshots.complete_snapshots(lake, cluster_id, window[0])
    limits = [
        (
            header.observed_at_ms,
            quota_snapshots.state_of(
                rows.filter(pc.is_in(rows.column("entity_json"), matching)), cluster_id
            ),
        )
        for header, rows in snapshots.read()
        if rows is not None
    ]
    for entry in changes:
        is_made = entry.cluster_id == cluster_id and entry.outcome == MADE
        with contextlib.suppress(QuotaValueError, ValueError):  # written by another version
            at_ms = round(datetime.fromisoformat(entry.time).timestamp() * 1000)
            number = bisect_right([moment for moment, _ in limits], at_ms)
            entity, key = from_parts(entry.entity), Key(entry.key)
            value = None if entry.after is None else float(entry.after)
            # What was in force before the first snapshot is not known.
            if number and is_made and canonical_text(entity) in entities:
                state = limits[number - 1][1].with_values([(entity, key, value)])
                limits.insert(number, (at_ms, state))
    after = [number for number, (at_ms, _) in enumerate(limits) if at_ms >= window[1]]
    return tuple(limits[: after[0] + 1] if after else limits)


MADE: Final = "APPLIED"
"""Outcome of an entry whose change was made."""
