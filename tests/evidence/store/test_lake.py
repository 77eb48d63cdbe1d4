"""The tables on a disk; :mod:`tests.evidence.store.test_s3` repeats these tests on an S3 server."""

import base64
import fcntl
import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables, parquet_files, table_store
from reconciler.evidence.store.files.table_store import TableStore
from reconciler.evidence.store.lake import TRIES, Lake
from reconciler.evidence.store.stored_days import StoredDay, UnitContent, unit_at
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from tests.evidence.store import rows
from tests.fakes.clock import FakeClock

UNIT = rows.unit(USAGE_SAMPLE)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path)


def rates(lake: Lake) -> list[int]:
    return lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE)["rate_units"].to_pylist()


def test_a_day_is_put_read_and_replaced_with_its_facts(lake: Lake) -> None:
    assert lake.day(UNIT) is None
    content = UnitContent(
        rows=rows.usage(), counts={"gaps": 1}, inputs={"point": "1"}, partial=("cut",)
    )
    first = lake.put(UNIT, content, None)
    assert (first.rows, first.states, first.inputs, first.partial) == (
        3,
        {"gaps": 1},
        {"point": "1"},
        ("cut",),
    )
    assert (first.facts.run_id, first.facts.made_ms) == ("test", rows.FIRST_MS)
    assert lake.read([first], table=USAGE_SAMPLE).equals(rows.usage())
    lake.put(UNIT, UnitContent(rows=rows.usage(rates=(1,))), lake.day(UNIT))
    (second,) = lake.days(USAGE_SAMPLE)
    assert (second.states, second.partial, rates(lake)) == ({}, (), [1])
    assert lake.store.paths("") == [
        *([f"{UNIT.path.rpartition('/')[0]}/.lock"] if lake.store.at.scheme == "file" else []),
        "usage_sample/cluster_id=lkc-Ab_1/day=2025-03-01/part.parquet",
    ]


def test_a_day_without_rows_is_a_day(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage(rates=())), None)
    (day,) = lake.days(USAGE_SAMPLE)
    assert (day.rows, day.series.num_rows) == (0, 0)
    read = lake.read([day], table=USAGE_SAMPLE)
    assert read.schema.equals(arrow_tables.schema(USAGE_SAMPLE))


def test_the_second_of_two_writers_gets_a_conflict_and_changes_nothing(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    stale = lake.day(UNIT)
    lake.put(UNIT, UnitContent(rows=rows.usage(rates=(2,))), lake.day(UNIT))
    for after in (None, stale):
        with pytest.raises(LakeConflict, match="another writer replaced it meanwhile"):
            lake.put(UNIT, UnitContent(rows=rows.usage(rates=(9,))), after)
        assert rates(lake) == [2]


def test_a_writer_whose_first_answer_was_lost_does_not_conflict_with_itself(lake: Lake) -> None:
    path = "usage_sample/x"
    lake.store.put(path, b"first", after=None)
    before = lake.store.version(path)
    if lake.store.at.scheme == "file":
        return  # nothing is sent twice
    lake.store.put(path, b"second", after=before)
    lake.store.put(path, b"second", after=before)
    with pytest.raises(LakeConflict):
        lake.store.put(path, b"third", after=before)
    assert lake.store.content(path) == b"second"


def test_a_lock_that_another_process_keeps_is_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = rows.lake_in(tmp_path)
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    path = (tmp_path / UNIT.path).with_name(table_store.LOCK)
    monkeypatch.setattr(table_store, "TELL_AFTER", 0.0)
    monkeypatch.setattr(table_store, "LOCKED_FOR", 0.1)
    with path.open() as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        with pytest.raises(LakeError, match="is locked by another process") as caught:
            lake.replace(UNIT, UnitContent(rows=rows.usage(rates=(2,))))
    assert str(path) in str(caught.value)
    assert caplog.messages == [f"waiting for another process that has locked {path}"]
    lake.replace(UNIT, UnitContent(rows=rows.usage(rates=(2,))))
    assert rates(lake) == [2]


def test_a_removed_day_is_not_created_again_by_a_writer_that_read_it(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    day = lake.day(UNIT)
    rows.remove(lake, UNIT)
    with pytest.raises(LakeConflict):
        lake.put(UNIT, UnitContent(rows=rows.usage()), day)
    assert lake.days(USAGE_SAMPLE) == ()


@pytest.mark.parametrize(
    "path",
    [
        f"usage_sample/old/cluster_id={rows.CLUSTER}/day=2025-03-01/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/cluster_id={rows.CLUSTER}/day=2025-03-01/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=2025-03-01/day=2025-03-01/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=2026-02-30/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=20260228/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=0001-01-05/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=9999-12-31/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/day=today/part.parquet",
        f"usage_sample/cluster_id={rows.CLUSTER}/2025-03-01/part.parquet",
        "usage_sample/cluster_id=.a/day=2025-03-01/part.parquet",
    ],
)
def test_only_the_exact_path_of_a_day_is_listed(lake: Lake, path: str) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    lake.store.put(path, lake.store.content(UNIT.path), after=None)
    assert lake.units(USAGE_SAMPLE) == lake.units(USAGE_SAMPLE, [rows.CLUSTER]) == [UNIT]


@given(raw=st.binary(min_size=16, max_size=16))
@example(raw=b"\xff" * 16)
def test_every_id_of_kafka_is_the_name_of_a_folder(raw: bytes) -> None:
    cluster_id = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    unit = rows.unit(USAGE_SAMPLE, cluster_id=cluster_id)
    assert unit_at(USAGE_SAMPLE, unit.path) == unit


def test_rows_of_another_cluster_or_day_are_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="have cluster_id = other"):
        lake.put(UNIT, UnitContent(rows=rows.usage(cluster_id="other")), None)
    with pytest.raises(LakeError, match="have day = 2025-03-02"):
        lake.put(UNIT, UnitContent(rows=rows.usage(1)), None)
    with pytest.raises(LakeError, match="is missing"):
        lake.put(UNIT, UnitContent(rows=rows.usage().drop_columns(["rate_units"])), None)
    with pytest.raises(LakeError, match="cannot be the name of a folder"):
        rows.unit(USAGE_SAMPLE, cluster_id="../x")
    assert lake.days(USAGE_SAMPLE) == ()


def test_an_error_while_rows_are_written_leaves_the_old_day(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)

    def failing(table: pa.Table, sink: pa.NativeFile, **_: object) -> None:
        sink.write(b"PAR1 and no more")
        raise OSError("no memory")

    monkeypatch.setattr(pq, "write_table", failing)
    with pytest.raises(OSError, match="no memory"):
        lake.replace(UNIT, UnitContent(rows=rows.usage(rates=(9,))))
    assert rates(lake) == [10, 20, 30]


def test_update_repeats_after_a_conflict_with_growing_pauses_and_finally_fails(lake: Lake) -> None:
    pauses: list[float] = []
    slow = Lake(lake.store, clock=FakeClock(), run_id="a", pause=pauses.append)
    attempts: list[StoredDay | None] = []

    def disturbed(until: int) -> Callable[[StoredDay | None], UnitContent]:
        def make(before: StoredDay | None) -> UnitContent:
            attempts.append(before)
            if len(attempts) <= until:
                lake.put(UNIT, UnitContent(rows=rows.usage(rates=(len(attempts),))), before)
            return UnitContent(rows=rows.usage(rates=(99,)))

        return make

    slow.update(UNIT, disturbed(3))
    assert (len(attempts), rates(lake)) == (4, [99])
    assert len(pauses) == 3
    attempts.clear()
    with pytest.raises(LakeConflict):
        slow.update(UNIT, disturbed(TRIES))
    assert len(attempts) == TRIES
    assert rates(lake) == [TRIES]


def appended(lake: Lake, name: str, times: int) -> None:
    """Add rows of users of this name, one by one."""

    def one_more(before: StoredDay | None, number: int) -> UnitContent:
        old = lake.read([before] if before else [], table=USAGE_SAMPLE)
        return UnitContent(rows=pa.concat_tables([old, rows.usage(users=[f"{name}-{number}"])]))

    for number in range(times):
        lake.update(UNIT, lambda before, number=number: one_more(before, number))


def assert_nothing_was_lost(lake: Lake, users: int) -> None:
    read = lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE)
    assert (len(read["user"].unique()), read.num_rows) == (users, 3 * users)


def test_a_writer_reads_the_rows_of_the_version_that_it_replaces(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage(rates=(1, 2, 3))), None)
    before = lake.day(UNIT)
    assert before is not None
    lake.put(UNIT, UnitContent(rows=rows.usage(users=[f"u{n}" for n in range(500)])), before)
    assert lake.read([before], table=USAGE_SAMPLE)["rate_units"].to_pylist() == [1, 2, 3]
    with pytest.raises(LakeConflict):
        lake.put(UNIT, UnitContent(rows=rows.usage()), before)


def test_writers_in_two_threads_lose_no_rows(lake: Lake) -> None:
    lakes = [Lake(lake.store, clock=FakeClock(), run_id=f"r{n}") for n in range(2)]
    threads = [
        threading.Thread(target=appended, args=(each, f"t{n}", 4)) for n, each in enumerate(lakes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_nothing_was_lost(lake, 8)


def _in_process(store: TableStore, name: str) -> None:
    appended(Lake(TableStore(store.at), clock=FakeClock(), run_id=name), name, 4)


def test_writers_in_two_processes_lose_no_rows(lake: Lake) -> None:
    context = multiprocessing.get_context("spawn")
    at = lake.store.at
    processes = [context.Process(target=_of_address, args=(at, f"p{n}")) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert_nothing_was_lost(lake, 8)


def _of_address(at: object, name: str) -> None:
    _in_process(TableStore(at), name)


def test_days_are_selected_by_cluster_and_day_and_other_files_are_ignored(lake: Lake) -> None:
    for cluster_id in ("b", "a"):
        for number in range(3):
            unit = rows.unit(USAGE_SAMPLE, number, cluster_id)
            lake.put(unit, UnitContent(rows=rows.usage(number, cluster_id=cluster_id)), None)
    lake.store.put(f"{UNIT.path}.bak", b"x", after=None)
    lake.store.put("usage_sample/cluster_id=a/day=2025-03-01/other.parquet", b"x", after=None)
    assert [(unit.cluster_id, unit.day) for unit in lake.units(USAGE_SAMPLE)] == [
        (name, rows.day(number)) for name in "ab" for number in range(3)
    ]
    days = lake.days(USAGE_SAMPLE, ["b", "c"], rows.day(1), rows.day(1))
    assert [(day.unit.cluster_id, day.unit.day) for day in days] == [("b", rows.day(1))]
    assert lake.days(TARGET_UP) == ()


def test_columns_and_a_window_are_selected(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage(users=("a", "b"))), None)
    days = lake.days(USAGE_SAMPLE)
    window = rows.at(0, 60), rows.at(0, 90)
    read = lake.read(days, ["rate_units", "user"], table=USAGE_SAMPLE, window=window)
    assert read.to_pydict() == {"rate_units": [20, 20], "user": ["a", "b"]}


def test_other_engines_find_plain_columns_in_a_hive_layout(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    with lake.store.open(UNIT.path) as file:
        table = pq.read_table(file)
    assert table.schema.names == list(USAGE_SAMPLE.names)
    assert table["rate_units"].to_pylist() == [10, 20, 30]


def of_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a complete Parquet file"),
        (b"PAR1" + bytes(200), "is not a complete Parquet file"),
        (of_parquet(rows.usage()), "its footer has no facts that kquota wrote"),
        (of_parquet(pa.table({"x": [1]})), "has other columns than usage_sample"),
    ],
)
def test_a_file_of_another_program_is_named(lake: Lake, content: bytes, words: str) -> None:
    lake.store.put(UNIT.path, content, after=None)
    with pytest.raises(LakeDamaged, match=words) as caught:
        lake.days(USAGE_SAMPLE)
    assert UNIT.path in str(caught.value)
    assert caught.value.hint


def test_a_path_that_cannot_be_read_or_replaced_is_named_with_what_to_check(lake: Lake) -> None:
    lake.store.put("a", b"a file and no folder", after=None)
    for act in (lambda: lake.store.stored("a/b"), lambda: lake.store.put("a/b", b"", after=None)):
        with pytest.raises(LakeError, match=r"a/b: cannot be read or replaced: ") as caught:
            act()
        assert "check its rights and free space" in caught.value.hint


def test_a_file_in_the_wrong_place_is_not_read(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage()), None)
    day_after = rows.unit(USAGE_SAMPLE, 1)
    lake.store.put(day_after.path, lake.store.content(UNIT.path), after=None)
    with pytest.raises(LakeDamaged, match="in the wrong place"):
        lake.days(USAGE_SAMPLE)


def test_a_truncated_file_is_an_error_and_never_fewer_rows(lake: Lake) -> None:
    lake.put(UNIT, UnitContent(rows=rows.usage(rates=range(3_000))), None)
    content = lake.store.content(UNIT.path)
    for size in range(0, len(content), 997):
        lake.store.put(UNIT.path, content[:size], after=lake.store.version(UNIT.path))
        with pytest.raises(LakeDamaged):
            lake.days(USAGE_SAMPLE)


def test_equal_rows_in_any_order_give_the_same_bytes() -> None:
    table = rows.usage(users=("b", "a"), brokers=("2", "1"))
    shuffled = table.take(pa.array([5, 3, 1, 0, 2, 4, 11, 9, 7, 6, 8, 10]))
    assert parquet_files.write_parquet(USAGE_SAMPLE, table, {}) == parquet_files.write_parquet(
        USAGE_SAMPLE, shuffled, {}
    )
