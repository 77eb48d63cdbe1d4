"""The root of previews: the last days of a cluster in the same tables, for planners with a key to that alone.

It is written by :func:`publish`; a plan reads buckets, limits, and the series of a few buckets.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.files.table_reader import TableReader
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.samples import BucketsByType
from reconciler.evidence.store.stored_days import Unit, cluster_folder
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.series import IntColumn, SampleSeries
from reconciler.usage.samples import Cadence, QuotaType, cadence, day_of, start_of
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    QUOTA_ENTRY,
    SNAPSHOT,
    TARGET_UP,
    USAGE_SAMPLE,
    Table,
)
from reconciler.usage.tags import Bucket

if TYPE_CHECKING:  # a plan writes nothing, and obstore takes time to load
    from reconciler.evidence.store.files.table_store import TableStore

AHEAD_MS: Final = 600_000
"""Maximum difference by which the writer's clock may be ahead of the local clock."""

MOST_SAMPLES: Final = 10_000_000
"""Maximum number of samples of all buckets that one plan reads; each needs 100 bytes while it is read."""

_UNITS: Final = ((3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"), (1, "milliseconds"))
_TOTALS: Final = {QuotaType.PRODUCE: "bytes_in", QuotaType.FETCH: "bytes_out"}
"""The columns of a broker's total rates."""

UNKNOWN_PACE: Final = cadence(30_000)
"""The cadence of empty evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvidence:
    """The evidence of one cluster; empty if :attr:`note` states why it cannot be used."""

    note: EvidenceNote
    # The limits in effect at the end of the window; None if there is no snapshot.
    state: QuotaState | None = None
    # The limits under which the window was recorded; None if there is no snapshot.
    recorded: RecordedLimits | None = None
    cadence: Cadence = UNKNOWN_PACE
    _buckets: BucketsByType = field(default_factory=dict[QuotaType, dict[str, set[Bucket]]])
    _rows: Mapping[Key, int] = field(default_factory=dict[Key, int])
    _files: tuple[TableFile, ...] = ()
    _lake: LakeReader | None = None

    def measured(self, kind: QuotaType) -> bool:
        """Whether any bucket of this type was recorded; if not, missing samples do not mean that there was no use."""
        return kind in self._buckets

    def buckets_by_broker(self, kind: QuotaType) -> Mapping[str, AbstractSet[Bucket]]:
        """Return the recorded buckets by broker id."""
        return self._buckets.get(kind, {})

    def broker_rates(self, kind: QuotaType) -> dict[str, tuple[IntColumn, IntColumn]]:
        """Return times and rates of all bytes without replication by broker; empty for a type that counts no bytes.

        Raises:
            LakeError: A file is damaged or cannot be fetched.
        """
        column = _TOTALS.get(kind)
        if column is None or self._lake is None:
            return {}
        window = self.note.from_ms, self.note.to_ms
        days = self._lake.days(
            BROKER_SAMPLE, [self.note.cluster_id], day_of(window[0]), day_of(window[1] - 1)
        )
        names = ["broker_id", "ts_ms", column]
        rows = self._lake.read(days, names, table=BROKER_SAMPLE, window=window).drop_null()
        brokers = rows["broker_id"].to_numpy()
        columns = [rows[name].to_numpy() for name in ("ts_ms", column)]
        return {
            str(broker): (columns[0][brokers == broker], columns[1][brokers == broker])
            for broker in sorted(set(brokers))
        }

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
        wanted_keys = sorted(
            samples.key_of(kind, bucket, broker)
            for broker, of_broker in self.buckets_by_broker(kind).items()
            for bucket in of_broker & frozenset(buckets)
        )
        if sum(self._rows[key] for key in wanted_keys) > MOST_SAMPLES:
            raise LakeError(
                f"the buckets that are asked for have more than {MOST_SAMPLES:,} samples",
                hint="change fewer limits at once, or answer with kquota usage simulate, which has no such limit",
            )
        window = self.note.from_ms, self.note.to_ms
        return samples.read_runs(self._files, window, wanted_keys).by_bucket().get(kind, {})


def opened(reader: TableReader, cluster_id: str, now_ms: int, max_age_ms: int) -> PublishedEvidence:
    """Open the evidence of a cluster; series are not read yet.

    Evidence that is missing, too old, damaged or of another version is no error: the result is empty and its note states
    the reason.

    Args:
        reader: The root of previews.
        max_age_ms: Maximum age of the end of the window.

    Raises:
        LakeError: The store denies access or does not answer.
    """
    location = reader.display_path(cluster_folder(USAGE_SAMPLE, cluster_id))
    note = EvidenceNote(cluster_id=cluster_id, source=location)
    try:
        return _opened(LakeReader(reader), note, now_ms, max_age_ms)
    except LakeDamaged as error:
        reason = f"{error.message} ({error.hint})" if error.hint else error.message
    except ValueError as error:  # an enumeration does not have the value
        reason = f"a file has an unknown value: {error}"
    return PublishedEvidence(note=replace(note, stale=reason))


def _opened(
    lake: LakeReader, empty: EvidenceNote, now_ms: int, max_age_ms: int
) -> PublishedEvidence:
    cluster_id = empty.cluster_id
    units = lake.units(USAGE_SAMPLE, [cluster_id])
    if not units:
        reason = f"{empty.source}: no evidence of this cluster was published"
        return PublishedEvidence(note=replace(empty, stale=reason))
    last = units[-1].day
    first = min(unit.day for unit in units if unit.day > last - timedelta(days=PREVIEW_DAYS))
    scrapes = lake.read(lake.days(TARGET_UP, [cluster_id], last, last), ["ts_ms"], table=TARGET_UP)
    (newest,) = lake.days(USAGE_SAMPLE, [cluster_id], last, last)
    moments = [*scrapes["ts_ms"].to_pylist(), *newest.series["last_ms"].to_pylist()]
    to_ms = max(moments, default=start_of(last)) + 1
    window = recorded_window.opened(lake, cluster_id, start_of(first), to_ms)
    made_ms = max(day.facts.made_ms for day in window.samples)
    note = window.note(lake, empty.source, made_ms)
    reason = _too_old(to_ms, made_ms, now_ms, max_age_ms)
    if not reason and window.reason == recorded_window.NO_SAMPLES:
        reason = "the window holds no sample"
    if reason:
        return PublishedEvidence(note=replace(note, stale=reason))
    rows = samples.recorded_series(window.samples)
    has_limits = window.limits.snapshot is not None
    return PublishedEvidence(
        note=replace(note, stale=""),
        state=window.state if has_limits else None,
        recorded=window.limits.recorded(cluster_id) if has_limits else None,
        cadence=window.cadence,
        _buckets=samples.buckets_by_type(rows),
        _rows=rows,
        _files=tuple(day.file for day in window.samples),
        _lake=lake,
    )


def _too_old(to_ms: int, made_ms: int, now_ms: int, max_age_ms: int) -> str:
    ends = datetime.fromtimestamp(to_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if made_ms > now_ms + AHEAD_MS:
        return "it was made in the future: check the clocks of both machines"
    if now_ms - to_ms > max_age_ms:
        return f"it ends {ends}, {_ages(now_ms - to_ms, max_age_ms)}"
    return ""


def _ages(age_ms: int, allowed_ms: int) -> str:
    """Return ``72 hours ago; 48 are allowed``, in the largest unit in which the limit is whole and the two differ."""
    size, name = next(
        (size, name)
        for size, name in _UNITS
        if allowed_ms % size == 0 and age_ms // size > allowed_ms // size
    )
    return f"{age_ms // size:,} {name} ago; {allowed_ms // size:,} are allowed"


PREVIEW_DAYS: Final = 14
"""Number of days in the root of previews, the last one with samples included."""

PREVIEW_TABLES: Final[tuple[Table, ...]] = (
    QUOTA_ENTRY,
    SNAPSHOT,
    TARGET_UP,
    BROKER_SAMPLE,
    USAGE_SAMPLE,
)
"""The tables that a preview reads. Samples are last: a killed run leaves no day of samples without its limits."""


def publish(lake: Lake, cluster_id: str, to: "TableStore") -> tuple[date, date]:
    """Copy the objects of the last days that differ. Nothing is deleted: the root may be a lake, and readers need no deletion.

    The last snapshot of limits before these days is copied, too, because it was in force when they began.

    Returns:
        The first and the last day.

    Raises:
        LakeError: The lake has no samples of the cluster, or a store fails.
    """
    recorded = lake.units(USAGE_SAMPLE, [cluster_id])
    if not recorded:
        raise LakeError(f"the lake has no samples of {cluster_id}, so there is nothing to preview")
    last = recorded[-1].day
    first = last - timedelta(days=PREVIEW_DAYS - 1)
    for table in PREVIEW_TABLES:
        begin = first
        if table in {QUOTA_ENTRY, SNAPSHOT}:
            earlier = lake.units(table, [cluster_id], to_day=first - timedelta(days=1))
            begin = earlier[-1].day if earlier else first
        for unit in lake.units(table, [cluster_id], begin, last):
            _copy(lake, unit, to)
    return first, last


def _copy(lake: Lake, unit: Unit, to: "TableStore") -> None:
    if LakeReader(to).facts(unit) != lake.facts(unit):  # they name the run and the time
        to.put(unit.path, lake.store.content(unit.path), after=to.version(unit.path))
