"""Writes one reading of a day to the lake: replaces the stored day, merges it hour by hour, or leaves it unchanged.

Points are not stored. The manifests of a day record its inputs, with the number of points per hour. A reading with
fewer points of an hour than the one before (a source past its retention, a server that lost data, a file with a part of
the day) never replaces that hour, whatever the order and number of writers.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import day_tables, row_codes
from reconciler.evidence.ingest.assembly.day_tables import AssembledDay
from reconciler.evidence.ingest.assembly.limit_history import LimitSnapshot
from reconciler.evidence.ingest.assembly.points import Points
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit, counts_of
from reconciler.usage.samples import DAY_MS, Cadence, start_of
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE, Table

HOUR_MS: Final = 3_600_000

OVERLAP_MS: Final = HOUR_MS
"""How much of the previous day is needed: counter values, and the buckets that had metrics. Kafka removes the metrics
of a client after an hour without traffic, so a bucket without a value in the last hour is unknown at midnight."""

CURSOR: Final = "fetched_to_ms"
"""Manifest input: the time up to which a Prometheus was read without a gap since the first run."""

DIALECT: Final = "dialect"
"""Manifest input: the dialect of the points."""

HOURS: Final = "points_by_hour"
"""Manifest input: number of points, separated by spaces: of the hour before the day, then of each hour."""

LIMITS: Final = "limits"
"""Manifest input: digest of the limits that the day was assembled with."""

LIMITS_ASKED: Final = "limits_asked"
"""Manifest input: digest of the limits known at the last reading that kept stored hours of the day."""

MISSING: Final = "missing"
"""Manifest input: sentences about what could not be read of the day, as JSON."""

_LOST: Final = "lost_rows"
"""Manifest input of a day that an earlier version began anew without its rows, because a file was damaged."""

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


class UpToDateError(Exception):
    """Raised if a unit already has the right content."""


class DayUpdate:
    """Writes one reading of a day to the units of the day."""

    def __init__(
        self,
        lake: Lake,
        cluster_id: str,
        day: date,
        reading: DayReading,
        *,
        limits_name: str,
        snapshots: tuple[LimitSnapshot, ...],
        rebuild: bool,
    ) -> None:
        self._lake, self._cluster_id, self._day, self._reading = lake, cluster_id, day, reading
        self._rebuild = rebuild
        self._limits_name, self._snapshots = limits_name, snapshots
        begin, end = bounds(day)
        self._before = reading.points.between(begin - OVERLAP_MS, begin)
        self._points = reading.points.between(begin, end)
        self._hours = (len(self._before), *_by_hour(self._points, begin))
        self._assembled: tuple[Cadence, AssembledDay] | None = None
        self.is_written = False

    def unit(self, table: Table) -> Unit:
        """Return the unit of a table for the day."""
        return Unit(table=table, cluster_id=self._cluster_id, day=self._day)

    def new_points(self, after: Manifest | None) -> int:
        """Return by how many points, summed over hours, this reading exceeds what a unit was made from."""
        old = _hours_of(after)
        return sum(
            max(0, new - before) for new, before in zip(self._hours[1:], old[1:], strict=True)
        )

    def content_builder(
        self, rows: Callable[[AssembledDay], pa.Table], pace: Cadence
    ) -> Callable[[Manifest | None], UnitContent]:
        """Return the callback of :meth:`Lake.update` for one unit."""

        def make(after: Manifest | None) -> UnitContent:
            self.is_written = False
            kept_hours = self._kept_hours(after, pace)
            if after is None:
                if not len(self._points) and not self._reading.partial:
                    raise UpToDateError
            elif kept_hours is None:
                return self._unchanged(after)
            inputs = self._inputs(after, pace)
            if (
                after is not None
                and kept_hours
                and after.inputs.get(LIMITS, "") != self._limits_name
            ):
                inputs |= {LIMITS: after.inputs.get(LIMITS, ""), LIMITS_ASKED: self._limits_name}
            if after is not None and not self._rebuild and origin(after.inputs) == origin(inputs):
                return self._moved_cursor(after, inputs)
            self.is_written = True
            day = self._day_tables(pace)
            new_rows, up = rows(day), day.up
            stale: tuple[str, ...] = ()
            if after is not None and kept_hours:
                old_up = self._lake.manifest(self.unit(TARGET_UP))
                new_rows = self._spliced(after, new_rows, kept_hours)
                up = self._spliced(old_up, day.up, kept_hours) if old_up else day.up
                stale = after.partial
            partial = (*self._reading.partial, *day.doubts, *stale)
            return UnitContent(
                rows=new_rows,
                counts=counts_of(day.counts, day_tables.coverage(up)),
                inputs=inputs,
                partial=tuple(dict.fromkeys(partial)),
            )

        return make

    def _kept_hours(self, after: Manifest | None, pace: Cadence) -> frozenset[int] | None:
        """Return the hours of the day (1 to 24) to keep as stored; ``None`` = all of them.

        A reading with at least as many points in every hour replaces the stored day. Any other reading replaces only
        the hours of which it has more points, and none if the stored day has another scrape interval.
        """
        if after is None:
            return frozenset()
        old = _hours_of(after)
        if all(new >= before for new, before in zip(self._hours, old, strict=True)):
            return frozenset()
        kept_hours = frozenset(hour for hour in range(1, 25) if old[hour] >= self._hours[hour])
        has_other_pace = scrape_interval.of([after]).get(self._cluster_id, pace) != pace
        return None if len(kept_hours) == 24 or has_other_pace else kept_hours

    def _inputs(self, after: Manifest | None, pace: Cadence) -> dict[str, str]:
        old = after.inputs if after else {}
        hours = [max(both) for both in zip(self._hours, _hours_of(after), strict=True)]
        inputs = {
            "points": f"{self._before.digest()} {self._points.digest()}",
            HOURS: " ".join(map(str, hours)),
            LIMITS: self._limits_name,
            **scrape_interval.inputs(pace),
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
            reached = max(reached, min(self._reading.cursor_ms, bounds(self._day)[1]))
        return {CURSOR: str(reached)} if reached >= 0 else {}

    def _unchanged(self, after: Manifest) -> UnitContent:
        """Return the unit unchanged, with new cursor and limits: the source had nothing to add."""
        inputs = {**after.inputs, **self._cursor(after.inputs), LIMITS_ASKED: self._limits_name}
        return self._moved_cursor(after, inputs)

    def _moved_cursor(self, after: Manifest, inputs: Mapping[str, str]) -> UnitContent:
        if dict(inputs) == dict(after.inputs):
            raise UpToDateError
        return UnitContent(
            files=after.files, counts=after.counts, inputs=inputs, partial=after.partial
        )

    def _day_tables(self, pace: Cadence) -> AssembledDay:
        if self._assembled is None or self._assembled[0] != pace:
            before = day_tables.carryover_of(self._before, pace) if len(self._before) else None
            day = day_tables.assembled(
                self._cluster_id,
                self._day,
                self._points,
                pace=pace,
                before=before,
                snapshots=self._snapshots,
            )
            self._assembled = pace, day
        return self._assembled[1]

    def _spliced(self, after: Manifest, new_rows: pa.Table, kept_hours: Iterable[int]) -> pa.Table:
        """Return the new rows, with the stored rows in the kept hours."""
        table = after.unit.table
        old_rows = self._lake.read([after], table=table)
        kept_codes = row_codes.integers(sorted(kept_hours))
        start = start_of(self._day) - HOUR_MS

        def is_kept(rows: pa.Table) -> pa.ChunkedArray:
            return pc.is_in(
                pc.divide(pc.subtract(rows["ts_ms"], start), HOUR_MS), value_set=kept_codes
            )

        new_rows = arrow_tables.conformed(table, new_rows)
        return pa.concat_tables(
            [old_rows.filter(is_kept(old_rows)), new_rows.filter(pc.invert(is_kept(new_rows)))]
        )


def bounds(day: date) -> tuple[int, int]:
    """Return the first millisecond of a day and of the next day."""
    return start_of(day), start_of(day) + DAY_MS


def _by_hour(points: Points, begin_ms: int) -> tuple[int, ...]:
    hours = pc.divide(pc.subtract(points.rows["ts_ms"], begin_ms), HOUR_MS)
    counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(hours).to_pylist()}
    return tuple(counts.get(hour, 0) for hour in range(24))


def _hours_of(manifest: Manifest | None) -> tuple[int, ...]:
    """Return the numbers of points in :data:`HOURS` of a unit; zeros for a day that is not stored, or was begun anew."""
    text = manifest.inputs.get(HOURS, "") if manifest and _LOST not in manifest.inputs else ""
    return tuple(int(number) for number in text.split()) or (0,) * 25


def origin(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return what determined the content of a unit, without progress of fetching and losses."""
    return {
        name: text for name, text in inputs.items() if name not in {CURSOR, LIMITS_ASKED, _LOST}
    }
