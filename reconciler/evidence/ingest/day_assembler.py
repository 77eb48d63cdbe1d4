"""Days whose rows are not what their points, the day before and the limits say: assembled and committed.

What a day was made from stands in its manifests. A day is made anew when that is no longer what is there, so a run
that was killed, a late delivery, a look at the limits and another run at the same time all end in the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

import pyarrow as pa

from reconciler.base.protocols import Progress
from reconciler.evidence.ingest.assembly import (
    day_tables,
    limit_history,
    scrape_assignment,
)
from reconciler.evidence.ingest.assembly.broker_readings import DayCarryover
from reconciler.evidence.ingest.assembly.day_tables import (
    AssembledDay,
    assembled,
    start_of,
)
from reconciler.evidence.ingest.assembly.limit_history import (
    LimitDigests,
    LimitSnapshot,
)
from reconciler.evidence.ingest.point_store import content
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit, counts_of
from reconciler.evidence.store.unit_repair import BEGAN, LOST
from reconciler.usage.samples import DAY_MS, Cadence
from reconciler.usage.tables import BROKER_SAMPLE, POINT, TARGET_UP, USAGE_SAMPLE, Table

_TABLES: Final[tuple[tuple[Table, Callable[[AssembledDay], pa.Table]], ...]] = (
    (BROKER_SAMPLE, lambda day: day.brokers),
    (TARGET_UP, lambda day: day.up),
    (USAGE_SAMPLE, lambda day: day.usage),
)
_ONE_DAY: Final = timedelta(days=1)
_GONE: Final = ""
"""What a day before is called of which there is nothing."""

_POINTS: Final = ("points", "points_before")
"""The inputs that name points: of the day, and of the day before."""

SETTLED: Final = "left as it was: points that it was made from, its own or those of the day before, have expired or were damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReport:
    """One day as it stands after a run.

    Attributes:
        day: UTC.
        samples: Rows of ``usage_sample``.
        is_assembled: Whether this run assembled it.
        counts: What became of its points, by :class:`~reconciler.evidence.ingest.drop_reasons.DropReason`.
        coverage: For each broker the share of the day that it answered, in millionths.
        partial: What is missing, in sentences.
    """

    day: date
    samples: int
    is_assembled: bool
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    coverage: Mapping[str, int] = field(default_factory=dict[str, int])
    partial: tuple[str, ...] = ()


class _UpToDateError(Exception):
    """The unit is what it should be."""


class DayAssembler:
    """Assembles the days of one cluster.

    Args:
        lake: Where points are and rows go.
        cluster_id: Of which cluster.
        pace: How often its brokers are read. Days that there are already keep the cadence that they were made with.
        looks: At its limits.
    """

    def __init__(
        self, lake: Lake, cluster_id: str, pace: Cadence, looks: Sequence[LimitSnapshot]
    ) -> None:
        self._lake, self._cluster_id, self._pace, self._looks = lake, cluster_id, pace, looks
        self._digests = LimitDigests(looks)
        self._made: tuple[dict[str, str], AssembledDay] | None = None
        self._carry: tuple[tuple[date, str, Cadence], DayCarryover] | None = None

    def bring_up(
        self, *, rebuild: bool = False, progress: Progress | None = None
    ) -> tuple[DayReport, ...]:
        """Assembles every day that needs it, oldest first.

        Args:
            rebuild: All days whose points are all there, and with the cadence that is set now.
            progress: Called once per day.

        Raises:
            LakeConflict: Others were quicker again and again.
            LakeError: The lake cannot be read or written.
        """
        points = self._by_day(POINT)
        manifests_by_table = [self._by_day(table) for table, _ in _TABLES]
        reports: list[DayReport] = []
        for number, day in enumerate(points):
            if progress is not None:
                progress("assembling days", number, len(points))
            day_manifests = [manifests_by_day.get(day) for manifests_by_day in manifests_by_table]
            paced = self._paced(day_manifests[0], rebuild=rebuild)
            inputs = self._inputs(
                day,
                {point_day: points.get(point_day) for point_day in (day - _ONE_DAY, day)},
                paced,
            )
            if all(
                manifest and _is_settled(manifest.inputs, inputs, rebuild=rebuild)
                for manifest in day_manifests
            ):
                reports.append(_report(day, day_manifests[-1], inputs, is_assembled=False))
            else:
                reports.append(self._bring_up(day, rebuild=rebuild))
        if progress is not None and points:
            progress("assembling days", len(points), len(points))
        return tuple(reports)

    def _by_day(self, table: Table) -> dict[date, Manifest]:
        """What there is, in the order of time: one listing, however many days."""
        return {
            manifest.unit.day: manifest
            for manifest in self._lake.manifests(table, [self._cluster_id])
        }

    def _bring_up(self, day: date, *, rebuild: bool) -> DayReport:
        is_assembled = False
        last: Manifest | None = None
        self._made = None
        for table, rows in _TABLES:
            unit = Unit(table=table, cluster_id=self._cluster_id, day=day)
            try:
                last = self._lake.update(unit, self._maker(day, rows, rebuild=rebuild))
                is_assembled = True
            except _UpToDateError:  # another writer was quicker
                last = self._lake.manifest(unit)
        return _report(day, last, {}, is_assembled=is_assembled)

    def _maker(
        self, day: date, rows: Callable[[AssembledDay], pa.Table], *, rebuild: bool
    ) -> Callable[[Manifest | None], UnitContent]:
        def make(after: Manifest | None) -> UnitContent:
            # The unit was read before its inputs: a writer that changes them in between wins the unit, or follows us.
            points = {point_day: self._points(point_day) for point_day in (day - _ONE_DAY, day)}
            paced = self._paced(self._first(day), rebuild=rebuild)
            inputs = self._inputs(day, points, paced)
            if after is not None and _is_settled(after.inputs, inputs, rebuild=rebuild):
                raise _UpToDateError
            assembled_day = self._assembled(day, points, inputs, paced)
            today = points[day]
            return UnitContent(
                rows=rows(assembled_day),
                counts=counts_of(assembled_day.counts, assembled_day.coverage),
                inputs=inputs,
                partial=(*(today.partial if today else ()), *assembled_day.doubts),
            )

        return make

    def _first(self, day: date) -> Manifest | None:
        """The unit of a day that every run commits first: what it says holds for the others, too."""
        return self._lake.manifest(Unit(table=_TABLES[0][0], cluster_id=self._cluster_id, day=day))

    def _paced(self, first: Manifest | None, *, rebuild: bool) -> Cadence:
        """The cadence of a day: that which it was made with. Another setting says nothing of how it was recorded then."""
        cadences = {} if first is None or rebuild else scrape_interval.of([first])
        return cadences.get(self._cluster_id, self._pace)

    def _points(self, day: date) -> Manifest | None:
        return self._lake.manifest(Unit(table=POINT, cluster_id=self._cluster_id, day=day))

    def _inputs(
        self, day: date, points: Mapping[date, Manifest | None], paced: Cadence
    ) -> dict[str, str]:
        """What the rows of a day should be made from."""
        start = start_of(day)
        before, today = points[day - _ONE_DAY], points[day]
        return {
            "points": content(today),
            "points_before": content(before),
            "limits": self._digests.of(start, start + DAY_MS),
            **_beginnings(today, before),
            **scrape_interval.inputs(paced),
            "rules": str(day_tables.VERSION),
        }

    def _assembled(
        self,
        day: date,
        points: Mapping[date, Manifest | None],
        inputs: dict[str, str],
        paced: Cadence,
    ) -> AssembledDay:
        if self._made is not None and self._made[0] == inputs:
            return self._made[1]
        yesterday = (day - _ONE_DAY, inputs["points_before"], paced)
        before = self._left_by(points[day - _ONE_DAY], yesterday)
        start = start_of(day)
        assembled_day = assembled(
            self._cluster_id,
            day,
            self._read(points[day]),
            pace=paced,
            before=before,
            looks=limit_history.relevant(self._looks, start, start + DAY_MS),
        )
        self._made = inputs, assembled_day
        self._carry = (day, inputs["points"], paced), assembled_day.carry
        return assembled_day

    def _left_by(
        self, points: Manifest | None, whose: tuple[date, str, Cadence]
    ) -> DayCarryover | None:
        if points is None:
            return None
        if self._carry is not None and self._carry[0] == whose:
            return self._carry[1]
        return day_tables.left_by(self._read(points), whose[2])

    def _read(self, points: Manifest | None) -> pa.Table:
        return self._lake.read([points] if points else [], scrape_assignment.COLUMNS, table=POINT)


def _beginnings(*points: Manifest | None) -> dict[str, str]:
    """To which beginnings of units of points a day goes back, and what was lost of them since."""
    return {
        f"{name}_{mark}": manifest.inputs[mark]
        for name, manifest in zip(_POINTS, points, strict=True)
        for mark in (BEGAN, LOST)
        if manifest and mark in manifest.inputs
    }


def _is_settled(
    made_from: Mapping[str, str], expected: Mapping[str, str], *, rebuild: bool
) -> bool:
    """Whether there is nothing to be done: rows are what they should be, or their points are gone."""
    return (not rebuild and _is_up_to_date(made_from, expected)) or _has_lost(made_from, expected)


def _has_lost(made_from: Mapping[str, str], expected: Mapping[str, str]) -> bool:
    """Whether rows were made from points that are gone. A unit of points only grows until it expires or is damaged."""
    return any(
        made_from.get(name)
        and (
            not expected[name]
            or made_from.get(f"{name}_{BEGAN}", "") != expected.get(f"{name}_{BEGAN}", "")
            or (f"{name}_{LOST}" in expected and f"{name}_{LOST}" not in made_from)
        )
        for name in _POINTS
    )


def _is_up_to_date(actual: Mapping[str, str], expected: Mapping[str, str]) -> bool:
    """Whether rows were made from what is there; a day before that has expired since changes nothing."""
    return all(
        actual.get(name) == value or (name == "points_before" and value == _GONE and name in actual)
        for name, value in expected.items()
    )


def _report(
    day: date, manifest: Manifest | None, inputs: Mapping[str, str], *, is_assembled: bool
) -> DayReport:
    is_left = (
        manifest is not None and not is_assembled and not _is_up_to_date(manifest.inputs, inputs)
    )
    return DayReport(
        day=day,
        samples=manifest.rows if manifest else 0,
        is_assembled=is_assembled,
        counts=manifest.states if manifest else {},
        coverage=manifest.coverage if manifest else {},
        partial=(*(manifest.partial if manifest else ()), *((SETTLED,) if is_left else ())),
    )
