"""Shared by the tests of the lake: rows of its tables, stores that count or fail, and a clock."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from reconciler.errors import LakeError
from reconciler.evidence.store.files import arrow_tables, table_reader, table_store
from reconciler.evidence.store.files.table_store import TableStore
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit
from reconciler.quota.entity import canonical_parts_text
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE, Table
from tests.fakes.clock import FakeClock

CLUSTER = "lkc-Ab_1"
FIRST = date(2025, 3, 1)
FIRST_MS = int(datetime(2025, 3, 1, tzinfo=UTC).timestamp()) * 1000


def day(number: int) -> date:
    """A day of the tests; 0 is the first."""
    return date.fromordinal(FIRST.toordinal() + number)


def at(number: int, seconds: float = 0) -> int:
    """A time of such a day in milliseconds."""
    return FIRST_MS + number * DAY_MS + int(seconds * 1000)


def unit(table: Table, number: int = 0, cluster_id: str = CLUSTER) -> Unit:
    return Unit(table=table, cluster_id=cluster_id, day=day(number))


def remove(lake: Lake, of: Unit) -> None:
    """Remove the object of a day, as people and lifecycle rules do."""
    files, root = table_reader.file_system(lake.store.at)
    files.delete_file(f"{root}/{of.path}")


def table_of(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_tables.schema(table))


def usage(
    number: int = 0,
    *,
    users: Sequence[str] = ("alice",),
    brokers: Sequence[str] = ("1",),
    quota_type: str = "produce",
    rates: Sequence[int] = (10, 20, 30),
    step: int = 30,
    cluster_id: str = CLUSTER,
) -> pa.Table:
    """Samples of users on brokers, one per rate."""
    return table_of(
        USAGE_SAMPLE,
        [
            {
                "cluster_id": cluster_id,
                "quota_type": quota_type,
                "group_kind": "user",
                "user": user,
                "client_id": "",
                "ip": "",
                "broker_id": broker,
                "ts_ms": at(number, step * (place + 1)),
                "dt_ms": step * 1000,
                "rate_units": rate,
                "throttle_ms": None,
                "censored": "no",
                "day": day(number),
            }
            for user in users
            for broker in brokers
            for place, rate in enumerate(rates)
        ],
    )


def up(
    number: int = 0, *, brokers: Sequence[str] = ("1",), moments: int = 3, step: int = 30
) -> pa.Table:
    """A broker that answered at these times."""
    return table_of(
        TARGET_UP,
        [
            {
                "cluster_id": CLUSTER,
                "broker_id": broker,
                "ts_ms": at(number, step * (place + 1)),
                "dt_ms": step * 1000,
                "up": True,
                "day": day(number),
            }
            for broker in brokers
            for place in range(moments)
        ],
    )


Limit = tuple[Sequence[tuple[str, str | None]], str, float]


def entries(number: int, snapshot_id: str, limits: Sequence[Limit]) -> pa.Table:
    """Rows of one quota snapshot."""
    return table_of(
        QUOTA_ENTRY,
        [
            {
                "cluster_id": CLUSTER,
                "snapshot_id": snapshot_id,
                "observed_at_ms": at(number),
                "user_kind": "named",
                "client_kind": "absent",
                "ip_kind": "absent",
                "user": "",
                "client_id": "",
                "ip": "",
                "entity_json": canonical_parts_text(named),
                "quota_key": key,
                "value": value,
                "quota_units": None,
                "value_state": "finite",
                "source": "test",
                "day": day(number),
            }
            for named, key, value in limits
        ],
    )


def snapshots(number: int, looks: Sequence[tuple[str, float, int, bool]]) -> pa.Table:
    """``(id, seconds of the day, entries, complete)`` of some quota snapshots."""
    return table_of(
        SNAPSHOT,
        [
            {
                "cluster_id": CLUSTER,
                "snapshot_id": name,
                "observed_at_ms": at(number, seconds),
                "complete": complete,
                "entries": count,
                "day": day(number),
            }
            for name, seconds, count, complete in looks
        ],
    )


class Watched(TableStore):
    """A store in a folder that records the files that are opened, and refuses those that the test chooses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(table_store.opened(str(folder), create=True).at)
        self.opened: list[str] = []
        self.refuses = ""

    def open(self, path: str) -> pa.NativeFile:
        if self.refuses and self.refuses in path:
            raise LakeError("may not be used", path=path)
        self.opened.append(path)
        return super().open(path)


def lake_in(folder: Path, run_id: str = "test") -> Lake:
    """A lake that does not wait."""
    opened = table_store.opened(str(folder), create=True)
    return Lake(opened, clock=FakeClock(FIRST_MS / 1000), run_id=run_id, pause=lambda _: None)
