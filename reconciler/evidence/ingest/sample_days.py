"""The sample days of a cluster in the lake: written from readings, reported, and read again when they must be.

A reading replaces the stored day, is merged with it hour by hour, or leaves it unchanged. Points are not stored. The
footers of a day record its inputs, with the number of points per hour. A reading with fewer points of an hour than the
one before (a source past its retention, a server that lost data, a file with a part of the day) never replaces that
hour, whatever the order and number of writers, unless that is asked for (``--replace``).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.analysis import rollup
from reconciler.evidence.ingest import day_tables
from reconciler.evidence.ingest.day_tables import AssembledDay
from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.limit_history import LimitHistory
from reconciler.evidence.ingest.points import Points
from reconciler.evidence.ingest.scrapes import HOUR_MS
from reconciler.evidence.store import recorded_window, snapshot_import, stored_days
from reconciler.evidence.store.files import arrow_tables, row_codes
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import CURSOR, LIMITS_ASKED, StoredDay, Unit, UnitContent
from reconciler.usage.samples import DAY_MS, Cadence, start_of
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE, Table

OVERLAP_MS: Final = HOUR_MS
"""How much of the previous day is needed: counter values, and the buckets that had metrics. Kafka removes the metrics
of a client after an hour without traffic, so a bucket without a value in the last hour is unknown at midnight."""

REFETCH_MS: Final = 3 * HOUR_MS
"""How far before the end of the last run the next run starts, because remote writes and replicas are late."""

SETTLED: Final = "not updated: limits imported later are not applied; read the day again if the source still has it"
NOT_REPLACED: Final = "--replace was not applied, because what was read is not whole"

# Inputs in the footers of a day.
DIALECT: Final = "dialect"  # of the points
HOURS: Final = "points_by_hour"  # of the hour before the day, then of each hour
LIMITS: Final = "limits"  # digest of the limits that the day was assembled with
MISSING: Final = "missing"  # sentences about what could not be read, as JSON

TABLES: Final[tuple[tuple[Table, Callable[[AssembledDay], pa.Table]], ...]] = (
    (BROKER_SAMPLE, lambda day: day.brokers),
    (TARGET_UP, lambda day: day.up),
    (USAGE_SAMPLE, lambda day: day.usage),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayReading:
    """What was read of a day."""

    points: Points  # those of the day and of `OVERLAP_MS` before it; others are ignored
    # The time up to which everything is fetched once this day is written; None for files.
    cursor_ms: int | None = None
    partial: tuple[str, ...] = ()  # sentences about what could not be read
    dialect: str = ""


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
    days: dict[date, DayReport] = field(default_factory=dict[date, DayReport])  # those that it read
    failures: list[str] = field(default_factory=list[str])  # why it is incomplete
    remarks: list[str] = field(default_factory=list[str])  # other messages for people

    @property
    def new(self) -> dict[date, int]:
        """The number of new points by day."""
        return {day: report.new_points for day, report in sorted(self.days.items())}


def cursor(lake: Lake, cluster_id: str) -> int | None:
    """Return the time up to which a cluster was fetched without a gap; ``None`` if it never was.

    Raises:
        LakeError: The lake cannot be read.
    """
    times = (int(texts[CURSOR]) for texts in _inputs_of(lake, cluster_id) if CURSOR in texts)
    return max(times, default=None)


def last_dialect(lake: Lake, cluster_id: str) -> str:
    """Return the dialect in which a cluster was last read; "" if it never was.

    Raises:
        LakeError: The lake cannot be read.
    """
    inputs = reversed(_inputs_of(lake, cluster_id))
    return next((texts[DIALECT] for texts in inputs if DIALECT in texts), "")


def _inputs_of(lake: Lake, cluster_id: str) -> list[Mapping[str, str]]:
    return [day.inputs for day in lake.days(USAGE_SAMPLE, [cluster_id])]


class SampleDays:
    """Writes the days of one cluster.

    Args:
        pace: The scrape interval of its brokers. Stored days keep the one that they were assembled with.
        rebuild: Whether stored days use ``pace`` instead.
        replace: Whether readings that are whole replace stored days, also with fewer points.
    """

    def __init__(
        self,
        lake: Lake,
        cluster_id: str,
        pace: Cadence,
        *,
        rebuild: bool = False,
        replace: bool = False,
    ) -> None:
        self.lake, self.cluster_id, self._pace, self._rebuild = lake, cluster_id, pace, rebuild
        self._replace = replace
        self._since: date | None = None
        self._limits = LimitHistory(())

    def write(self, day: date, reading: DayReading) -> DayReport | None:
        """Update a day from a reading; the same reading again changes nothing.

        Returns:
            The state of the day; ``None`` if there is no input for it and none is known to be missing.

        Raises:
            LakeConflict: Other writers committed first on every attempt.
            LakeError: The lake cannot be read or written.
        """
        units = {
            table.name: Unit(table=table, cluster_id=self.cluster_id, day=day)
            for table, _ in TABLES
        }
        first = self.lake.day(units[BROKER_SAMPLE.name])
        cadences = {} if first is None or self._rebuild else recorded_window.cadences_of([first])
        update = _DayUpdate(
            self.lake,
            units,
            reading,
            limits_name=self._limits_name(day),
            limits=self._limits,
            pace=cadences.get(self.cluster_id, self._pace),
            rebuild=self._rebuild,
            replace=self._replace,
        )
        new_points = update.new_points(self.lake.day(units[USAGE_SAMPLE.name]))
        last, is_assembled = None, False
        for table, rows in TABLES:
            last = self.lake.update(units[table.name], partial(update.content, rows=rows))
            is_assembled = is_assembled or update.is_written
        if last is None:
            return None
        rollup.write(self.lake, self.cluster_id, day)
        report = self._report(day, last, is_assembled=is_assembled)
        doubts = (NOT_REPLACED,) if first and self._replace and reading.partial else ()
        return replace(report, new_points=new_points, partial=(*report.partial, *doubts))

    def reports(self, written: Mapping[date, DayReport]) -> tuple[DayReport, ...]:
        """Return the state of every stored day, oldest first.

        Raises:
            LakeError: The lake cannot be read.
        """
        return tuple(
            written.get(day.unit.day) or self._report(day.unit.day, day, is_assembled=False)
            for day in self.lake.days(USAGE_SAMPLE, [self.cluster_id])
        )

    def first_stale(self, since: date) -> date | None:
        """Return the first day from ``since`` on that must be read again.

        It was assembled with other limits, or a run was killed; and it was not yet read again with the current limits.

        Raises:
            LakeError: The lake cannot be read.
        """
        units: dict[date, list[StoredDay]] = {}
        for table, _ in TABLES:
            for day in self.lake.days(table, [self.cluster_id], since):
                units.setdefault(day.unit.day, []).append(day)
        return next((day for day in sorted(units) if self._is_stale(day, units[day])), None)

    def _is_stale(self, day: date, units: Sequence[StoredDay]) -> bool:
        limits = self._limits_name(day)
        first = units[0].origin
        is_same = all(unit.origin == first for unit in units)
        is_whole = is_same and len(units) == len(TABLES)
        return not (is_whole and first.get(LIMITS) == limits) and any(
            unit.inputs.get(LIMITS_ASKED) != limits for unit in units
        )

    def _limits_name(self, day: date) -> str:
        """Return the digest of the limits of a day; loads the snapshots that the day needs."""
        if self._since is None or day < self._since:
            self._since = day
            snapshots = snapshot_import.limit_snapshots(self.lake, self.cluster_id, day)
            self._limits = LimitHistory(snapshots)
        return self._limits.digest(*_bounds(day))

    def _report(self, day: date, stored: StoredDay, *, is_assembled: bool) -> DayReport:
        is_left = stored.inputs.get(LIMITS) != self._limits_name(day)
        return DayReport(
            day=day,
            samples=stored.rows,
            is_assembled=is_assembled,
            counts=stored.states,
            coverage=stored.coverage,
            partial=(*stored.partial, *((SETTLED,) if is_left else ())),
        )


class _DayUpdate:
    """Makes the next content of the units of a day from one reading."""

    def __init__(
        self,
        lake: Lake,
        units: Mapping[str, Unit],
        reading: DayReading,
        *,
        limits_name: str,
        limits: LimitHistory,
        pace: Cadence,
        rebuild: bool,
        replace: bool,
    ) -> None:
        self._lake, self._units, self._reading = lake, units, reading
        self._limits_name, self._limits = limits_name, limits
        self._pace, self._rebuild, self._replace = pace, rebuild, replace and not reading.partial
        self._unit = units[USAGE_SAMPLE.name]
        begin, end = _bounds(self._unit.day)
        self._before = reading.points.between(begin - OVERLAP_MS, begin)
        self._points = reading.points.between(begin, end)
        self._hours = (len(self._before), *_by_hour(self._points, begin))
        self.is_written = False

    def new_points(self, after: StoredDay | None) -> int:
        """Return by how many points, summed over hours, this reading exceeds what a unit was made from."""
        old = _hours_of(after)
        return sum(
            max(0, new - before) for new, before in zip(self._hours[1:], old[1:], strict=True)
        )

    def content(
        self, after: StoredDay | None, rows: Callable[[AssembledDay], pa.Table]
    ) -> UnitContent | None:
        """Return the next content of one unit, for :meth:`Lake.update`; ``None`` if it has the right content."""
        self.is_written = False
        kept_hours = self._kept_hours(after)
        if after is None:
            if not len(self._points) and not self._reading.partial:
                return None
        elif kept_hours is None:  # the source had nothing to add
            inputs = {**after.inputs, **self._cursor(after.inputs), LIMITS_ASKED: self._limits_name}
            return self._moved_cursor(after, inputs)
        inputs = self._inputs(after)
        if after is not None and kept_hours and after.inputs.get(LIMITS, "") != self._limits_name:
            inputs |= {LIMITS: after.inputs.get(LIMITS, ""), LIMITS_ASKED: self._limits_name}
        if (
            after is not None
            and not self._rebuild
            and after.origin == stored_days.origin_of(inputs)
        ):
            return self._moved_cursor(after, inputs)
        self.is_written = True
        day = self._assembled
        new_rows, up = rows(day), day.up
        stale: tuple[str, ...] = ()
        if after is not None and kept_hours:
            old_up = self._lake.day(self._units[TARGET_UP.name])
            new_rows = self._spliced(after, new_rows, kept_hours)
            up = self._spliced(old_up, day.up, kept_hours) if old_up else day.up
            stale = after.partial
        return UnitContent(
            rows=new_rows,
            counts=stored_days.counts_of(day.counts, day_tables.coverage(up)),
            inputs=inputs,
            partial=tuple(dict.fromkeys((*self._reading.partial, *day.doubts, *stale))),
        )

    def _kept_hours(self, after: StoredDay | None) -> frozenset[int] | None:
        """Return the hours of the day (1 to 24) to keep as stored; ``None`` = all of them.

        A reading with at least as many points in every hour replaces the stored day. Any other reading replaces only
        the hours of which it has more points, and none if the stored day has another scrape interval.
        """
        if after is None or self._replace:
            return frozenset()
        old = _hours_of(after)
        if all(new >= before for new, before in zip(self._hours, old, strict=True)):
            return frozenset()
        kept_hours = frozenset(hour for hour in range(1, 25) if old[hour] >= self._hours[hour])
        cadences = recorded_window.cadences_of([after])
        has_other_pace = cadences.get(after.unit.cluster_id, self._pace) != self._pace
        return None if len(kept_hours) == 24 or has_other_pace else kept_hours

    def _inputs(self, after: StoredDay | None) -> dict[str, str]:
        old = after.inputs if after else {}
        stored_hours = _hours_of(None if self._replace else after)
        hours = [max(both) for both in zip(self._hours, stored_hours, strict=True)]
        inputs = {
            "points": f"{self._before.digest()} {self._points.digest()}",
            HOURS: " ".join(map(str, hours)),
            LIMITS: self._limits_name,
            **recorded_window.cadence_inputs(self._pace),
            "rules": str(day_tables.VERSION),
        }
        if self._reading.partial:
            inputs[MISSING] = json.dumps(self._reading.partial)
        if dialect := self._reading.dialect or old.get(DIALECT, ""):
            inputs[DIALECT] = dialect
        return inputs | self._cursor(old)

    def _cursor(self, old: Mapping[str, str]) -> dict[str, str]:
        reached = int(old.get(CURSOR, -1))
        if self._reading.cursor_ms is not None:
            # A run that is killed before the next day must not claim to have fetched it.
            reached = max(reached, min(self._reading.cursor_ms, _bounds(self._unit.day)[1]))
        return {CURSOR: str(reached)} if reached >= 0 else {}

    def _moved_cursor(self, after: StoredDay, inputs: Mapping[str, str]) -> UnitContent | None:
        if inputs == after.inputs:
            return None
        rows, facts = self._lake.read([after], table=after.unit.table), after.facts
        return UnitContent(rows=rows, counts=facts.counts, inputs=inputs, partial=facts.partial)

    @cached_property
    def _assembled(self) -> AssembledDay:
        pace, before = self._pace, self._before
        return day_tables.assembled(
            self._unit.cluster_id,
            self._unit.day,
            self._points,
            pace=pace,
            before=day_tables.carryover_of(before, pace) if len(before) else None,
            limits=self._limits,
        )

    def _spliced(self, after: StoredDay, new_rows: pa.Table, kept_hours: Iterable[int]) -> pa.Table:
        """Return the new rows, with the stored rows in the kept hours."""
        table = after.unit.table
        old_rows, start = self._lake.read([after], table=table), start_of(self._unit.day) - HOUR_MS
        kept_codes = row_codes.integers(sorted(kept_hours))

        def is_kept(rows: pa.Table) -> pa.ChunkedArray:
            hours = pc.divide(pc.subtract(rows["ts_ms"], start), HOUR_MS)
            return pc.is_in(hours, value_set=kept_codes)

        new_rows = arrow_tables.conformed(table, new_rows)
        return pa.concat_tables(
            [old_rows.filter(is_kept(old_rows)), new_rows.filter(pc.invert(is_kept(new_rows)))]
        )


def _bounds(day: date) -> tuple[int, int]:
    """Return the first millisecond of a day and of the next day."""
    return start_of(day), start_of(day) + DAY_MS


def _by_hour(points: Points, begin_ms: int) -> tuple[int, ...]:
    hours = pc.divide(pc.subtract(points.rows["ts_ms"], begin_ms), HOUR_MS)
    counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(hours).to_pylist()}
    return tuple(counts.get(hour, 0) for hour in range(24))


def _hours_of(day: StoredDay | None) -> tuple[int, ...]:
    """Return the numbers of points in :data:`HOURS` of a unit; zeros for a day that is not stored."""
    text = day.inputs.get(HOURS, "") if day else ""
    return tuple(int(number) for number in text.split()) or (0,) * 25
