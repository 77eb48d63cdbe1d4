"""Publishes evidence: a window of one cluster as files named by their SHA-256, then ``LATEST.json``."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeError
from reconciler.evidence.store import latest_pointer as latest_
from reconciler.evidence.store import scrape_interval as pace_
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.object_store import FileStore
from reconciler.evidence.store.files.row_groups import RowGroupFile
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.latest_pointer import (
    BUCKET_SEEN,
    EvidenceFile,
    LatestPointer,
    RetiredFile,
)
from reconciler.evidence.store.manifest import Manifest, UnitFile, states_of, states_of_all
from reconciler.evidence.store.quota_snapshots import ObservedLimits, observed_limits
from reconciler.evidence.store.recorded_window import coverage_ppm, gaps, missing_days
from reconciler.usage.samples import DAY_MS, Cadence, QuotaType, day_of
from reconciler.usage.tables import QUOTA_ENTRY, SCHEMA_VERSION, USAGE_SAMPLE, Table

WINDOW_DAYS: Final = 14
GRACE_MS: Final = 7 * DAY_MS
"""How long a file is kept after ``LATEST.json`` stopped listing it."""


def publish(
    lake: Lake,
    cluster_id: str,
    to: FileStore,
    from_ms: int | None,
    to_ms: int,
    *,
    pace: Cadence,
    now_ms: int,
    upload_all: bool = False,
) -> LatestPointer:
    """Publish a window of a cluster; upload only files that the destination does not have in their size.

    Files of samples are copied as they are. A file is named by its content; readers compare it with its digest.

    Args:
        lake: The lake that contains the samples.
        to: The destination; each cluster has a folder.
        from_ms: Start of the window, rounded down to a UTC day; ``None`` = :data:`WINDOW_DAYS` before the end.
        to_ms: End of the window, exclusive, after the last sample of its last day.
        pace: Scrape interval to use if no day of the window has one.
        upload_all: Whether existing files are uploaded again, to repair damaged ones.

    Raises:
        LakeError: The lake cannot be read, the destination cannot be written, or the window is empty.
    """
    begin = to_ms - WINDOW_DAYS * DAY_MS if from_ms is None else from_ms
    begin = max(begin, 0) // DAY_MS * DAY_MS
    if begin >= to_ms:
        raise LakeError(f"the window from {begin} to {to_ms} is empty")
    work = _Publication(lake, cluster_id, to, begin, to_ms, upload_all=upload_all)
    limits = observed_limits(lake, cluster_id, begin, to_ms)
    bucket_files = work.bucket_files()
    parts = [*work.copies(), *bucket_files, *work.limits(limits)]
    cadence = work.pace() or pace
    latest = LatestPointer(
        cluster_id=cluster_id,
        from_ms=begin,
        to_ms=to_ms,
        made_ms=now_ms,
        step_ms=cadence.step_ms,
        max_gap_ms=cadence.max_gap_ms,
        coverage_ppm=coverage_ppm(lake, cluster_id, begin, to_ms),
        snapshot_id=limits.snapshot.snapshot_id if limits.snapshot else "",
        observed_at_ms=limits.snapshot.observed_at_ms if limits.snapshot else 0,
        measured=work.measured(bucket_files),
        partial=gaps(work.manifests, begin, to_ms, limits),
        counts=work.counts(limits, begin),
        files=tuple(parts),
        retired=work.retired(parts, now_ms),
    )
    to.put(f"{work.folder}/{latest_.NAME}", latest.json())
    work.sweep(latest, now_ms)
    return latest


class _Publication:
    """One publication: the previous ``LATEST.json``, the files at the destination, the manifests of the lake."""

    def __init__(
        self,
        lake: Lake,
        cluster_id: str,
        to: FileStore,
        from_ms: int,
        to_ms: int,
        *,
        upload_all: bool,
    ) -> None:
        self.lake, self.cluster_id, self.to = lake, cluster_id, to
        self.to_ms, self._upload_all = to_ms, upload_all
        self.folder = latest_.folder(cluster_id)
        self.stored_files = {file.path: file for file in to.stored(self.folder)}
        self.before = self._before()
        self.old = {
            (evidence_file.table, evidence_file.day, evidence_file.source): evidence_file
            for evidence_file in (self.before.files if self.before else ())
        }
        first, last = day_of(from_ms), day_of(to_ms - 1)
        self.manifests = lake.manifests(USAGE_SAMPLE, [cluster_id], first, last)

    def pace(self) -> Cadence | None:
        """Return the scrape interval recorded with the days of the window; ``None`` if no day has one."""
        return pace_.of(self.manifests).get(self.cluster_id)

    def _before(self) -> LatestPointer | None:
        path = f"{self.folder}/{latest_.NAME}"
        content = self.to.find(path)
        try:
            return latest_.read(content, path, self.cluster_id) if content else None
        except LakeError:
            return None  # damaged or of another version: replaced, and all files are created again

    def copies(self) -> list[EvidenceFile]:
        """Return the files with the samples of each day, named by their content."""
        return [
            self._copied(manifest, file) for manifest in self.manifests for file in manifest.files
        ]

    def bucket_files(self) -> list[EvidenceFile]:
        """Return the counts of samples of each day that has samples."""
        return [
            evidence_file
            for manifest in self.manifests
            if (evidence_file := self._counted(manifest))
        ]

    def limits(self, observed: ObservedLimits) -> list[EvidenceFile]:
        """Return the limits in effect at the end, then those of the window that counted clients differently."""
        if observed.snapshot is None:
            return []
        snapshots = [
            (observed.snapshot.snapshot_id, observed.snapshot.observed_at_ms, observed.entries)
        ]
        snapshots += [_snapshot_of(rows) for rows in observed.earlier if rows.num_rows]
        return [
            part
            for name, at, rows in snapshots
            if (part := self._store_rows(QUOTA_ENTRY, day_of(at), rows, name))
        ]

    def _copied(self, manifest: Manifest, file: UnitFile) -> EvidenceFile:
        table, day = manifest.unit.table, manifest.unit.day
        old = self.old.get((table.name, day, file.sha256))
        if old is not None and self._is_there(old):
            return old
        return self._store_file(table, day, self.lake.content(file), file.rows, file.sha256)

    def _counted(self, manifest: Manifest) -> EvidenceFile | None:
        digests = [str(SCHEMA_VERSION), *(file.sha256 for file in manifest.files)]
        source = hashlib.sha256(" ".join(digests).encode()).hexdigest()
        old = self.old.get((BUCKET_SEEN.name, manifest.unit.day, source))
        if old is not None and self._is_there(old):
            return old
        rows = self._count_samples(manifest)
        return self._store_rows(BUCKET_SEEN, manifest.unit.day, rows, source)

    def _count_samples(self, made_from: Manifest) -> pa.Table:
        """Count the samples of each bucket and broker, one row group at a time because a day can be large."""
        names = list(BUCKET_SEEN.key)
        tables = [arrow_tables.schema(BUCKET_SEEN).empty_table().select([*names, "samples"])]
        for file in made_from.files:
            for rows in RowGroupFile(self.lake.store, file, USAGE_SAMPLE).batches(
                [*names, "ts_ms"]
            ):
                sample_counts = rows.group_by(names).aggregate([("ts_ms", "count")])
                columns = [
                    *(sample_counts.column(name).cast(pa.string()) for name in names),
                    sample_counts.column("ts_ms_count"),
                ]
                tables.append(pa.table(columns, schema=tables[0].schema))
        total = pa.concat_tables(tables).group_by(names).aggregate([("samples", "sum")])
        days = pa.array([made_from.unit.day] * total.num_rows, pa.date32())
        values = [*(total.column(name) for name in names), total.column("samples_sum"), days]
        return pa.table(values, schema=arrow_tables.schema(BUCKET_SEEN))

    def _store_rows(
        self, table: Table, day: date, rows: pa.Table, source: str
    ) -> EvidenceFile | None:
        if not rows.num_rows:
            return None
        content = parquet_files.write_parquet(table, rows)
        return self._store_file(table, day, content, rows.num_rows, source)

    def _store_file(
        self, table: Table, day: date, content: bytes, rows: int, source: str
    ) -> EvidenceFile:
        digest = hashlib.sha256(content).hexdigest()
        evidence_file = EvidenceFile(
            path=f"{self.folder}/{table.name}/{day.isoformat()}-{digest}.parquet",
            size=len(content),
            rows=rows,
            sha256=digest,
            table=table.name,
            day=day,
            source=source,
            end_sha256=hashlib.sha256(parquet_files.end_of(content)).hexdigest(),
        )
        if not self._is_there(evidence_file):
            self.to.put(evidence_file.path, content)
        return evidence_file

    def _is_there(self, part: EvidenceFile) -> bool:
        stored_file = self.stored_files.get(part.path)
        return not self._upload_all and stored_file is not None and stored_file.size == part.size

    def measured(self, bucket_files: Iterable[EvidenceFile]) -> tuple[QuotaType, ...]:
        """Return the quota types with any recorded bucket; brokers have no rate metrics for a type without quotas."""
        quota_types: set[str] = set()
        for evidence_file in bucket_files:
            path = evidence_file.path
            rows = parquet_files.read(
                BUCKET_SEEN, self.to.get(path), path=path, columns=["quota_type"]
            )
            quota_types.update(pc.unique(rows.column("quota_type")).to_pylist())
        return tuple(kind for kind in QuotaType if str(kind) in quota_types)

    def counts(self, limits: ObservedLimits, from_ms: int) -> Mapping[str, int]:
        """Return the state counts of all days, added up."""
        state_counts = {
            "quota_changes": limits.changes,
            "days": (day_of(self.to_ms - 1) - day_of(from_ms)).days + 1,
            "days_missing": len(missing_days(self.manifests, from_ms, self.to_ms)),
            **{f"{latest_.BEYOND} {key}": 1 for key in sorted(limits.beyond)},
        }
        return states_of(states_of_all(self.manifests) | state_counts)

    def retired(self, parts: Sequence[EvidenceFile], now_ms: int) -> tuple[RetiredFile, ...]:
        """Return files that are no longer listed and that were retired less than :data:`GRACE_MS` ago."""
        if self.before is None:
            return ()
        published_paths = {evidence_file.path for evidence_file in parts}
        since = {retired_file.path: retired_file.since_ms for retired_file in self.before.retired}
        for evidence_file in self.before.files:
            since[evidence_file.path] = now_ms
        return tuple(
            RetiredFile(path=path, since_ms=at)
            for path, at in sorted(since.items())
            if path not in published_paths and at > now_ms - GRACE_MS
        )

    def sweep(self, latest: LatestPointer, now_ms: int) -> None:
        """Remove files that are neither listed nor retired and are older than :data:`GRACE_MS`."""
        retained_paths = {evidence_file.path for evidence_file in latest.files} | {
            retired_file.path for retired_file in latest.retired
        }
        self.to.delete(
            path
            for path, file in self.stored_files.items()
            if path not in retained_paths
            and file.modified_ms <= now_ms - GRACE_MS
            and path != f"{self.folder}/{latest_.NAME}"
        )


def _snapshot_of(rows: pa.Table) -> tuple[str, int, pa.Table]:
    """Return the id, time and rows of a snapshot that has rows."""
    name, at = (rows.column(column)[0].as_py() for column in ("snapshot_id", "observed_at_ms"))
    return name, at, rows
