"""Evidence for tests: samples of some users on some brokers, in the tables that previews read."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.files import arrow_tables, table_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.quota.entity import canonical_parts_text
from reconciler.usage.samples import DAY_MS, cadence
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE, Table
from tests.fakes.clock import FakeClock

STEP_MS = 30_000
BROKERS = ("1", "2", "3")

Rate = Callable[[int], int]
"""Bytes/s of the n-th sample of a day."""


def busy(peak: int, *, calm: int = 10) -> Rate:
    """``peak`` in the first hour of each day, otherwise ``calm``."""
    return lambda number: peak if number < 3_600_000 // STEP_MS else calm


def published(
    folder: Path,
    cluster_id: str,
    use: Mapping[str, Rate],
    *,
    end_ms: int,
    days: int = 2,
    brokers: Sequence[str] = BROKERS,
    limits: Mapping[str, float] | None = None,
    quota_type: str = "produce",
    censored: str = "no",
    clients: Sequence[str] = (),
) -> None:
    """Publish evidence of users for whole days until a given time.

    Args:
        folder: Folder of the evidence.
        cluster_id: Id of the cluster.
        use: User -> rate; the same on every broker.
        end_ms: End of the window.
        days: Number of days.
        brokers: Broker ids.
        limits: ``producer_byte_rate`` of users in effect at the end; ``None`` = no quota snapshot.
        quota_type: The measured quota type.
        censored: Whether every sample is censored.
        clients: Client ids with the only limits in a quota snapshot of the day before.
    """
    store = table_store.opened(str(folder), create=True)
    lake = Lake(store, clock=FakeClock(end_ms / 1000), run_id="test")
    last = end_ms // DAY_MS - 1
    for day in range(last - days + 1, last + 1):
        samples = _samples(cluster_id, day, use, brokers, quota_type, censored)
        pace = recorded_window.cadence_inputs(cadence(STEP_MS))
        _commit(lake, USAGE_SAMPLE, cluster_id, day, samples, **pace)
        _commit(lake, TARGET_UP, cluster_id, day, _up(cluster_id, day, brokers))
    if limits is not None:
        named = {canonical_parts_text([("user", user)]): limit for user, limit in limits.items()}
        _commit_look(lake, cluster_id, last, named)
    if clients:
        limits_by_entity = {
            canonical_parts_text([("client-id", client)]): 1.0 for client in clients
        }
        _commit_look(lake, cluster_id, last - 1, limits_by_entity)


def _day(number: int) -> date:
    return datetime.fromtimestamp(number * DAY_MS / 1000, UTC).date()


def _commit(
    lake: Lake, table: Table, cluster_id: str, day: int, rows: pa.Table, **inputs: str
) -> None:
    unit = Unit(table=table, cluster_id=cluster_id, day=_day(day))
    _ = lake.replace(unit, UnitContent(rows=rows, inputs=inputs))


def _commit_look(lake: Lake, cluster_id: str, day: int, limits: Mapping[str, float]) -> None:
    _commit(lake, SNAPSHOT, cluster_id, day, _look(cluster_id, day, len(limits)))
    _commit(lake, QUOTA_ENTRY, cluster_id, day, _entries(cluster_id, day, limits))


def _table(table: Table, columns: Mapping[str, object], size: int) -> pa.Table:
    """Columns of lists, or of one value for all rows."""
    schema = arrow_tables.schema(table)
    return pa.table(
        {
            name: pa.array(
                column if isinstance(column, list) else [column] * size, schema.field(name).type
            )
            for name, column in columns.items()
        },
        schema=schema,
    )


def _samples(  # noqa: PLR0917 - private
    cluster_id: str,
    day: int,
    use: Mapping[str, Rate],
    brokers: Sequence[str],
    quota_type: str,
    censored: str,
) -> pa.Table:
    count = DAY_MS // STEP_MS
    pairs = [(user, broker) for user in use for broker in brokers]
    moments = [day * DAY_MS + number * STEP_MS for number in range(count)]
    return _table(
        USAGE_SAMPLE,
        {
            "cluster_id": cluster_id,
            "quota_type": quota_type,
            "group_kind": "user",
            "user": [user for user, _ in pairs for _ in moments],
            "client_id": "",
            "ip": "",
            "broker_id": [broker for _, broker in pairs for _ in moments],
            "ts_ms": moments * len(pairs),
            "dt_ms": STEP_MS,
            "rate_units": [use[user](number) for user, _ in pairs for number in range(count)],
            "throttle_ms": 0,
            "censored": censored,
            "day": _day(day),
        },
        len(pairs) * count,
    )


def _up(cluster_id: str, day: int, brokers: Sequence[str]) -> pa.Table:
    moments = [day * DAY_MS + number * STEP_MS for number in range(DAY_MS // STEP_MS)]
    return _table(
        TARGET_UP,
        {
            "cluster_id": cluster_id,
            "broker_id": [broker for broker in brokers for _ in moments],
            "ts_ms": moments * len(brokers),
            "dt_ms": STEP_MS,
            "up": True,
            "day": _day(day),
        },
        len(moments) * len(brokers),
    )


def _look(cluster_id: str, day: int, entries: int) -> pa.Table:
    return _table(
        SNAPSHOT,
        {
            "cluster_id": cluster_id,
            "snapshot_id": f"s{day}",
            "observed_at_ms": [day * DAY_MS + 1000],
            "complete": True,
            "entries": entries,
            "day": _day(day),
        },
        1,
    )


def _entries(cluster_id: str, day: int, limits: Mapping[str, float]) -> pa.Table:
    return _table(
        QUOTA_ENTRY,
        {
            "cluster_id": cluster_id,
            "snapshot_id": f"s{day}",
            "observed_at_ms": day * DAY_MS + 1000,
            "user_kind": "named",
            "client_kind": "absent",
            "ip_kind": "absent",
            "user": "",
            "client_id": "",
            "ip": "",
            "entity_json": list(limits),
            "quota_key": "producer_byte_rate",
            "value": list(limits.values()),
            "quota_units": [int(limit) for limit in limits.values()],
            "value_state": "finite",
            "source": "test",
            "day": _day(day),
        },
        len(limits),
    )
