"""Reads published evidence for previews without a JVM: buckets, limits, and the series of a few buckets."""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from threading import Lock
from typing import Final

import pyarrow as pa

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import latest_pointer as latest_
from reconciler.evidence.store import sample_columns
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.object_store import FileStore
from reconciler.evidence.store.files.row_groups import RowGroupFile, matches
from reconciler.evidence.store.files.thread_pool import AT_ONCE, each
from reconciler.evidence.store.json_files import MOST_BYTES
from reconciler.evidence.store.latest_pointer import (
    BUCKET_SEEN,
    EvidenceFile,
    LatestPointer,
)
from reconciler.evidence.store.manifest import states_of
from reconciler.evidence.store.quota_snapshots import state_of
from reconciler.evidence.store.sample_columns import BUCKET, BucketsByType
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.samples import Cadence, QuotaType, cadence
from reconciler.usage.tables import QUOTA_ENTRY, USAGE_SAMPLE
from reconciler.usage.tags import Bucket

AHEAD_MS: Final = 600_000
"""Maximum difference by which the publisher's clock may be ahead of the local clock."""

MOST_SAMPLES: Final = 10_000_000
"""Maximum number of samples of all buckets that one plan reads; each needs 100 bytes while it is read."""

_UNITS: Final = ((3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"), (1, "milliseconds"))
UNKNOWN_PACE: Final = cadence(30_000)
"""The cadence of empty evidence."""

_PLACE: Final = ("quota_type", *BUCKET)
_VALUES: Final = ("broker_id", "ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvidence:
    """The evidence of one cluster; empty if :attr:`note` states why it cannot be used."""

    note: EvidenceNote
    # The limits in effect at the end of the window; None if there is no snapshot.
    state: QuotaState | None = None
    # The limits under which the window was recorded; None if there is no snapshot.
    recorded: RecordedLimits | None = None
    cadence: Cadence = UNKNOWN_PACE
    _measured: frozenset[QuotaType] = frozenset()
    _buckets: BucketsByType = field(default_factory=dict[QuotaType, dict[str, set[Bucket]]])
    _files: tuple[RowGroupFile, ...] = ()

    def measured(self, kind: QuotaType) -> bool:
        """Whether any bucket of this type was recorded; if not, missing samples do not mean that there was no use."""
        return kind in self._measured

    def buckets_by_broker(self, kind: QuotaType) -> Mapping[str, AbstractSet[Bucket]]:
        """Return the recorded buckets by broker id."""
        return self._buckets.get(kind, {})

    def series(
        self, kind: QuotaType, buckets: Collection[Bucket]
    ) -> dict[Bucket, dict[str, SampleSeries]]:
        """Return the samples of some buckets by broker; buckets and brokers without samples are left out.

        Only row groups that may contain the buckets are fetched. Where the broker answered and the bucket had no value,
        the assembled days have samples of zero.

        Raises:
            LakeError: A file is damaged or cannot be fetched, or there are more than :data:`MOST_SAMPLES` samples.
            QuotaValueError: A sample is duplicated or out of range.
        """
        unique_buckets = sorted(set(buckets))
        if not unique_buckets or not self._files:
            return {}
        keys = [
            (str(kind), str(bucket.kind), bucket.user, bucket.client_id, bucket.ip)
            for bucket in unique_buckets
        ]

        budget = _SampleBudget()

        def read(file: RowGroupFile) -> list[pa.Table]:
            groups = file.groups(_PLACE, keys)
            certain = sum(file.equal_rows(at, _PLACE) for at in groups)
            budget.take(certain)
            tables = [
                matching_rows
                for at in groups
                if (matching_rows := _matching(file.read([at], (*_PLACE, *_VALUES)), keys)).num_rows
            ]
            budget.take(sum(table.num_rows for table in tables) - certain)
            return tables

        tables = list(chain.from_iterable(each(read, self._files)))
        series_by_bucket: dict[Bucket, dict[str, SampleSeries]] = {}
        rows = pa.concat_tables(tables).unify_dictionaries() if tables else None
        for (number, broker), samples in (
            sample_columns.series_by(rows, ("number", "broker_id")) if rows else ()
        ):
            series_by_bucket.setdefault(unique_buckets[number], {})[broker] = samples
        return series_by_bucket


class _SampleBudget:
    """Limits the samples that one query reads from all files."""

    def __init__(self) -> None:
        self._left = MOST_SAMPLES
        self._lock = Lock()

    def take(self, samples: int) -> None:
        """Subtract ``samples`` from the budget.

        Raises:
            LakeError: The budget is exceeded.
        """
        with self._lock:
            self._left -= samples
            if self._left < 0:
                raise LakeError(
                    f"the buckets that are asked for have more than {MOST_SAMPLES:,} samples",
                    hint="change fewer limits at once, or answer with kquota spark simulate, which has no such limit",
                )


def _matching(rows: pa.Table, keys: Sequence[tuple[str, ...]]) -> pa.Table:
    """Return the rows of the requested buckets, with the index of the bucket in place of its name."""
    numbers = matches(rows, _PLACE, keys)
    return rows.select(_VALUES).append_column("number", numbers).filter(numbers.is_valid())


def opened(store: FileStore, cluster_id: str, now_ms: int, max_age_ms: int) -> PublishedEvidence:
    """Open the evidence that was last published for a cluster; series are not read yet.

    Evidence that is missing, too old, damaged or of a newer version is no error: the result is empty and its note
    states the reason.

    Args:
        store: The store that contains the evidence.
        max_age_ms: Maximum age of the end of the window.

    Raises:
        LakeError: The store denies access or does not answer.
    """
    path = f"{latest_.folder(cluster_id)}/{latest_.NAME}"
    location = store.display_path(path)
    try:
        content = store.find(path, max_bytes=MOST_BYTES)
        latest = None if content is None else latest_.read(content, location, cluster_id)
    except LakeDamaged as error:
        return _none(cluster_id, location, _reason(error))
    if latest is None:
        return _none(cluster_id, location, f"{location}: no evidence of this cluster was published")
    note = _note(latest, location)
    reason = _too_old(latest, now_ms, max_age_ms)
    if not reason and not latest.of(USAGE_SAMPLE):
        reason = "the window holds no sample"
    if reason:
        return _none(cluster_id, location, reason, note)
    try:
        return _load_evidence(store, latest, note)
    except LakeDamaged as error:
        return _none(cluster_id, location, _reason(error), note)
    except ValueError as error:  # an enumeration does not have the value
        return _none(cluster_id, location, f"a file has an unknown value: {error}", note)


def _load_evidence(
    store: FileStore, latest: LatestPointer, note: EvidenceNote
) -> PublishedEvidence:
    """Load the small tables and the Parquet footers of the sample files."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = pool.map(
            lambda evidence_file: RowGroupFile(
                store,
                evidence_file,
                USAGE_SAMPLE,
                evidence_file.end_sha256,
            ),
            latest.of(USAGE_SAMPLE),
        )
        observed_tables = pool.map(
            lambda evidence_file: _small(store, evidence_file), latest.of(BUCKET_SEEN)
        )
        limits = pool.map(
            lambda evidence_file: (evidence_file.source, _small(store, evidence_file)),
            latest.of(QUOTA_ENTRY),
        )
        states = {name: state_of(rows, latest.cluster_id) for name, rows in limits}
        if latest.snapshot_id:  # a snapshot without limits has no file
            _ = states.setdefault(latest.snapshot_id, QuotaState())
        return PublishedEvidence(
            note=note,
            state=states.get(latest.snapshot_id),
            recorded=_recorded(latest, states),
            cadence=latest.cadence,
            _measured=frozenset(latest.measured),
            _buckets=sample_columns.buckets_by_type(
                pa.concat_tables([arrow_tables.schema(BUCKET_SEEN).empty_table(), *observed_tables])
            ),
            _files=tuple(files),
        )


def _recorded(latest: LatestPointer, states: Mapping[str, QuotaState]) -> RecordedLimits | None:
    """Return the limits of the window from the snapshots that have a file."""
    overflowing_keys = frozenset(key for key in Key if latest.counts.get(f"{latest_.BEYOND} {key}"))
    return (
        RecordedLimits(states=tuple(states.values()), beyond=overflowing_keys) if states else None
    )


def _small(store: FileStore, file: EvidenceFile) -> pa.Table:
    location = store.display_path(file.path)
    content = store.get(file.path, max_bytes=file.size + 1)
    parquet_files.check_same(content, size=file.size, sha256=file.sha256, path=location)
    return parquet_files.read(latest_.TABLES[file.table], content, path=location, rows=file.rows)


def _note(latest: LatestPointer, source: str) -> EvidenceNote:
    return EvidenceNote(
        cluster_id=latest.cluster_id,
        source=source,
        from_ms=latest.from_ms,
        to_ms=latest.to_ms,
        made_ms=latest.made_ms,
        step_ms=latest.step_ms,
        coverage_ppm=latest.coverage_ppm,
        snapshot_id=latest.snapshot_id,
        partial=latest.partial,
        counts={  # earlier publications also have coverage and zeros
            name: amount
            for name, amount in states_of(latest.counts).items()
            if not name.startswith(latest_.BEYOND)
        },
    )


def _too_old(latest: LatestPointer, now_ms: int, max_age_ms: int) -> str:
    ends = datetime.fromtimestamp(latest.to_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if latest.made_ms > now_ms + AHEAD_MS:
        return "its publication time is in the future: check the clocks of both machines"
    if now_ms - latest.to_ms > max_age_ms:
        return f"it ends {ends}, {_ages(now_ms - latest.to_ms, max_age_ms)}"
    return ""


def _ages(age_ms: int, allowed_ms: int) -> str:
    """Return ``72 hours ago; 48 are allowed``, in the largest unit in which the limit is whole and the two differ."""
    size, name = next(
        (size, name)
        for size, name in _UNITS
        if allowed_ms % size == 0 and age_ms // size > allowed_ms // size
    )
    return f"{age_ms // size:,} {name} ago; {allowed_ms // size:,} are allowed"


def _none(
    cluster_id: str, source: str, reason: str, note: EvidenceNote | None = None
) -> PublishedEvidence:
    empty = note or EvidenceNote(cluster_id=cluster_id, source=source)
    return PublishedEvidence(note=replace(empty, stale=reason))


def _reason(error: LakeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
