"""Writes the sample days of a cluster from readings, reports them, and finds days that must be read again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

from reconciler.evidence.ingest import snapshot_import
from reconciler.evidence.ingest.assembly import limit_history
from reconciler.evidence.ingest.assembly.limit_history import LimitDigests, LimitSnapshot
from reconciler.evidence.ingest.day_update import (
    CURSOR,
    DIALECT,
    HOUR_MS,
    LIMITS,
    LIMITS_ASKED,
    TABLES,
    DayReading,
    DayUpdate,
    UpToDateError,
    bounds,
    origin,
)
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.samples import Cadence
from reconciler.usage.tables import USAGE_SAMPLE

REFETCH_MS: Final = 3 * HOUR_MS
"""How far before the end of the last run the next run starts, because remote writes and replicas are late."""

SETTLED: Final = "not updated: limits imported later are not applied; read the day again if the source still has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReport:
    """The state of one day after a run."""

    day: date  # UTC
    samples: int  # rows of `usage_sample`
    is_assembled: bool
    new_points: int = 0  # by how many points the reading of this run exceeds the stored ones
    # Number of points and samples by `DropReason`.
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    # The share of the day in which each broker answered scrapes, in millionths.
    coverage: Mapping[str, int] = field(default_factory=dict[str, int])
    partial: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ClusterArrivals:
    """The result of a run for one cluster, updated while it runs."""

    counts: DropCounts = field(default_factory=DropCounts)
    # Reports of the days that the run read.
    days: dict[date, DayReport] = field(default_factory=dict[date, DayReport])
    # Why the run is incomplete; empty if it is complete.
    failures: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])  # other messages for people

    @property
    def new(self) -> dict[date, int]:
        """The number of new points by day."""
        return {day: report.new_points for day, report in sorted(self.days.items())}


def stored_days(lake: Lake, cluster_id: str) -> tuple[Manifest, ...]:
    """Return the manifests of the sample days of a cluster, sorted by day.

    Raises:
        LakeError: The lake cannot be read.
    """
    return lake.manifests(USAGE_SAMPLE, [cluster_id])


def cursor(lake: Lake, cluster_id: str) -> int | None:
    """Return the time up to which a cluster was fetched without a gap; ``None`` if it never was.

    Raises:
        LakeError: The lake cannot be read.
    """
    inputs = [manifest.inputs for manifest in stored_days(lake, cluster_id)]
    return max((int(texts[CURSOR]) for texts in inputs if CURSOR in texts), default=None)


def last_dialect(lake: Lake, cluster_id: str) -> str:
    """Return the dialect in which a cluster was last read; "" if it never was.

    Raises:
        LakeError: The lake cannot be read.
    """
    dialects_by_day = [
        (manifest.unit.day, manifest.inputs[DIALECT])
        for manifest in stored_days(lake, cluster_id)
        if DIALECT in manifest.inputs
    ]
    return max(dialects_by_day, default=(None, ""))[1]


class SampleDays:
    """Writes the days of one cluster.

    Args:
        pace: The scrape interval of its brokers. Stored days keep the one that they were assembled with.
        rebuild: Whether stored days use ``pace`` instead.
    """

    def __init__(
        self, lake: Lake, cluster_id: str, pace: Cadence, *, rebuild: bool = False
    ) -> None:
        self.lake, self.cluster_id, self._pace, self._rebuild = lake, cluster_id, pace, rebuild
        self._since: date | None = None
        self._snapshots: tuple[LimitSnapshot, ...] = ()
        self._digests = LimitDigests(())

    def write(self, day: date, reading: DayReading) -> DayReport | None:
        """Update a day from a reading; the same reading again changes nothing.

        Returns:
            The state of the day; ``None`` if there is no input for it and none is known to be missing.

        Raises:
            LakeConflict: Other writers committed first on every attempt.
            LakeError: The lake cannot be read or written.
        """
        limits = self._limits(day)
        work = DayUpdate(
            self.lake,
            self.cluster_id,
            day,
            reading,
            limits_name=self._digests.of(*bounds(day)),
            snapshots=limits,
            rebuild=self._rebuild,
        )
        first = self.lake.manifest(work.unit(TABLES[0][0]))
        cadences = {} if first is None or self._rebuild else scrape_interval.of([first])
        pace = cadences.get(self.cluster_id, self._pace)
        new_points, is_assembled = (
            work.new_points(self.lake.manifest(work.unit(USAGE_SAMPLE))),
            False,
        )
        last: Manifest | None = None
        for table, rows in TABLES:
            try:
                last = self.lake.update(work.unit(table), work.content_builder(rows, pace))
                is_assembled = is_assembled or work.is_written
            except UpToDateError:
                last = self.lake.manifest(work.unit(table))
        if last is None:
            return None
        report = self._report(day, last, is_assembled=is_assembled)
        return replace(report, new_points=new_points)

    def reports(self, written: Mapping[date, DayReport]) -> tuple[DayReport, ...]:
        """Return the state of every stored day, oldest first.

        Raises:
            LakeError: The lake cannot be read.
        """
        manifests = {
            manifest.unit.day: manifest for manifest in stored_days(self.lake, self.cluster_id)
        }
        return tuple(
            written.get(day) or self._report(day, manifest, is_assembled=False)
            for day, manifest in manifests.items()
        )

    def first_stale(self, since: date) -> date | None:
        """Return the first day from ``since`` on that must be read again.

        It was assembled with other limits, or a run was killed; and it was not yet read again with the current limits.

        Raises:
            LakeError: The lake cannot be read.
        """
        units: dict[date, list[Manifest]] = {}
        for table, _ in TABLES:
            for manifest in self.lake.manifests(table, [self.cluster_id], since):
                units.setdefault(manifest.unit.day, []).append(manifest)
        return next((day for day in sorted(units) if self._is_stale(day, units[day])), None)

    def _is_stale(self, day: date, units: Sequence[Manifest]) -> bool:
        limits = self._limits_name(day)
        first = origin(units[0].inputs)
        is_whole = len(units) == len(TABLES) and all(origin(unit.inputs) == first for unit in units)
        return not (is_whole and first.get(LIMITS) == limits) and any(
            unit.inputs.get(LIMITS_ASKED) != limits for unit in units
        )

    def _limits(self, day: date) -> tuple[LimitSnapshot, ...]:
        self._load_snapshots(day)
        return limit_history.relevant(self._snapshots, *bounds(day))

    def _limits_name(self, day: date) -> str:
        self._load_snapshots(day)
        return self._digests.of(*bounds(day))

    def _load_snapshots(self, day: date) -> None:
        if self._since is None or day < self._since:
            self._since = day
            self._snapshots = snapshot_import.limit_snapshots(self.lake, self.cluster_id, day)
            self._digests = LimitDigests(self._snapshots)

    def _report(self, day: date, manifest: Manifest, *, is_assembled: bool) -> DayReport:
        is_left = manifest.inputs.get(LIMITS) != self._limits_name(day)
        return DayReport(
            day=day,
            samples=manifest.rows,
            is_assembled=is_assembled,
            counts=manifest.states,
            coverage=manifest.coverage,
            partial=(*manifest.partial, *((SETTLED,) if is_left else ())),
        )
