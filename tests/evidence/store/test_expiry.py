import json
import os
import threading
import time
from pathlib import Path

import pytest

from reconciler.errors import LakeError
from reconciler.evidence.store.expiry import KEEP_DAYS, TableExpiry, expired
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import TABLES, TARGET_UP, USAGE_5M, USAGE_SAMPLE, Table
from tests.evidence.store import rows
from tests.servers.processes import HANG_SECONDS

NOW = rows.at(100)
OLD = 3 * DAY_MS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path)


def committed(lake: Lake, unit: Unit, generations: int = 1) -> Manifest:
    manifest = lake.manifest(unit)
    number = (unit.day - rows.FIRST).days
    for at in range(generations):
        content = rows.usage(number, rates=(at,)) if unit.table is USAGE_SAMPLE else rows.up(number)
        manifest = lake.commit(unit, UnitContent(rows=content), manifest)
    assert manifest is not None
    return manifest


def age(lake: Lake, older_ms: int, *, only: str = "") -> None:
    """Make files that old."""
    assert lake.store.folder is not None
    when = (NOW - older_ms) / 1000
    for path in lake.store.folder.rglob("*"):
        if path.is_file() and only in path.name:
            os.utime(path, (when, when))


def test_every_table_is_kept_for_its_retention_time() -> None:
    assert set(KEEP_DAYS) == set(TABLES)
    assert {name: KEEP_DAYS[name] for name in ("usage_sample", "target_up", "broker_sample")} == {
        "usage_sample": 30,
        "target_up": 30,
        "broker_sample": 30,
    }
    assert KEEP_DAYS["usage_5m"] == 396
    long = ("usage_hist_d", "snapshot", "quota_entry")
    assert {KEEP_DAYS[name] for name in long} == {762}
    assert KEEP_DAYS["impact_row"] == 30


@pytest.mark.parametrize("table", [USAGE_SAMPLE, TARGET_UP])
def test_a_unit_is_removed_on_the_day_its_retention_ends(lake: Lake, table: Table) -> None:
    for number in (68, 69, 70, 99):
        committed(lake, rows.unit(table, number))
    age(lake, OLD)
    done = expired(lake.store, NOW)
    assert [manifest.unit.day for manifest in lake.manifests(table)] == [rows.day(70), rows.day(99)]
    assert [
        (table_expiry.table, table_expiry.units, table_expiry.files) for table_expiry in done.tables
    ] == [(table.name, 2, 2)]
    assert len(lake.store.paths()) == 4
    assert expired(lake.store, NOW).tables == ()


def test_files_of_the_newest_manifest_remain_and_superseded_generations_are_removed(
    lake: Lake,
) -> None:
    unit = rows.unit(USAGE_SAMPLE, 99)
    newest = committed(lake, unit, 5)
    age(lake, OLD)
    done = expired(lake.store, NOW)
    assert done.total == TableExpiry(
        table="", units=0, generations=4, files=4, size=done.total.size
    )
    assert done.total.size > 1000
    assert [path[-15:] for path in lake.store.paths(unit.manifests)] == ["0000000005.json"]
    assert len(lake.store.paths(unit.folder)) == 1
    assert lake.read([newest]).num_rows == 1


def test_a_generation_that_was_superseded_today_remains_for_its_readers(lake: Lake) -> None:
    unit = rows.unit(USAGE_SAMPLE, 99)
    first = committed(lake, unit)
    age(lake, OLD)
    committed(lake, unit, 3)
    age(lake, 1000, only="0000000004")
    age(lake, 2000, only="0000000003")
    age(lake, 3000, only="0000000002")
    assert expired(lake.store, NOW).tables == ()
    assert lake.read([first]).num_rows == 1
    age(lake, OLD, only="0000000002")
    assert expired(lake.store, NOW).total.generations == 1
    assert lake.manifest(unit) is not None


def test_unreferenced_files_are_removed_after_a_day(lake: Lake) -> None:
    unit = rows.unit(USAGE_SAMPLE, 99)
    committed(lake, unit)
    for path in (
        f"{unit.folder}/orphan.parquet",
        f"{unit.manifests}/.0000000002.json.aa.new",
        "usage_sample/x",
    ):
        lake.store.put(path, b"left over")
    lake.store.put("usage_sample_copy/x", b"not ours")
    lake.store.put("elsewhere/x", b"not ours")
    age(lake, OLD)
    lake.store.put(f"{unit.folder}/young.parquet", b"being written")
    age(lake, 1000, only="young")
    assert expired(lake.store, NOW).total.files == 3
    assert [path for path in lake.store.paths() if "_units" not in path and "run" not in path] == [
        "elsewhere/x",
        f"{unit.folder}/{_name(lake, unit)}",
        f"{unit.folder}/young.parquet",
        "usage_sample_copy/x",
    ]


def _name(lake: Lake, unit: Unit) -> str:
    manifest = lake.manifest(unit)
    assert manifest is not None
    return manifest.files[0].path.rpartition("/")[2]


def test_a_dry_run_counts_the_same_and_removes_nothing(lake: Lake) -> None:
    committed(lake, rows.unit(USAGE_SAMPLE, 10), 2)
    committed(lake, rows.unit(USAGE_SAMPLE, 99), 4)
    age(lake, OLD)
    before = lake.store.paths()
    dry = expired(lake.store, NOW, dry_run=True)
    assert lake.store.paths() == before
    done = expired(lake.store, NOW)
    assert dry.tables == done.tables
    assert (dry.dry_run, done.dry_run) == (True, False)
    assert done.total.units == 1


def test_other_retention_times_can_be_configured(lake: Lake) -> None:
    committed(lake, rows.unit(USAGE_SAMPLE, 95))
    committed(lake, rows.unit(TARGET_UP, 10))
    age(lake, OLD)
    assert expired(lake.store, NOW, {"usage_sample": 4}).total.units == 1
    assert [manifest.unit.table.name for manifest in lake.manifests(TARGET_UP)] == ["target_up"]
    for wrong in ({"nothing": 3}, {USAGE_5M.name: 0}):
        with pytest.raises(LakeError, match="cannot be kept for"):
            expired(lake.store, NOW, wrong)


def spoiled(lake: Lake, manifest: Manifest) -> None:
    content = json.loads(lake.store.get(manifest.path)) | {"schema_version": 9}
    lake.store.put(manifest.path, json.dumps(content).encode())


def test_nothing_of_a_table_with_an_unreadable_manifest_is_removed(lake: Lake) -> None:
    spoiled(lake, committed(lake, rows.unit(USAGE_SAMPLE, 99), 4))
    age(lake, OLD)
    before = lake.store.paths()
    done = expired(lake.store, NOW)
    assert list(done.failures) == ["usage_sample"]
    assert "schema version 9" in str(done.failures["usage_sample"])
    assert (done.tables, lake.store.paths()) == ((), before)


@pytest.mark.parametrize(("bad", "good"), [(TARGET_UP, USAGE_SAMPLE), (USAGE_SAMPLE, TARGET_UP)])
def test_an_unreadable_table_does_not_stop_the_expiry_of_the_others(
    lake: Lake, bad: Table, good: Table
) -> None:
    for table in (bad, good):
        committed(lake, rows.unit(table, 10))
    spoiled(lake, committed(lake, rows.unit(bad, 99)))
    age(lake, OLD)
    dry = expired(lake.store, NOW, dry_run=True)
    done = expired(lake.store, NOW)
    for report in (dry, done):
        assert list(report.failures) == [bad.name]
        assert [(at.table, at.units, at.files) for at in report.tables] == [(good.name, 1, 1)]
    assert lake.manifests(good) == ()
    assert len(lake.store.paths(bad.name)) == 4


class Stuck(rows.Watched):
    """A store whose manifests, but not files, can be removed."""

    def delete(self, paths) -> None:
        named = list(paths)
        if any("_units" not in path for path in named):
            raise LakeError("may not be used", path=named[0])
        super().delete(named)


def test_removals_before_a_failure_are_reported(tmp_path: Path) -> None:
    lake = Lake(Stuck(tmp_path), clock=rows.FakeClock(), run_id="x")
    committed(lake, rows.unit(USAGE_SAMPLE, 10))
    age(lake, OLD)
    done = expired(lake.store, NOW)
    assert list(done.failures) == ["usage_sample"]
    assert [
        (table_expiry.table, table_expiry.units, table_expiry.files) for table_expiry in done.tables
    ] == [("usage_sample", 1, 0)]
    assert done.total.size > 0
    assert lake.manifests(USAGE_SAMPLE) == ()


class Together(rows.Watched):
    """Two manifests must be requested at the same time, otherwise the first waits and fails."""

    both = threading.Barrier(2)

    def find(self, path: str, *, max_bytes: int | None = None) -> bytes | None:
        if "_units" in path:
            self.both.wait(HANG_SECONDS)
        return super().find(path, max_bytes=max_bytes)


def test_manifests_are_read_concurrently(tmp_path: Path) -> None:
    lake = rows.lake_in(tmp_path)
    for number in (98, 99):
        committed(lake, rows.unit(USAGE_SAMPLE, number))
    assert expired(Together(tmp_path), NOW).failures == {}


class Overtaken(rows.Watched):
    """Another writer commits during an expiry."""

    lake: Lake
    unit: Unit

    def delete(self, paths) -> None:
        named = list(paths)
        if named and "_units" in named[0] and self.unit is not None:
            unit, self.unit = self.unit, None
            orphan = f"{unit.folder}/orphan.parquet"
            self.lake.commit(
                unit, UnitContent(files=(self.lake.measure_file(orphan),)), self.lake.manifest(unit)
            )
        super().delete(named)


def test_a_file_that_is_committed_during_expiry_remains(tmp_path: Path) -> None:
    store = Overtaken(tmp_path)
    lake = Lake(store, clock=rows.FakeClock(), run_id="x")
    store.unit = None
    committed(lake, rows.unit(USAGE_SAMPLE, 10))
    unit = rows.unit(USAGE_SAMPLE, 99)
    committed(lake, unit)
    store.put(
        f"{unit.folder}/orphan.parquet", store.get(lake.manifests(USAGE_SAMPLE)[1].files[0].path)
    )
    age(lake, OLD)
    store.lake, store.unit = lake, unit
    assert expired(lake.store, NOW).total.units == 1
    manifest = lake.manifest(unit)
    assert manifest is not None
    assert manifest.generation == 2
    assert lake.read([manifest]).num_rows == 1


def test_a_lake_in_memory_expires_too() -> None:
    lake = rows.lake_in("memory://")
    committed(lake, rows.unit(USAGE_SAMPLE, 1), 3)
    later = time.time_ns() // 1_000_000 + 2 * DAY_MS
    assert expired(lake.store, later, {"usage_sample": 1}).total.units == 1
    assert lake.store.paths() == []
