"""A recorded window of a cluster: its sample days, limits, scrape interval, and what is missing."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeError
from reconciler.evidence.store import quota_snapshots, samples
from reconciler.evidence.store.files.parquet_files import Key
from reconciler.evidence.store.lake import LakeReader
from reconciler.evidence.store.stored_days import StoredDay, states_of_all
from reconciler.quota.entity import DEFAULT, Entity, canonical_text
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.samples import (
    KEY_OF,
    MILLION,
    TYPE_OF,
    Cadence,
    QuotaType,
    ValueState,
    day_of,
    limit_state,
    limit_units,
)
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, KeyLimits, book, bucket_of, limit_of

STEP: Final = "step_ms"
GAP: Final = "max_gap_ms"


def cadence_inputs(pace: Cadence) -> dict[str, str]:
    """Return the entries for ``UnitContent.inputs``."""
    return {STEP: str(pace.step_ms), GAP: str(pace.max_gap_ms)}


def cadences_of(days: Iterable[StoredDay]) -> dict[str, Cadence]:
    """Return the cadence of each cluster: the step of the newest day that has one, and the longest gap of all days.

    Days of a window can have different steps. With the shorter gap of the faster days, each sample of the slower days
    would be a session of its own and no backlog would carry over.

    Raises:
        LakeError: A day has an invalid step or gap.
    """
    cadences: dict[str, Cadence] = {}
    for day in sorted(days, key=lambda day: day.unit.day):
        if STEP in day.inputs or GAP in day.inputs:
            cadence, before = (
                _cadence_of(day.inputs, day.unit.path),
                cadences.get(day.unit.cluster_id),
            )
            longest = max(cadence.max_gap_ms, before.max_gap_ms if before else 0)
            cadences[day.unit.cluster_id] = replace(cadence, max_gap_ms=longest)
    return cadences


def _cadence_of(inputs: Mapping[str, str], path: str) -> Cadence:
    try:
        return Cadence(step_ms=int(inputs[STEP]), max_gap_ms=int(inputs[GAP]))
    except (KeyError, ValueError) as error:
        raise LakeError(
            f"{STEP} and {GAP} are not a valid scrape interval: {inputs.get(STEP)!r}, {inputs.get(GAP)!r}",
            path=path,
        ) from error


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
    cadence = cadences_of(samples).get(cluster_id)
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
    samples = lake.days(USAGE_SAMPLE, [cluster_id], day_of(from_ms), day_of(to_ms - 1))
    limits = quota_snapshots.observed_limits(lake, cluster_id, from_ms, to_ms)
    paces = cadences_of(samples)
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
    rows = _scrapes(lake, cluster_id, (from_ms, to_ms))
    # A broker that never answered has coverage 0.
    lasted = pc.if_else(rows.column("up"), rows.column("dt_ms"), 0)
    rows_by_broker = rows.append_column("lasted_ms", lasted).group_by("broker_id")
    sums = rows_by_broker.aggregate([("lasted_ms", "sum")]).column("lasted_ms_sum").to_pylist()
    window_ms = to_ms - from_ms
    return min((min(MILLION, covered * MILLION // window_ms) for covered in sums), default=0)


def silent_brokers(
    lake: LakeReader, cluster_id: str, window: tuple[int, int], at_ms: int
) -> tuple[str, ...]:
    """Return the brokers of a window without an answer that covers a moment, sorted."""
    rows = _scrapes(lake, cluster_id, window)
    since = pc.subtract(at_ms, rows.column("ts_ms"))  # an answer covers the time before it
    covers = pc.and_(pc.less_equal(since, 0), pc.greater(pc.add(since, rows.column("dt_ms")), 0))
    answered = rows.filter(pc.and_(rows.column("up"), covers)).column("broker_id").to_pylist()
    return tuple(sorted(set(rows.column("broker_id").to_pylist()) - set(answered)))


def _scrapes(lake: LakeReader, cluster_id: str, window: tuple[int, int]) -> pa.Table:
    days = lake.days(TARGET_UP, [cluster_id], day_of(window[0]), day_of(window[1] - 1))
    return lake.read(days, ["broker_id", "ts_ms", "dt_ms", "up"], table=TARGET_UP, window=window)


NO_LIMIT: Final[tuple[int | None, str]] = (None, "")


class NamedLimit(NamedTuple):
    """A finite limit of an entity that matches exactly one bucket."""

    kind: QuotaType
    bucket: Bucket
    units: int
    source_entity: str


class LimitBook:
    """The limits of a cluster at one time."""

    def __init__(self, state: QuotaState) -> None:
        self._state = state
        self._books: dict[QuotaType, KeyLimits] = {
            kind: book(state, key) for kind, key in KEY_OF.items()
        }

    def of(self, key: Key) -> tuple[int | None, str]:
        """Return the finite limit of a series in units, and its entity; :data:`NO_LIMIT` if it has none."""
        kind, bucket, _ = samples.parts_of(key)
        units, source = self.units(kind, bucket), self.source(kind, bucket)
        return NO_LIMIT if units is None or source is None else (units, canonical_text(source))

    def source(self, kind: QuotaType, bucket: Bucket) -> Entity | None:
        """Return the entity of the limit of a bucket; ``None`` = it has none."""
        effective = limit_of(self._books[kind], bucket)
        return None if effective is None else effective[0]

    def units(self, kind: QuotaType, bucket: Bucket) -> int | None:
        """Return the finite limit of a bucket in units; ``None`` = it has none."""
        effective = limit_of(self._books[kind], bucket)
        if effective is None or limit_state(kind, effective[1]) is not ValueState.FINITE:
            return None
        return limit_units(kind, effective[1])

    def unused(self, recorded: Collection[tuple[QuotaType, Bucket]]) -> Iterator[NamedLimit]:
        """Yield the limits that name one bucket that was not recorded, sorted."""
        limits: list[NamedLimit] = []
        for entity, key, value in self._state.pairs():
            kind = TYPE_OF[key]
            names = [slot for slot in entity if isinstance(slot, str)]
            if (
                DEFAULT in entity
                or "" in names
                or limit_state(kind, value) is not ValueState.FINITE
            ):
                continue
            bucket = bucket_of(*(slot if isinstance(slot, str) else "" for slot in entity))
            units = limit_units(kind, value)
            if (kind, bucket) not in recorded and units is not None:
                limits.append(NamedLimit(kind, bucket, units, canonical_text(entity)))
        yield from sorted(limits)
