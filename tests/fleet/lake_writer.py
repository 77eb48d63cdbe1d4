"""A fleet as units of a lake, and its true demand and events in a folder that only tests read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.files import arrow_tables, table_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.usage import tables
from reconciler.usage.samples import KEY_OF, QuotaType
from reconciler.usage.tables import Table
from reconciler.usage.tags import GroupKind
from tests.fleet.demand import Day, changed, days
from tests.fleet.spec import CLIENT_ID, DAY_MS, Fleet, What, events, tenants

TELEMETRY_LIMIT: Final = 1e15
REPLICAS: Final = 3
UNSEEN: Final = 1.03
"""Traffic of a broker divided by the sum of its buckets: some is not counted in any."""

CENSORED_AT: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Number of written rows by table."""

    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


class _Then:
    """A clock that does not advance: equal fleets give equal files."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def write(fleet: Fleet, to: Path | str, *, truth: Path | None = None) -> Written:
    """Write a whole fleet; the lake must be new or without days of it.

    Args:
        fleet: The fleet.
        to: Folder or address of the lake.
        truth: A folder for events and true demand; ``None`` = neither is written.
    """
    lake = Lake(
        table_store.opened(str(to), create=True),
        clock=_Then(fleet.to_ms / 1000),
        run_id=f"fleet-{fleet.seed}",
    )
    rows: dict[str, int] = {}
    for cluster in range(fleet.clusters):
        numbers: list[int | None] = [None] * fleet.brokers
        for day in days(fleet, cluster):
            for table, table_rows in tables_of(fleet, day, numbers):
                lake.put(
                    Unit(
                        table=table, cluster_id=fleet.cluster_id(cluster), day=fleet.day(day.number)
                    ),
                    UnitContent(rows=table_rows, inputs=scrape_interval.inputs(fleet.pace)),
                    None,
                )
                rows[table.name] = rows.get(table.name, 0) + table_rows.num_rows
            if truth is not None:
                _write_demand(fleet, day, truth)
    if truth is not None:
        truth.mkdir(parents=True, exist_ok=True)
        reported_events = [
            _event(fleet, event)
            for cluster in range(fleet.clusters)
            for event in events(fleet, cluster)
        ]
        (truth / "events.json").write_text(json.dumps(reported_events, indent=1), encoding="utf-8")
    return Written(rows=rows)


def tables_of(
    fleet: Fleet, day: Day, numbers: list[int | None]
) -> Iterator[tuple[Table, pa.Table]]:
    """All rows of a day of a cluster, table by table.

    Args:
        fleet: The fleet.
        day: The day.
        numbers: Last scrape of each broker before that day; updated.
    """
    common = {"cluster_id": fleet.cluster_id(day.cluster), "day": fleet.day(day.number)}
    lengths = np.stack(
        [_lengths(fleet, day.ts, up, last) for up, last in zip(day.up, numbers, strict=True)]
    )
    yield tables.USAGE_SAMPLE, _samples(fleet, day, lengths, common)
    yield tables.TARGET_UP, _target_up(fleet, day, lengths, common)
    yield tables.BROKER_SAMPLE, _broker_samples(fleet, day, lengths, common)
    looks = tuple(_looks(fleet, day))
    yield (
        tables.SNAPSHOT,
        _rows(
            tables.SNAPSHOT,
            [
                {
                    "snapshot_id": f"look-{at}",
                    "observed_at_ms": at,
                    "complete": True,
                    "entries": len(limits),
                }
                for at, limits in looks
            ],
            common,
        ),
    )
    yield (
        tables.QUOTA_ENTRY,
        _rows(
            tables.QUOTA_ENTRY,
            [_entry(at, *limit) for at, limits in looks for limit in limits],
            common,
        ),
    )
    for broker, up in enumerate(day.up):
        if up.any():
            numbers[broker] = int(day.ts[up][-1])


# ---- samples ------------------------------------------------------------------------------------


def _lengths(fleet: Fleet, ts: np.ndarray, up: np.ndarray, last: int | None) -> np.ndarray:
    """The time that each scrape covers, as in `series.spans`; one step for a failed one."""
    lengths = np.full(len(ts), fleet.step_ms, np.int64)
    scrapes = ts[up]
    if len(scrapes):
        apart = np.diff(scrapes, prepend=scrapes[0] - fleet.step_ms if last is None else last)
        lengths[up] = np.where(apart > fleet.pace.max_gap_ms, fleet.step_ms, apart)
    return lengths


def _samples(fleet: Fleet, day: Day, lengths: np.ndarray, common: Mapping[str, object]) -> pa.Table:
    """Series by series in the order of the table's key, so that they need no sorting."""
    chunks: list[pa.Table] = []
    limits = day.limit[:, :, None, :]
    throttled = day.waits_ms > 0
    censored = throttled & (day.served >= (limits * CENSORED_AT).astype(np.int64))
    # served is rounded down to whole units per second, so it never exceeds the real rate
    for kind, group, broker, names, visible in _series(fleet, day):
        up = day.up[broker]
        count = int(up.sum())
        chunks.append(
            _chunk(
                count,
                {
                    "quota_type": fleet.kinds[kind].value,
                    "group_kind": names[0].value,
                    "user": names[1],
                    "client_id": names[2],
                    "ip": "",
                    "broker_id": str(broker),
                    **common,
                },
                {
                    "ts_ms": day.ts[up],
                    "dt_ms": lengths[broker][up].astype(np.int32),
                    "rate_units": np.where(visible, day.served[kind, group, broker], 0)[up],
                    "throttle_ms": np.where(visible, day.waits_ms[kind, group, broker], 0)[up],
                    "censored": np.where(visible & censored[kind, group, broker], 1, 0)[up],
                },
            )
        )
    samples = pa.concat_tables(chunks).unify_dictionaries()
    words = pa.array(["no", "yes"])
    codes = samples.column("censored").combine_chunks().cast(pa.int32())
    place = samples.column_names.index("censored")
    samples = samples.set_column(place, "censored", pa.DictionaryArray.from_arrays(codes, words))
    return samples.select(tables.USAGE_SAMPLE.names)


def _series(
    fleet: Fleet, day: Day
) -> Iterator[tuple[int, int, int, tuple[GroupKind, str, str], np.ndarray]]:
    """(type, group, broker, its names, the times at which they are used); two per broker on the day of a flip."""
    always = np.ones(len(day.ts), bool)
    flips = {
        event.group: event.from_ms
        for event in events(fleet, day.cluster)
        if event.what is What.TAG_FLIP
    }
    level = fleet.level(day.cluster)
    for kind in range(len(fleet.kinds)):
        for group in range(fleet.groups):
            user, client_id = fleet.names(day.cluster, group)
            flip = flips.get(group)
            parts = [((level, user, client_id), always)]
            if flip is not None:
                after = day.ts >= flip
                parts = [
                    ((level, user, client_id), ~after),
                    ((GroupKind.PAIR, user, CLIENT_ID), after),
                ]
            for names, visible in parts:
                if visible.any():
                    for broker in range(fleet.brokers):
                        yield kind, group, broker, names, visible


def _target_up(
    fleet: Fleet, day: Day, lengths: np.ndarray, common: Mapping[str, object]
) -> pa.Table:
    return (
        pa.concat_tables(
            _chunk(
                len(day.ts),
                {"broker_id": str(broker), **common},
                {"ts_ms": day.ts, "dt_ms": lengths[broker].astype(np.int32), "up": day.up[broker]},
            )
            for broker in range(fleet.brokers)
        )
        .unify_dictionaries()
        .select(tables.TARGET_UP.names)
    )


def _broker_samples(
    fleet: Fleet, day: Day, lengths: np.ndarray, common: Mapping[str, object]
) -> pa.Table:
    """Ingress and egress with a small part outside of all buckets; replication for three replicas."""
    sums = (day.served.sum(axis=1) * UNSEEN).astype(np.int64)
    none = np.zeros_like(sums[0])
    by_kind = dict(zip(fleet.kinds, sums, strict=True))
    comes, goes = by_kind.get(QuotaType.PRODUCE, none), by_kind.get(QuotaType.FETCH, none)
    copies = min(REPLICAS, fleet.brokers) - 1
    leader_bytes = comes.sum(axis=0, keepdims=True) - comes
    received = leader_bytes * copies // max(1, fleet.brokers - 1)
    load = (comes + goes + received) / (fleet.broker_rate * 8)
    idle = (np.clip(1 - 0.7 * load, 0.02, 1) * 1_000_000).astype(np.int64)
    return (
        pa.concat_tables(
            _chunk(
                int(up.sum()),
                {"broker_id": str(broker), **common},
                {
                    "ts_ms": day.ts[up],
                    "dt_ms": lengths[broker][up].astype(np.int32),
                    "bytes_in": comes[broker][up],
                    "bytes_out": goes[broker][up],
                    "replication_in": received[broker][up],
                    "replication_out": (comes[broker] * copies)[up],
                    "request_idle_ppm": idle[broker][up],
                },
            )
            for broker, up in enumerate(day.up)
        )
        .unify_dictionaries()
        .select(tables.BROKER_SAMPLE.names)
    )


def _chunk(count: int, same: Mapping[str, object], columns: Mapping[str, np.ndarray]) -> pa.Table:
    """Columns with one value each, as dictionaries, and columns of numbers."""
    arrays: dict[str, pa.Array] = {name: pa.array(values) for name, values in columns.items()}
    zeros = pa.array(np.zeros(count, np.int32))
    for name, value in same.items():
        if name == "day":
            arrays[name] = pa.repeat(pa.scalar(value, pa.date32()), count)
        else:
            arrays[name] = pa.DictionaryArray.from_arrays(zeros, pa.array([value], pa.string()))
    return pa.table(arrays)


# ---- limits -------------------------------------------------------------------------------------

Limit = tuple[Entity, QuotaType, float]


def _looks(fleet: Fleet, day: Day) -> Iterator[tuple[int, list[Limit]]]:
    """Quota snapshots: at midnight, and around each change of a limit."""
    begin = int(day.ts[0])
    times = {begin}
    for event in events(fleet, day.cluster):
        if (
            event.what in (What.QUOTA_CHANGE, What.TAG_FLIP)
            and begin <= event.from_ms < begin + DAY_MS
        ):
            times |= {max(begin, event.from_ms - 1_000), event.from_ms}
    for at in sorted(times):
        yield at, limits_at(fleet, day.cluster, at)


def limits_at(fleet: Fleet, cluster: int, at_ms: int) -> list[Limit]:
    """The limits of a cluster at a time; the one that enables telemetry is first."""
    people = tenants(fleet, cluster)
    limit = people.limit.copy()
    flipped: set[int] = set()
    for event in events(fleet, cluster):
        if event.from_ms <= at_ms and event.what is What.QUOTA_CHANGE:
            limit[:, event.group] = changed(limit[:, event.group], event.factor)
        elif event.from_ms <= at_ms and event.what is What.TAG_FLIP:
            flipped.add(event.group)
    level = fleet.level(cluster)
    wide = {
        GroupKind.USER: entity(user=DEFAULT),
        GroupKind.PAIR: entity(user=DEFAULT, client_id=DEFAULT),
        GroupKind.CLIENT: entity(client_id=DEFAULT),
    }[level]
    limits: list[Limit] = [(wide, kind, TELEMETRY_LIMIT) for kind in fleet.kinds]
    for place, kind in enumerate(fleet.kinds):
        for group in range(fleet.groups):
            user, client_id = fleet.names(cluster, group)
            value = float(limit[place, group]) or TELEMETRY_LIMIT
            if limit[place, group]:
                limits.append((_entity(user, client_id), kind, value))
            if group in flipped:
                limits.append((_entity(user, CLIENT_ID), kind, value))
    return limits


def _entity(user: str, client_id: str) -> Entity:
    parts = {"user": user, "client_id": client_id}
    return entity(**{name: part for name, part in parts.items() if part})


_KIND: Final = {str: "named", type(None): "default", bool: "absent"}


def _entry(at: int, who: Entity, kind: QuotaType, value: float) -> dict[str, object]:
    unlimited = value >= TELEMETRY_LIMIT
    user, client_id, ip = (part if isinstance(part, str) else "" for part in who)
    return {
        "snapshot_id": f"look-{at}",
        "observed_at_ms": at,
        "user_kind": _KIND[type(who[0])],
        "client_kind": _KIND[type(who[1])],
        "ip_kind": _KIND[type(who[2])],
        "user": user,
        "client_id": client_id,
        "ip": ip,
        "entity_json": canonical_text(who),
        "quota_key": KEY_OF[kind].value,
        "value": value,
        "quota_units": None if unlimited else int(value),
        "value_state": "unlimited" if unlimited else "finite",
        "source": "fleet",
    }


def _rows(
    table: Table, rows: Iterable[Mapping[str, Any]], common: Mapping[str, object]
) -> pa.Table:
    return pa.Table.from_pylist(
        [{**row, **common} for row in rows], schema=arrow_tables.schema(table)
    )


# ---- truth --------------------------------------------------------------------------------------


def _write_demand(fleet: Fleet, day: Day, folder: Path) -> None:
    """(type, group, broker, ts) -> demand and served rate; sorted, one file per cluster and day."""
    kinds, groups, brokers, steps = day.demand.shape
    cells = kinds * groups * brokers
    place = folder / "demand" / fleet.cluster_id(day.cluster)
    place.mkdir(parents=True, exist_ok=True)
    number = np.arange(cells)
    columns = {
        "quota_type": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(number // (groups * brokers), steps).astype(np.int32)),
            pa.array([kind.value for kind in fleet.kinds]),
        ),
        "group": pa.array(np.repeat(number // brokers % groups, steps).astype(np.int32)),
        "broker": pa.array(np.repeat(number % brokers, steps).astype(np.int32)),
        "ts_ms": pa.array(np.tile(day.ts, cells)),
        "wanted_units": pa.array(day.demand.reshape(-1)),
        "served_units": pa.array(day.served.reshape(-1)),
        "limit_units": pa.array(np.repeat(day.limit[:, :, None, :], brokers, axis=2).reshape(-1)),
    }
    pq.write_table(
        pa.table(columns), place / f"{fleet.day(day.number)}.parquet", compression="zstd"
    )


def _event(fleet: Fleet, event: Any) -> dict[str, object]:
    document = asdict(event) | {
        "what": event.what.value,
        "cluster_id": fleet.cluster_id(event.cluster),
    }
    if event.group >= 0:
        user, client_id = fleet.names(event.cluster, event.group)
        document |= {"user": user, "client_id": client_id}
    return document
