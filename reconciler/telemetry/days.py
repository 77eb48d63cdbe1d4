"""Days whose rows are not what their points, the day before and the limits say: assembled and committed.

What a day was made from stands in its manifests. A day is made anew when that is no longer what is there, so a run
that was killed, a late delivery, a look at the limits and another run at the same time all end in the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

import pyarrow as pa

from reconciler.lake import pace
from reconciler.lake.lake import Lake, Made
from reconciler.lake.manifest import Manifest, Unit, counts_of
from reconciler.ports import Progress
from reconciler.telemetry import assembly, limits, placing, standing
from reconciler.telemetry.assembly import Day, assembled, start_of
from reconciler.telemetry.keeping import content
from reconciler.telemetry.limits import Digests, Look
from reconciler.telemetry.readings import Carry
from reconciler.usage.samples import DAY_MS, Cadence
from reconciler.usage.tables import BROKER_SAMPLE, POINT, TARGET_UP, USAGE_SAMPLE, Table

_TABLES: Final[tuple[tuple[Table, Callable[[Day], pa.Table]], ...]] = (
    (BROKER_SAMPLE, lambda day: day.brokers),
    (TARGET_UP, lambda day: day.up),
    (USAGE_SAMPLE, lambda day: day.usage),
)
_ONE_DAY: Final = timedelta(days=1)
_GONE: Final = ""
"""What a day before is called of which there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReport:
    """One day as it stands after a run.

    Attributes:
        day: UTC.
        samples: Rows of ``usage_sample``.
        made: Whether this run assembled it.
        counts: What became of its points, by :class:`~reconciler.telemetry.fates.Fate`.
        coverage: For each broker the share of the day that it answered, in millionths.
        partial: What is missing, in sentences.
    """

    day: date
    samples: int
    made: bool
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    coverage: Mapping[str, int] = field(default_factory=dict[str, int])
    partial: tuple[str, ...] = ()


class _UpToDateError(Exception):
    """The unit is what it should be."""


class Days:
    """Assembles the days of one cluster.

    Args:
        lake: Where points are and rows go.
        cluster_id: Of which cluster.
        pace: How often its brokers are read. Days that there are already keep the cadence that they were made with.
        looks: At its limits.
    """

    def __init__(self, lake: Lake, cluster_id: str, pace: Cadence, looks: Sequence[Look]) -> None:
        self._lake, self._cluster_id, self._pace, self._looks = lake, cluster_id, pace, looks
        self._digests = Digests(looks)
        self._made: tuple[dict[str, str], Day] | None = None
        self._carry: tuple[tuple[date, str, Cadence], Carry] | None = None

    def bring_up(
        self, *, rebuild: bool = False, progress: Progress | None = None
    ) -> tuple[DayReport, ...]:
        """Assembles every day that needs it, oldest first.

        Args:
            rebuild: All days that have points, and with the cadence that is set now.
            progress: Called once per day.

        Raises:
            LakeConflict: Others were quicker again and again.
            LakeError: The lake cannot be read or written.
        """
        points = self._by_day(POINT)
        made = [self._by_day(table) for table, _ in _TABLES]
        found: list[DayReport] = []
        for number, day in enumerate(points):
            if progress is not None:
                progress("assembling days", number, len(points))
            there = [one.get(day) for one in made]
            paced = self._paced(there[0], rebuild=rebuild)
            inputs = self._inputs(
                day, {one: points.get(one) for one in (day - _ONE_DAY, day)}, paced
            )
            if not rebuild and all(one and _is_settled(one, inputs) for one in there):
                found.append(_report(day, there[-1], made=False))
            else:
                found.append(self._bring_up(day, rebuild=rebuild))
        if progress is not None and points:
            progress("assembling days", len(points), len(points))
        return tuple(found)

    def _by_day(self, table: Table) -> dict[date, Manifest]:
        """What there is, in the order of time: one listing, however many days."""
        return {one.unit.day: one for one in self._lake.manifests(table, [self._cluster_id])}

    def _bring_up(self, day: date, *, rebuild: bool) -> DayReport:
        made = False
        last: Manifest | None = None
        self._made = None
        for table, rows in _TABLES:
            unit = Unit(table=table, cluster_id=self._cluster_id, day=day)
            try:
                last = self._lake.update(unit, self._maker(day, rows, rebuild=rebuild))
                made = True
            except _UpToDateError:
                last = self._lake.manifest(unit)
        was_left = last is not None and standing.LEFT_FOR in last.inputs
        return _report(day, last, made=made and not was_left)

    def _maker(
        self, day: date, rows: Callable[[Day], pa.Table], *, rebuild: bool
    ) -> Callable[[Manifest | None], Made]:
        def make(after: Manifest | None) -> Made:
            # The unit was read before its inputs are: whoever changes them meanwhile also wins the unit, or follows us.
            points = {one: self._points(one) for one in (day - _ONE_DAY, day)}
            paced = self._paced(self._first(day), rebuild=rebuild)
            inputs = self._inputs(day, points, paced)
            if after is not None and not rebuild and _is_settled(after, inputs):
                raise _UpToDateError
            done = self._assembled(day, points, inputs, paced)
            if (
                after is not None
                and standing.has_lost(after.inputs, inputs)
                and self._loses(day, done)
            ):
                if standing.is_left(after.inputs, inputs):
                    raise _UpToDateError
                return standing.left(after, inputs)
            today = points[day]
            return Made(
                rows=rows(done),
                counts=counts_of(done.counts, done.coverage),
                inputs=inputs,
                partial=(*(today.partial if today else ()), *done.doubts),
            )

        return make

    def _loses(self, day: date, done: Day) -> bool:
        """Whether a day has to be left as it is. All tables or none: their rows belong together."""
        made = {table: rows(done) for table, rows in _TABLES}
        return standing.would_lose(self._lake, self._cluster_id, day, made)

    def _first(self, day: date) -> Manifest | None:
        """The unit of a day that every run commits first: what it says holds for the others, too."""
        return self._lake.manifest(Unit(table=_TABLES[0][0], cluster_id=self._cluster_id, day=day))

    def _paced(self, first: Manifest | None, *, rebuild: bool) -> Cadence:
        """The cadence of a day: that which it was made with. Another setting says nothing of how it was recorded then."""
        known = {} if first is None or rebuild else pace.of([first])
        return known.get(self._cluster_id, self._pace)

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
            **standing.beginnings(today, before),
            **pace.inputs(paced),
            "rules": str(assembly.VERSION),
        }

    def _assembled(
        self,
        day: date,
        points: Mapping[date, Manifest | None],
        inputs: dict[str, str],
        paced: Cadence,
    ) -> Day:
        if self._made is not None and self._made[0] == inputs:
            return self._made[1]
        yesterday = (day - _ONE_DAY, inputs["points_before"], paced)
        before = self._left_by(points[day - _ONE_DAY], yesterday)
        start = start_of(day)
        done = assembled(
            self._cluster_id,
            day,
            self._read(points[day]),
            pace=paced,
            before=before,
            looks=limits.relevant(self._looks, start, start + DAY_MS),
        )
        self._made = inputs, done
        self._carry = (day, inputs["points"], paced), done.carry
        return done

    def _left_by(self, points: Manifest | None, whose: tuple[date, str, Cadence]) -> Carry | None:
        if points is None:
            return None
        if self._carry is not None and self._carry[0] == whose:
            return self._carry[1]
        return assembly.left_by(self._read(points), whose[2])

    def _read(self, points: Manifest | None) -> pa.Table:
        return self._lake.read([points] if points else [], placing.COLUMNS, table=POINT)


def _is_settled(found: Manifest, wanted: Mapping[str, str]) -> bool:
    """Whether there is nothing to be done: rows are what they should be, or were left for good reason."""
    return _is_made_from(found.inputs, wanted) or standing.is_left(found.inputs, wanted)


def _is_made_from(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether rows were made from what is there; a day before that has expired since changes nothing."""
    return all(
        found.get(name) == value or (name == "points_before" and value == _GONE and name in found)
        for name, value in wanted.items()
    )


def _report(day: date, manifest: Manifest | None, *, made: bool) -> DayReport:
    return DayReport(
        day=day,
        samples=manifest.rows if manifest else 0,
        made=made,
        counts=manifest.states if manifest else {},
        coverage=manifest.coverage if manifest else {},
        partial=manifest.partial if manifest else (),
    )
