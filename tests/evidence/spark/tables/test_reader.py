"""The last complete quota snapshot before a time, over months: the result, and that older days are not read."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.tables import reader
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Unit
from reconciler.evidence.store.quota_snapshots import last_snapshots
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, Table
from tests.evidence.spark import lakes, plans, quota_cases

pytestmark = pytest.mark.integration

FIRST = dt.date(2026, 1, 1)
BEGIN = 1_767_225_600_000
DAY_MS = 86_400_000
DAYS = 40
END = BEGIN + DAYS * DAY_MS


def commit(
    into: Lake, table: Table, cluster: str, day: dt.date, rows: list[tuple[object, ...]]
) -> None:
    records = [dict(zip(table.names, row, strict=True)) for row in rows]
    unit = Unit(table=table, cluster_id=cluster, day=day)
    into.commit(
        unit,
        UnitContent(rows=pa.Table.from_pylist(records, schema=arrow_tables.schema(table))),
        None,
    )


def looked(
    into: Lake, cluster: str, day: int, looks: list[tuple[str, int, bool, float | None]]
) -> None:
    """Quota snapshots of a day: id, time of the day, whether complete, the one limit (None = no limit)."""
    on = FIRST + dt.timedelta(days=day)
    entries: list[tuple[object, ...]] = []
    snapshots: list[tuple[object, ...]] = []
    for name, at, complete, value in looks:
        ms = BEGIN + day * DAY_MS + at
        state = QuotaState().with_values(
            [] if value is None else [(entity(user="u"), Key.PRODUCER_BYTE_RATE, value)]
        )
        entry_rows = list(quota_cases.entry_rows(cluster, state, snapshot_id=name, at_ms=ms))
        entries += entry_rows
        snapshots.append((name, cluster, ms, complete, len(entry_rows), on))
    order = SNAPSHOT.names
    records = [
        dict(
            zip(
                ("snapshot_id", "cluster_id", "observed_at_ms", "complete", "entries", "day"),
                row,
                strict=True,
            )
        )
        for row in snapshots
    ]
    commit(
        into, SNAPSHOT, cluster, on, [tuple(record[name] for name in order) for record in records]
    )
    commit(into, QUOTA_ENTRY, cluster, on, entries)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    into = lakes.lake(Path(tmp_path_factory.mktemp("looks")))
    for day in range(DAYS):
        looked(
            into, "daily", day, [(f"d{day}", 5, True, 1.0 + day), (f"e{day}", 9, True, 50.0 + day)]
        )
    looked(into, "broken", 3, [("whole", 1, True, 7.0), ("half", 2, False, 8.0)])
    for day in range(4, DAYS):
        looked(into, "broken", day, [(f"half{day}", 3, False, 9.0)])
    looked(into, "late", DAYS - 1, [("before", 1, True, 2.0), ("after", 10, True, 3.0)])
    looked(into, "emptied", 1, [("full", 1, True, 4.0)])
    looked(into, "emptied", 2, [("empty", 1, True, None)])
    looked(into, "never", 5, [("only half", 1, False, 5.0)])
    return into


def test_the_last_complete_snapshot_of_each_cluster_before_the_time_is_used(
    spark: SparkSession, lake: Lake
) -> None:
    snapshots = last_snapshots(lake, None, END - DAY_MS + 10)
    assert {name: snapshot.snapshot_id for name, snapshot in snapshots.items()} == {
        "broken": "whole",
        "daily": f"e{DAYS - 1}",
        "emptied": "empty",
        "late": "before",
    }
    assert snapshots["broken"] == (BEGIN + 3 * DAY_MS + 1, "whole", 1)
    rows = (
        reader.limits_of_snapshots(spark, lake, snapshots).select("cluster_id", "value").collect()
    )
    assert sorted(tuple(row) for row in rows) == [("broken", 7.0), ("daily", 89.0), ("late", 2.0)]
    daily_snapshots = last_snapshots(lake, ("daily", "nobody"), BEGIN + 9)
    assert {name: snapshot.snapshot_id for name, snapshot in daily_snapshots.items()} == {
        "daily": "d0"
    }
    assert last_snapshots(lake, ("daily",), BEGIN) == {}
    assert reader.limits_of_snapshots(spark, lake, {}).collect() == []


def test_for_a_cluster_with_daily_snapshots_one_day_is_read(
    spark: SparkSession, lake: Lake
) -> None:
    snapshots = last_snapshots(lake, ("daily",), END)
    limits = reader.limits_of_snapshots(spark, lake, snapshots)
    (unit,) = lake.manifests(QUOTA_ENTRY, ("daily",), FIRST + dt.timedelta(days=DAYS - 1))
    assert plans.files_read(limits) == {lake.store.uri(file.path) for file in unit.files}
    plans.of(limits).assert_native()
