"""Imports documents of ``kquota snapshot`` into the lake without loss, and reads them back as limits over time."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.codecs.state import read_state
from reconciler.errors import TelemetryError
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import complete_snapshots, state_of
from reconciler.evidence.store.stored_days import Unit
from reconciler.quota.entity import Entity, canonical_parts_text, canonical_text, kinds
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, set_values
from reconciler.usage.samples import TYPE_OF, ValueState, day_of, limit_state, limit_units, start_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, Table

SOURCE: Final = "snapshot"
_FOREIGN: Final = ("foreign", "foreign", "foreign")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDocument:
    """A quota snapshot, as written by ``kquota snapshot --taken-at``."""

    cluster_id: str
    observed_ms: int
    state: QuotaState = field(repr=False)

    @property
    def snapshot_id(self) -> str:
        """A digest of its content: importing the same snapshot again gives the same id."""
        rows = sorted(map(repr, _entries(self.state)))
        text = repr((self.cluster_id, self.observed_ms, rows))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def day(self) -> date:
        """The day of its unit."""
        return day_of(self.observed_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSnapshot:
    """A quota snapshot of a cluster."""

    observed_ms: int
    snapshot_id: str
    state: QuotaState = field(repr=False)


def read(text: str, *, source: str) -> SnapshotDocument:
    """Parse a document of ``kquota snapshot``.

    Raises:
        ConfigError: It is not a complete document of ``kquota snapshot``.
        TelemetryError: It has no time or cluster id. Output of ``kquota describe``, which may be filtered, never has a
            time; as a snapshot it would seem that all other limits were removed.
    """
    cluster_id, taken_at, state = read_state(text, location=source)
    if not taken_at:
        raise TelemetryError(
            "has no time (takenAt), so it is unknown since when its limits apply",
            location=source,
            hint="take it with kquota snapshot --taken-at; output of kquota describe may be filtered and is not a snapshot",
        )
    try:
        moment = datetime.fromisoformat(taken_at)
    except ValueError as wrong:
        raise TelemetryError(f"takenAt {taken_at!r} is not a time", location=source) from wrong
    if moment.tzinfo is None or moment.timestamp() < 0 or not cluster_id:
        raise TelemetryError(
            "needs a takenAt with a time zone and a clusterId",
            location=source,
            hint="take it with kquota snapshot --taken-at",
        )
    return SnapshotDocument(
        cluster_id=cluster_id, observed_ms=round(moment.timestamp() * 1000), state=state
    )


def keep(lake: Lake, snapshots: Iterable[SnapshotDocument]) -> int:
    """Add snapshots of any clusters to the lake; snapshots that it already has change nothing.

    Entries are committed before the row that marks them as complete, so an interrupted import leaves no snapshot.

    Returns:
        The number of new snapshots.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    units: dict[tuple[str, date], dict[str, SnapshotDocument]] = {}
    for snapshot in snapshots:
        units.setdefault((snapshot.cluster_id, snapshot.day), {})[snapshot.snapshot_id] = snapshot
    new = 0
    for (cluster_id, day), snapshots_by_name in sorted(
        units.items(), key=lambda unit_snapshots: unit_snapshots[0]
    ):
        entries = {
            name: _entry_rows(name, snapshot) for name, snapshot in snapshots_by_name.items()
        }
        _ = _add(lake, Unit(table=QUOTA_ENTRY, cluster_id=cluster_id, day=day), entries)
        rows = {
            name: _snapshot_rows(name, snapshot) for name, snapshot in snapshots_by_name.items()
        }
        new += _add(lake, Unit(table=SNAPSHOT, cluster_id=cluster_id, day=day), rows)
    return new


def _add(lake: Lake, unit: Unit, parts: Mapping[str, pa.Table]) -> int:
    def missing(existing_rows: pa.Table) -> pa.Table:
        known_ids = set(pc.unique(existing_rows["snapshot_id"]).to_pylist())
        new = [rows for name, rows in parts.items() if name not in known_ids]
        return pa.concat_tables([existing_rows.slice(0, 0), *new])

    return lake.add(unit, missing)


def _rows(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_tables.schema(table))


def _snapshot_rows(name: str, snapshot: SnapshotDocument) -> pa.Table:
    row = {
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": name,
        "observed_at_ms": snapshot.observed_ms,
        "complete": True,
        "entries": sum(1 for _ in _entries(snapshot.state)),
        "day": snapshot.day,
    }
    return _rows(SNAPSHOT, [row])


def _entry_rows(name: str, snapshot: SnapshotDocument) -> pa.Table:
    entry_rows = [
        {
            "cluster_id": snapshot.cluster_id,
            "snapshot_id": name,
            "observed_at_ms": snapshot.observed_ms,
            "user_kind": slots[0],
            "client_kind": slots[1],
            "ip_kind": slots[2],
            "user": names[0],
            "client_id": names[1],
            "ip": names[2],
            "entity_json": text,
            "quota_key": key,
            "value": value,
            "source": SOURCE,
            "day": snapshot.day,
            **_meaning(key, value),
        }
        for slots, names, text, key, value in _entries(snapshot.state)
    ]
    return _rows(QUOTA_ENTRY, entry_rows)


_Slots = tuple[str, str, str]
_Entry = tuple[_Slots, _Slots, str, str, float]


def _entries(state: QuotaState) -> Iterable[_Entry]:
    """Yield all values, also of unknown keys and entity types."""
    for subject in state.entities():
        foreign = state.foreign_values.get(subject, ())
        known_values = [(key.value, value) for key, value in set_values(state.limits[subject])]
        for key, value in (*known_values, *foreign):
            yield kinds(subject), _names(subject), canonical_text(subject), key, value
    for entity_parts, values in state.foreign_entities:
        for key, value in values:
            yield _FOREIGN, ("", "", ""), canonical_parts_text(entity_parts), key, value


def _names(subject: Entity) -> _Slots:
    user, client_id, ip = subject
    return user or "", client_id or "", ip or ""


def _meaning(key: str, value: float) -> dict[str, object]:
    kind = TYPE_OF[Key(key)] if key in set(Key) else None
    if kind is None:
        # Nothing can be computed for an unknown key.
        return {"quota_units": None, "value_state": ValueState.INVALID.value}
    state = limit_state(kind, value)
    units = limit_units(kind, value) if state is ValueState.FINITE else None
    return {"quota_units": units, "value_state": state.value}


def limit_snapshots(
    lake: Lake, cluster_id: str, since: date | None = None
) -> tuple[LimitSnapshot, ...]:
    """Return the complete snapshots of a cluster by time; equal consecutive snapshots share one state.

    Args:
        since: The first day; of earlier snapshots only the last one before it is returned. ``None`` = all.

    Raises:
        LakeError: A table cannot be read.
    """
    begin = None if since is None else start_of(since)
    snapshots: list[LimitSnapshot] = []
    latest: pa.Table | None = None
    for header, rows in complete_snapshots(lake, cluster_id, begin, columns=_VALUES).read():
        if rows is None:
            continue
        entries = rows.drop_columns(["snapshot_id"]).combine_chunks()
        is_same_state = latest is not None and entries.equals(latest)
        state = snapshots[-1].state if is_same_state else state_of(entries)
        snapshots.append(
            LimitSnapshot(
                observed_ms=header.observed_at_ms, snapshot_id=header.snapshot_id, state=state
            )
        )
        latest = entries
    return tuple(snapshots)


_VALUES: Final = ("snapshot_id", "entity_json", "quota_key", "value")
