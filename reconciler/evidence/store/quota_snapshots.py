"""Reads quota snapshots from the lake: ``quota_entry`` rows to quota states, and changes between snapshots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeDamaged, QuotaValueError
from reconciler.evidence.store.lake import LakeReader
from reconciler.evidence.store.stored_days import Unit
from reconciler.quota.entity import ENTITY_TYPES, Entity, from_parts, read_canonical_parts
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.state import ForeignEntity, ForeignValues, Limits, QuotaState, limits_of
from reconciler.usage.impact.recorded_limits import CountingWays, RecordedLimits
from reconciler.usage.samples import DAY_MS, day_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT

FRESH_MS: Final = 2 * DAY_MS
"""Maximum age of the last snapshot at the end of a window without a warning: the default maximum age of evidence."""

_MOSTLY: Final = timedelta(days=7)
_KNOWN: Final = {str(key): key for key in COLUMNS}
_VALUES: Final = ("snapshot_id", "entity_json", "quota_key", "value")


class SnapshotHeader(NamedTuple):
    """The header of one complete quota snapshot."""

    observed_at_ms: int
    snapshot_id: str
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLimits:
    """The quota snapshots that describe a window."""

    # The last complete snapshot before the end of the window; None if there is none.
    snapshot: SnapshotHeader | None
    entries: pa.Table  # its rows of `quota_entry`
    # Limits set, altered or removed between consecutive snapshots, starting with the last before the window.
    changes: int = 0
    # Rows of earlier snapshots, one per way of counting clients inside the window; none equals `entries`.
    earlier: tuple[pa.Table, ...] = ()
    beyond: frozenset[Key] = frozenset()  # keys with more ways of counting than are kept
    # Ids of snapshots with missing rows; they are not used.
    incomplete: tuple[str, ...] = field(default_factory=tuple)

    def warnings(self, to_ms: int) -> list[str]:
        """Return sentences about what is not known of the limits of a window that ends at ``to_ms``."""
        sentences: list[str] = []
        age_ms = 0 if self.snapshot is None else to_ms - self.snapshot.observed_at_ms
        if self.snapshot is None:
            sentences.append("the lake has no complete snapshot of the limits")
        elif age_ms > FRESH_MS:
            observed_at = datetime.fromtimestamp(self.snapshot.observed_at_ms / 1000, UTC)
            sentences.append(
                f"limits were not observed for {age_ms // DAY_MS} days: those of"
                f" {observed_at:%Y-%m-%d %H:%M} UTC count as in force"
            )
        if self.incomplete:
            sentences.append(f"incomplete snapshots of the limits: {len(self.incomplete)}")
        if self.changes:
            sentences.append(
                f"limits changed inside the window ({self.changes} times); older samples were recorded under others"
            )
        return sentences + [
            f"{key}: limits changed too often to determine which clients were counted together"
            for key in sorted(self.beyond)
        ]

    def recorded(self, path: str = "") -> RecordedLimits:
        """Return the limits under which the window was recorded.

        Raises:
            LakeDamaged: A row is invalid.
        """
        states = tuple(state_of(table, path) for table in (*self.earlier, self.entries))
        return RecordedLimits(states=states, beyond=self.beyond)


def state_of(rows: pa.Table, path: str = "") -> QuotaState:
    """Return the quota state of the rows of one snapshot.

    Args:
        rows: With the columns ``entity_json``, ``quota_key`` and ``value``.
        path: Source of the rows, for errors.

    Raises:
        LakeDamaged: A row is invalid or duplicated.
    """
    names = ("entity_json", "quota_key", "value")
    of: dict[str, dict[str, float]] = {}
    for entity, key, value in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
        values = of.setdefault(entity, {})
        if key in values:
            raise LakeDamaged(f"duplicate {key} of {entity}", path=path)
        values[key] = value
    limits: dict[Entity, Limits] = {}
    foreign_values: dict[Entity, ForeignValues] = {}
    foreign: list[ForeignEntity] = []
    for text, values in of.items():
        try:
            parts_by_type = read_canonical_parts(text)
            if not all(kind in ENTITY_TYPES for kind, _ in parts_by_type):
                foreign.append((parts_by_type, tuple(sorted(values.items()))))
                continue
            subject = from_parts(parts_by_type)
        except QuotaValueError as error:
            raise LakeDamaged(f"{text!r} is not an entity: {error}", path=path) from error
        limits[subject] = limits_of(_quotas_by_key(values))
        other_values = tuple(
            sorted((key, value) for key, value in values.items() if key not in _KNOWN)
        )
        if other_values:
            foreign_values[subject] = other_values
    return QuotaState(
        limits=limits,
        foreign_values=foreign_values,
        foreign_entities=tuple(sorted(foreign, key=repr)),
    )


def _quotas_by_key(values: Mapping[str, float]) -> dict[Key, float]:
    return {_KNOWN[name]: value for name, value in values.items() if name in _KNOWN}


def _headers(rows: pa.Table, to_ms: int | None) -> list[SnapshotHeader]:
    """Return the complete snapshots of a day before a moment, in order."""
    return sorted(
        SnapshotHeader(row["observed_at_ms"], row["snapshot_id"], row["entries"])
        for row in rows.to_pylist()
        if row["complete"] and (to_ms is None or row["observed_at_ms"] < to_ms)
    )


def observed_limits(lake: LakeReader, cluster_id: str, from_ms: int, to_ms: int) -> ObservedLimits:
    """Return the limits in effect at the end of a window and the number of changes inside it.

    Args:
        lake: The lake that contains the snapshots.
        from_ms: Start of the window.
        to_ms: End of the window, exclusive.

    Raises:
        LakeError: A table cannot be read.
    """
    snapshots = complete_snapshots(lake, cluster_id, from_ms, to_ms)
    incomplete: list[str] = []
    change_counter, distinct_snapshots = _ChangeCounter(), _DistinctSnapshots(cluster_id)
    newest: tuple[SnapshotHeader, pa.Table] | None = None
    for header, rows in snapshots.read():
        if rows is None:
            incomplete.append(header.snapshot_id)
            continue
        change_counter.add(rows, counts=header.observed_at_ms >= from_ms)
        distinct_snapshots.add(rows)
        newest = header, rows
    if newest is None:
        nothing = lake.read((), table=QUOTA_ENTRY)
        return ObservedLimits(
            snapshot=None,
            entries=nothing,
            incomplete=tuple(incomplete),
        )
    return ObservedLimits(
        snapshot=newest[0],
        entries=newest[1],
        changes=change_counter.changes,
        earlier=distinct_snapshots.unlike(newest[1]),
        beyond=frozenset(distinct_snapshots.ways.beyond),
        incomplete=tuple(incomplete),
    )


class _ChangeCounter:
    """Counts changes of limits between consecutive snapshots; Arrow compares equal snapshots without Python values."""

    def __init__(self) -> None:
        self.changes = 0
        self._before: pa.Table | None = None

    def add(self, rows: pa.Table, *, counts: bool) -> None:
        now = rows.select(_VALUES[1:]).combine_chunks()
        if counts and self._before is not None and not now.equals(self._before):
            old, new = (dict(_pairs(table)) for table in (self._before, now))
            self.changes += sum(old.get(pair) != new.get(pair) for pair in old.keys() | new.keys())
        self._before = now


class _DistinctSnapshots:
    """Keeps one snapshot per way of counting clients; decodes only those with other (entity, key) pairs."""

    def __init__(self, path: str) -> None:
        self.ways = CountingWays()
        self._path = path
        self._names: set[frozenset[tuple[str, str]]] = set()
        self._tables: list[pa.Table] = []
        self._before: pa.Table | None = None

    def add(self, rows: pa.Table) -> None:
        pairs = rows.select(_VALUES[1:3]).combine_chunks()
        if self._before is not None and pairs.equals(self._before):
            return
        self._before = pairs
        names = frozenset(zip(*(column.to_pylist() for column in pairs.columns), strict=True))
        if names not in self._names:
            self._names.add(names)
            if self.ways.add(state_of(rows, self._path)):
                self._tables.append(rows)

    def unlike(self, last: pa.Table) -> tuple[pa.Table, ...]:
        """Return the kept snapshots that differ from ``last``."""
        last_pairs = sorted(_pairs(last))
        return tuple(table for table in self._tables if sorted(_pairs(table)) != last_pairs)


def _pairs(rows: pa.Table) -> Iterable[tuple[tuple[str, str], str]]:
    entities, keys, values = (rows.column(name).to_pylist() for name in _VALUES[1:])
    # As text: NaN is a value that old brokers accepted, and NaN does not equal itself.
    return (
        ((entity, key), repr(value))
        for entity, key, value in zip(entities, keys, values, strict=True)
    )


class CompleteSnapshots:
    """The complete snapshots of a window in order, preceded by the one in effect at its start."""

    def __init__(
        self, lake: LakeReader, entries: Mapping[date, Unit], columns: Sequence[str] | None
    ) -> None:
        self.headers: list[SnapshotHeader] = []
        self._lake, self._entries, self._columns = lake, entries, columns
        self._rows: tuple[date, pa.Table] | None = None

    def read(self) -> Iterator[tuple[SnapshotHeader, pa.Table | None]]:
        """Yield each snapshot with its ``quota_entry`` rows; ``None`` if rows are missing, so it must not be used."""
        for header in self.headers:
            yield header, self.entries_of(header)

    def entries_of(self, header: SnapshotHeader) -> pa.Table | None:
        """Return the rows of a snapshot; the rows of the last requested day are cached."""
        day = day_of(header.observed_at_ms)
        if self._rows is None or self._rows[0] != day:
            of_day = [self._lake.open(self._entries[day])] if day in self._entries else []
            self._rows = day, self._lake.read(of_day, self._columns, table=QUOTA_ENTRY)
        rows = self._rows[1]
        rows = rows.filter(pc.equal(rows.column("snapshot_id"), header.snapshot_id))
        return rows if rows.num_rows == header.entries else None


def complete_snapshots(
    lake: LakeReader,
    cluster_id: str,
    from_ms: int | None,
    to_ms: int | None = None,
    columns: Sequence[str] | None = None,
) -> CompleteSnapshots:
    """Return the complete snapshots of a window and the last earlier one whose rows are all present.

    Up to 25 months of snapshots are stored and a few days matter: days are read from the newest back to the one with a
    snapshot from before the start. The last 7 days before the start are tried first, then all days.

    Args:
        lake: The lake that contains the snapshots.
        from_ms: Start of the window; ``None`` = all snapshots.
        to_ms: End of the window, exclusive; ``None`` = up to the newest.
        columns: Columns of ``quota_entry``, including ``snapshot_id``; all by default.

    Raises:
        LakeError: A table cannot be read.
    """
    if from_ms is not None:
        first = day_of(from_ms) - _MOSTLY
        snapshots, reaches_begin = _since(lake, cluster_id, (from_ms, to_ms), columns, first)
        if reaches_begin:
            return snapshots
    return _since(lake, cluster_id, (from_ms, to_ms), columns, None)[0]


def _since(
    lake: LakeReader,
    cluster_id: str,
    window: tuple[int | None, int | None],
    columns: Sequence[str] | None,
    first: date | None,
) -> tuple[CompleteSnapshots, bool]:
    """Return the same from day ``first`` on, and whether the snapshot in effect at the start is included."""
    from_ms, to_ms = window
    last = None if to_ms is None else day_of(max(to_ms - 1, 0))
    units = lake.units(SNAPSHOT, [cluster_id], first, last)
    entries = {unit.day: unit for unit in lake.units(QUOTA_ENTRY, [cluster_id], first, last)}
    snapshots = CompleteSnapshots(lake, entries, columns)
    days = (lake.read([lake.open(unit)], table=SNAPSHOT) for unit in reversed(units))
    return snapshots, any(_add_day(snapshots, rows, from_ms, to_ms) for rows in days)


def _add_day(
    snapshots: CompleteSnapshots, rows: pa.Table, from_ms: int | None, to_ms: int | None
) -> bool:
    """Prepend the snapshots of a day; return whether one of them is in effect at the start of the window."""
    headers = _headers(rows, to_ms)
    before = [header for header in headers if from_ms and header.observed_at_ms < from_ms]
    holds = next(
        (header for header in reversed(before) if snapshots.entries_of(header) is not None), None
    )
    snapshots.headers[:0] = headers if holds is None else headers[headers.index(holds) :]
    return holds is not None
