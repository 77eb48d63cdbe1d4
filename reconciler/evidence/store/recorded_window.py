"""Reads a recorded window of a cluster from the lake and computes the impact of a change, without a JVM."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store import quota_snapshots, sample_columns, scrape_interval
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, states_of_all
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import ImpactQuery, impact_query
from reconciler.usage.impact.replay import judged
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow
from reconciler.usage.impact.tier_policy import NOT_STATED, ConsumerFetches
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.samples import MILLION, Cadence, QuotaType, day_of
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of_row

NO_SNAPSHOT: Final = "the lake has no quota snapshot of this cluster before the end of the window"
NO_SAMPLES: Final = "the lake has no samples of this cluster in the window"
NO_PACE: Final = "the samples do not say how often brokers were read"

MOST_SENTENCES: Final = 20

_SERIES: Final = ("quota_type", *sample_columns.BUCKET, "broker_id")
_VALUES: Final = ("ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")

Series = Mapping[QuotaType, Mapping[Bucket, Mapping[str, SampleSeries]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWindow:
    """A window of a cluster."""

    cluster_id: str
    from_ms: int
    to_ms: int  # end, exclusive
    samples: tuple[Manifest, ...] = field(repr=False)  # manifests of the `usage_sample` days
    cadence: Cadence
    limits: quota_snapshots.ObservedLimits = field(repr=False)  # the quota snapshots up to the end
    state: QuotaState = field(repr=False)
    reason: str = ""  # why the window cannot be used; "" if it can

    @property
    def snapshot_id(self) -> str:
        """The last quota snapshot before the end; "" = none."""
        return self.limits.snapshot.snapshot_id if self.limits.snapshot else ""

    @property
    def rows(self) -> int:
        """The number of samples of all days."""
        return sum(manifest.rows for manifest in self.samples)

    def note(self, lake: Lake, source: str, made_ms: int) -> EvidenceNote:
        """Return the evidence note for a report.

        Args:
            lake: The lake of the window, which knows when brokers answered.
            source: Address of the lake without credentials.
            made_ms: Now.
        """
        return evidence_note(
            lake,
            self.cluster_id,
            self.samples,
            (self.from_ms, self.to_ms),
            limits=self.limits,
            source=source,
            made_ms=made_ms,
            snapshot_id=self.snapshot_id,
            stale=self.reason,
        )


def evidence_note(
    lake: Lake,
    cluster_id: str,
    samples: Sequence[Manifest],
    window: tuple[int, int],
    *,
    limits: quota_snapshots.ObservedLimits | None = None,
    source: str,
    made_ms: int,
    snapshot_id: str,
    stale: str,
) -> EvidenceNote:
    """Return the evidence of a window of a cluster, its end exclusive, with what is missing of it.

    Raises:
        LakeError: The lake cannot be read.
    """
    from_ms, to_ms = window
    cadence = scrape_interval.of(samples).get(cluster_id)
    return EvidenceNote(
        cluster_id=cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        step_ms=cadence.step_ms if cadence else 0,
        coverage_ppm=coverage_ppm(lake, cluster_id, from_ms, to_ms),
        partial=gaps(samples, from_ms, to_ms, limits),
        counts=states_of_all(samples),
        source=source,
        made_ms=made_ms,
        snapshot_id=snapshot_id,
        stale=stale,
    )


def missing_days(samples: Iterable[Manifest], from_ms: int, to_ms: int) -> list[str]:
    """Return the days without samples; a day without an identifiable broker is committed without rows."""
    first, last = day_of(from_ms), day_of(to_ms - 1)
    days = {first + timedelta(days=number) for number in range((last - first).days + 1)}
    days -= {manifest.unit.day for manifest in samples if manifest.rows}
    return [day.isoformat() for day in sorted(days)]


def gaps(
    samples: Sequence[Manifest],
    from_ms: int,
    to_ms: int,
    limits: quota_snapshots.ObservedLimits | None = None,
) -> tuple[str, ...]:
    """Return at most :data:`MOST_SENTENCES` sentences about missing input, and the number of further ones."""
    missing = missing_days(samples, from_ms, to_ms)
    count = (day_of(to_ms - 1) - day_of(from_ms)).days + 1
    sentences = (
        [f"{len(missing)} of {count} days have no samples: {_join_days(missing)}"]
        if missing
        else []
    )
    sentences += limits.warnings(to_ms) if limits else []
    days_by_sentence: dict[str, list[str]] = {}
    for manifest in samples:
        for sentence in dict.fromkeys(manifest.partial):
            days_by_sentence.setdefault(sentence, []).append(manifest.unit.day.isoformat())
    sentences += [f"{_join_days(days)}: {sentence}" for sentence, days in days_by_sentence.items()]
    if len(sentences) > MOST_SENTENCES:
        sentences[MOST_SENTENCES:] = [f"and {len(sentences) - MOST_SENTENCES} more"]
    return tuple(sentences)


def _join_days(days: Sequence[str]) -> str:
    return ", ".join(days) if len(days) <= 3 else f"{days[0]} to {days[-1]} ({len(days)} days)"


def opened(lake: Lake, cluster_id: str, from_ms: int, to_ms: int) -> RecordedWindow:
    """Open a window of a cluster; samples are not read yet.

    Raises:
        LakeError: The lake cannot be read.
    """
    first, last = day_of(from_ms), day_of(to_ms - 1)
    samples = lake.manifests(USAGE_SAMPLE, [cluster_id], first, last)
    limits = quota_snapshots.observed_limits(lake, cluster_id, from_ms, to_ms)
    paces = scrape_interval.of(samples)
    reason = "" if limits.snapshot else NO_SNAPSHOT
    if not any(manifest.rows for manifest in samples):
        reason = NO_SAMPLES
    elif not paces:
        reason = NO_PACE
    return RecordedWindow(
        cluster_id=cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        samples=samples,
        cadence=paces.get(cluster_id, Cadence(step_ms=30_000, max_gap_ms=150_000)),
        limits=limits,
        state=quota_snapshots.state_of(limits.entries, cluster_id),
        reason=reason,
    )


def coverage_ppm(lake: Lake, cluster_id: str, from_ms: int, to_ms: int) -> int:
    """Return the lowest share of a window, over brokers, in which the broker answered scrapes; 0 without brokers."""
    days = lake.manifests(TARGET_UP, [cluster_id], day_of(from_ms), day_of(to_ms - 1))
    rows = lake.read(days, ["broker_id", "dt_ms", "ts_ms", "up"], table=TARGET_UP)
    ts = rows.column("ts_ms")
    rows = rows.filter(pc.and_(pc.greater_equal(ts, from_ms), pc.less(ts, to_ms)))
    # A broker that never answered has coverage 0.
    lasted = pc.if_else(rows.column("up"), rows.column("dt_ms"), 0)
    rows_by_broker = rows.append_column("lasted_ms", lasted).group_by("broker_id")
    sums = rows_by_broker.aggregate([("lasted_ms", "sum")]).column("lasted_ms_sum").to_pylist()
    window_ms = to_ms - from_ms
    return min((min(MILLION, covered * MILLION // window_ms) for covered in sums), default=0)


def asked_of(lake: Lake, window: RecordedWindow, after: QuotaState) -> tuple[ImpactQuery, pa.Table]:
    """Return the impact query of a change, and all samples of the window.

    Raises:
        LakeError: A file cannot be read.
    """
    in_window = (pc.field("ts_ms") >= window.from_ms) & (pc.field("ts_ms") < window.to_ms)
    rows = lake.read(window.samples, [*_SERIES, *_VALUES], in_window, table=USAGE_SAMPLE)
    buckets_by_type = sample_columns.buckets_by_type(rows)
    question = impact_query(
        window.cluster_id,
        window.state,
        after,
        buckets_by_type,
        frozenset(buckets_by_type),
        recorded=window.limits.recorded(window.cluster_id),
    )
    return question, rows


def impacts(
    question: ImpactQuery,
    rows: pa.Table,
    cadence: Cadence,
    consumers: ConsumerFetches = NOT_STATED,
) -> tuple[ImpactRow, ...]:
    """Return one row for each changed bucket and broker (``usage.impact.replay.judged``).

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    return judged(question, series(rows, question.reads), cadence.max_gap_ms, consumers)


def series(rows: pa.Table, buckets_by_type: Mapping[QuotaType, Iterable[Bucket]]) -> Series:
    """Return the series of some buckets by quota type, bucket and broker.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    series_by_type: dict[QuotaType, dict[Bucket, dict[str, SampleSeries]]] = {}
    for kind, buckets in buckets_by_type.items():
        users = pa.array(sorted({bucket.user for bucket in buckets}), pa.string())
        of_kind = pc.equal(rows.column("quota_type"), str(kind))
        of_users = pc.is_in(rows.column("user"), users)
        asked_for = set(buckets)
        for names, samples in sample_columns.series_by(
            rows.filter(pc.and_(of_kind, of_users)), _SERIES[1:]
        ):
            bucket = bucket_of_row(dict(zip(sample_columns.BUCKET, names[:-1], strict=True)))
            if bucket in asked_for:
                series_by_type.setdefault(kind, {}).setdefault(bucket, {})[names[-1]] = samples
    return series_by_type
