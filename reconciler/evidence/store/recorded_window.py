"""A recorded window of a cluster: its sample days, limits, scrape interval, and what is missing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pyarrow.compute as pc

from reconciler.evidence.store import quota_snapshots, scrape_interval
from reconciler.evidence.store.lake import LakeReader
from reconciler.evidence.store.stored_days import StoredDay, states_of_all
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.samples import MILLION, Cadence, day_of
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE

NO_SNAPSHOT: Final = "the lake has no quota snapshot of this cluster before the end of the window"
NO_SAMPLES: Final = "the lake has no samples of this cluster in the window"
NO_PACE: Final = "the samples do not say how often brokers were read"
NOT_COVERED: Final = "no answer of a broker is recorded in the window, or none of one of them"

MOST_SENTENCES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWindow:
    """A window of a cluster."""

    cluster_id: str
    from_ms: int
    to_ms: int  # end, exclusive
    samples: tuple[StoredDay, ...] = field(repr=False)  # the days of `usage_sample`
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
        return sum(day.rows for day in self.samples)

    def note(self, lake: LakeReader, source: str, made_ms: int) -> EvidenceNote:
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
    lake: LakeReader,
    cluster_id: str,
    samples: Sequence[StoredDay],
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
    covered_ppm = coverage_ppm(lake, cluster_id, from_ms, to_ms)
    return EvidenceNote(
        cluster_id=cluster_id,
        from_ms=from_ms,
        to_ms=to_ms,
        step_ms=cadence.step_ms if cadence else 0,
        coverage_ppm=covered_ppm,
        partial=(
            *(() if covered_ppm else (NOT_COVERED,)),
            *gaps(samples, from_ms, to_ms, limits),
        ),
        counts=states_of_all(samples),
        source=source,
        made_ms=made_ms,
        snapshot_id=snapshot_id,
        stale=stale,
    )


def missing_days(samples: Iterable[StoredDay], from_ms: int, to_ms: int) -> list[str]:
    """Return the days without samples; a day without an identifiable broker is committed without rows."""
    first, last = day_of(from_ms), day_of(to_ms - 1)
    days = {first + timedelta(days=number) for number in range((last - first).days + 1)}
    days -= {day.unit.day for day in samples if day.rows}
    return [day.isoformat() for day in sorted(days)]


def gaps(
    samples: Sequence[StoredDay],
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
    for day in samples:
        for sentence in dict.fromkeys(day.partial):
            days_by_sentence.setdefault(sentence, []).append(day.unit.day.isoformat())
    sentences += [f"{_join_days(days)}: {sentence}" for sentence, days in days_by_sentence.items()]
    if len(sentences) > MOST_SENTENCES:
        sentences[MOST_SENTENCES:] = [f"and {len(sentences) - MOST_SENTENCES} more"]
    return tuple(sentences)


def _join_days(days: Sequence[str]) -> str:
    return ", ".join(days) if len(days) <= 3 else f"{days[0]} to {days[-1]} ({len(days)} days)"


def opened(lake: LakeReader, cluster_id: str, from_ms: int, to_ms: int) -> RecordedWindow:
    """Open a window of a cluster; samples are not read yet.

    Raises:
        LakeError: The lake cannot be read.
    """
    first, last = day_of(from_ms), day_of(to_ms - 1)
    samples = lake.days(USAGE_SAMPLE, [cluster_id], first, last)
    limits = quota_snapshots.observed_limits(lake, cluster_id, from_ms, to_ms)
    paces = scrape_interval.of(samples)
    reason = "" if limits.snapshot else NO_SNAPSHOT
    if not any(day.rows for day in samples):
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


def coverage_ppm(lake: LakeReader, cluster_id: str, from_ms: int, to_ms: int) -> int:
    """Return the lowest share of a window, over brokers, in which the broker answered scrapes; 0 without brokers."""
    days = lake.days(TARGET_UP, [cluster_id], day_of(from_ms), day_of(to_ms - 1))
    window = from_ms, to_ms
    rows = lake.read(days, ["broker_id", "dt_ms", "up"], table=TARGET_UP, window=window)
    # A broker that never answered has coverage 0.
    lasted = pc.if_else(rows.column("up"), rows.column("dt_ms"), 0)
    rows_by_broker = rows.append_column("lasted_ms", lasted).group_by("broker_id")
    sums = rows_by_broker.aggregate([("lasted_ms", "sum")]).column("lasted_ms_sum").to_pylist()
    window_ms = to_ms - from_ms
    return min((min(MILLION, covered * MILLION // window_ms) for covered in sums), default=0)
