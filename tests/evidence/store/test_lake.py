import json
import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.lake import TRIES, Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from tests.evidence.store import rows
from tests.fakes.clock import FakeClock

UNIT = rows.unit(USAGE_SAMPLE)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path)


def rewrite(lake: Lake, path: str, **fields: object) -> None:
    lake.store.put(path, json.dumps(json.loads(lake.store.get(path)) | fields).encode())


def test_a_unit_is_committed_read_and_replaced(lake: Lake) -> None:
    assert lake.manifest(UNIT) is None
    first = lake.commit(
        UNIT,
        UnitContent(rows=rows.usage(), counts={"gaps": 1}, inputs={"point": "1"}, partial=("cut",)),
        None,
    )
    assert (first.generation, first.rows, first.run_id, first.made_ms) == (
        1,
        3,
        "test",
        1_700_000_000_000,
    )
    assert lake.manifest(UNIT) == first
    assert lake.read([first]).equals(rows.usage())
    second = lake.commit(UNIT, UnitContent(rows=rows.usage(rates=(1,))), first)
    assert (second.generation, second.counts, second.partial) == (2, {}, ())
    assert lake.manifest(UNIT) == second
    assert lake.read([second]).column("rate_units").to_pylist() == [1]
    assert lake.read([first]).num_rows == 3  # a reader that started with it can finish with it


def test_a_unit_without_rows_can_be_committed(lake: Lake) -> None:
    manifest = lake.commit(UNIT, UnitContent(rows=rows.usage(rates=())), None)
    assert manifest.files == ()
    assert lake.manifests(USAGE_SAMPLE) == (manifest,)
    assert lake.read([manifest]).schema.equals(arrow_tables.schema(USAGE_SAMPLE))


def test_the_second_of_two_writers_gets_a_conflict_and_leaves_no_file(lake: Lake) -> None:
    first = lake.commit(UNIT, UnitContent(rows=rows.usage()), None)
    before = lake.store.paths()
    for after in (None, first):
        if after is first:
            lake.commit(UNIT, UnitContent(rows=rows.usage()), first)
            before = lake.store.paths()
        with pytest.raises(
            LakeConflict, match="another writer committed usage_sample of lkc-Ab_1 on 2025-03-01"
        ):
            lake.commit(UNIT, UnitContent(rows=rows.usage(rates=(9,))), after)
        assert lake.store.paths() == before


def test_an_expired_generation_cannot_be_created_again(lake: Lake) -> None:
    manifests = [lake.commit(UNIT, UnitContent(rows=rows.usage()), None)]
    for _ in range(3):
        manifests.append(lake.commit(UNIT, UnitContent(rows=rows.usage()), manifests[-1]))
    lake.store.delete([manifests[0].path, manifests[1].path])
    with pytest.raises(LakeConflict):
        lake.commit(UNIT, UnitContent(rows=rows.usage()), manifests[0])
    assert lake.manifest(UNIT) == manifests[-1]


def test_rows_of_another_cluster_or_day_are_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="have cluster_id = other"):
        lake.commit(UNIT, UnitContent(rows=rows.usage(cluster_id="other")), None)
    with pytest.raises(LakeError, match="have day = 2025-03-02"):
        lake.commit(UNIT, UnitContent(rows=rows.usage(1)), None)
    with pytest.raises(LakeError, match="is missing"):
        lake.commit(UNIT, UnitContent(rows=rows.usage().drop_columns(["rate_units"])), None)
    assert lake.store.paths() == []


def test_update_reads_computes_and_commits(lake: Lake) -> None:
    def one_more(before: Manifest | None) -> UnitContent:
        rates = lake.read([before]).column("rate_units").to_pylist() if before else []
        return UnitContent(rows=rows.usage(rates=[*rates, len(rates)]), counts={"n": len(rates)})

    for number in range(3):
        assert lake.update(UNIT, one_more).generation == number + 1
    assert lake.read(lake.manifests(USAGE_SAMPLE)).column("rate_units").to_pylist() == [0, 1, 2]


def test_update_retries_after_a_conflict_with_growing_pauses_and_finally_fails(
    tmp_path: Path,
) -> None:
    second_lake = rows.lake_in(tmp_path)
    pauses: list[float] = []
    lake = Lake(second_lake.store, clock=FakeClock(), run_id="a", pause=pauses.append)
    generations: list[int] = []

    def disturbed(until: int) -> Callable[[Manifest | None], UnitContent]:
        def make(before: Manifest | None) -> UnitContent:
            generations.append(before.generation if before else 0)
            if len(generations) <= until:
                second_lake.commit(UNIT, UnitContent(rows=rows.usage()), before)
            return UnitContent(rows=rows.usage(rates=(99,)))

        return make

    assert lake.update(UNIT, disturbed(2)).generation == 3
    assert generations == [0, 1, 2]
    assert len(pauses) == 2
    assert 0.025 <= pauses[0] <= 0.075
    assert 0.05 <= pauses[1] <= 0.15
    with pytest.raises(LakeConflict):
        lake.update(UNIT, disturbed(1000))
    assert len(pauses) == 2 + TRIES - 1


def test_files_written_by_another_engine_are_committed_unchanged(lake: Lake) -> None:
    paths = []
    for number, user in enumerate(("a", "b")):
        path = f"{UNIT.folder}/{lake.new_name()}-{number}.parquet"
        lake.store.put(path, parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(users=(user,))))
        paths.append(path)
    manifest = lake.commit(
        UNIT, UnitContent(files=tuple(lake.measure_file(path) for path in reversed(paths))), None
    )
    assert [(file.path, file.rows) for file in manifest.files] == [
        (path, 3) for path in sorted(paths)
    ]
    assert sorted(set(lake.read([manifest]).column("user").to_pylist())) == ["a", "b"]
    again = lake.update(UNIT, lambda before: UnitContent(files=before.files if before else ()))
    assert again.files == manifest.files
    lake.store.put("broken.parquet", b"PAR1")
    with pytest.raises(LakeDamaged, match="is not a complete Parquet file"):
        lake.measure_file("broken.parquet")
    with pytest.raises(LakeError, match="of rows or of files"):
        UnitContent(rows=rows.usage(), files=manifest.files)
    with pytest.raises(LakeError, match="cannot come before"):
        lake.commit(rows.unit(USAGE_SAMPLE, 1), UnitContent(), manifest)


def test_units_are_selected_by_cluster_and_day_with_one_listing(tmp_path: Path) -> None:
    store = rows.Watched(tmp_path)
    lake = Lake(store, clock=FakeClock())
    for cluster in ("b", "a/b", "_c"):
        for number in range(5):
            unit = rows.unit(USAGE_SAMPLE, number, cluster)
            first = lake.commit(
                unit, UnitContent(rows=rows.usage(number, cluster_id=cluster)), None
            )
            lake.commit(
                unit, UnitContent(rows=rows.usage(number, cluster_id=cluster, rates=(1,))), first
            )
    lake.commit(rows.unit(TARGET_UP), UnitContent(rows=rows.up()), None)
    store.put(f"usage_sample/_units/b/{rows.day(0)}/.0000000009.json.1.new", b"being written")
    store.put(f"usage_sample/_units/b/{rows.day(0)}/notes.txt", b"somebody's")
    store.put("usage_sample/_units/b/today/0000000001.json", b"no day")
    store.listings, store.found = 0, []
    manifests = lake.manifests(USAGE_SAMPLE)
    assert [(manifest.unit.cluster_id, manifest.unit.day) for manifest in manifests] == [
        (cluster, rows.day(number)) for cluster in ("_c", "a/b", "b") for number in range(5)
    ]
    assert {manifest.generation for manifest in manifests} == {2}
    assert (store.listings, len(store.found)) == (1, 15)
    some = lake.manifests(USAGE_SAMPLE, ["a/b", "b", "none"], rows.day(1), rows.day(3))
    assert [(manifest.unit.cluster_id, manifest.unit.day) for manifest in some] == [
        (cluster, rows.day(number)) for cluster in ("a/b", "b") for number in (1, 2, 3)
    ]
    assert lake.manifests(USAGE_SAMPLE, []) == ()


def test_rows_and_columns_are_selected_and_an_empty_result_has_the_columns_of_the_table(
    lake: Lake,
) -> None:
    for number in range(3):
        lake.commit(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
    table = lake.read(
        lake.manifests(USAGE_SAMPLE), ["ts_ms", "rate_units"], pc.field("ts_ms") >= rows.at(2)
    )
    assert table.column("rate_units").to_pylist() == [10, 20, 30]
    assert table.column_names == ["ts_ms", "rate_units"]
    assert lake.read([], ["day"], table=USAGE_SAMPLE).column_names == ["day"]
    assert lake.read([]).num_columns == 0
    up = lake.commit(rows.unit(TARGET_UP), UnitContent(rows=rows.up()), None)
    with pytest.raises(LakeError, match="target_up and usage_sample cannot be read as one table"):
        lake.read([up, *lake.manifests(USAGE_SAMPLE)])


def test_a_missing_truncated_or_modified_file_is_named(lake: Lake) -> None:
    manifest = lake.commit(UNIT, UnitContent(rows=rows.usage()), None)
    (file,) = manifest.files
    good = lake.store.get(file.path)
    for content, message in (
        (good[:-1], f"has {len(good) - 1} bytes where {len(good)} were committed"),
        (good[:-9] + b"x" + good[-8:], "has other bytes than were committed"),
        (None, "a manifest names this file, and it is not there"),
    ):
        if content is None:
            lake.store.delete([file.path])
        else:
            lake.store.put(file.path, content)
        with pytest.raises(LakeDamaged, match=message) as caught:
            lake.read([manifest])
        assert caught.value.path.endswith(file.path)
        assert caught.value.hint


def test_this_schema_version_and_the_previous_one_are_read_and_the_next_is_refused(
    lake: Lake,
) -> None:
    manifest = lake.commit(UNIT, UnitContent(rows=rows.usage()), None)
    rewrite(lake, manifest.path, schema_version=0)
    assert lake.read(lake.manifests(USAGE_SAMPLE)).num_rows == 3
    rewrite(lake, manifest.path, schema_version=2)
    for act in (lambda: lake.manifest(UNIT), lambda: lake.manifests(USAGE_SAMPLE)):
        with pytest.raises(LakeDamaged, match="schema version 2; this program reads 0 and 1"):
            act()


def test_a_manifest_at_a_wrong_path_is_refused(lake: Lake) -> None:
    manifest = lake.commit(UNIT, UnitContent(rows=rows.usage()), None)
    second_unit = rows.unit(USAGE_SAMPLE, 1)
    lake.store.put(second_unit.generation(1), lake.store.get(manifest.path))
    with pytest.raises(LakeDamaged, match=r"is of .*, not of "):
        lake.manifest(second_unit)
    with pytest.raises(LakeDamaged, match="in the wrong place"):
        lake.manifests(USAGE_SAMPLE)


def appended(lake: Lake, name: str, times: int) -> None:
    """Append a given number of rows, one commit each."""

    def one_more(before: Manifest | None) -> UnitContent:
        had = lake.read([before] if before else [], table=USAGE_SAMPLE)
        new_rows = rows.usage(users=(f"{name}-{had.num_rows}",), rates=(1,))
        return UnitContent(rows=pa.concat_tables([had, new_rows]))

    for _ in range(times):
        lake.update(UNIT, one_more)


def assert_nothing_was_lost(lake: Lake, total: int) -> None:
    newest = lake.manifest(UNIT)
    assert newest is not None
    assert (newest.generation, newest.rows) == (total, total)
    numbers = sorted(
        int(user.partition("-")[2]) for user in lake.read([newest]).column("user").to_pylist()
    )
    assert numbers == list(range(total))
    paths = lake.store.paths(UNIT.folder)
    assert len(paths) == total  # another writer that lost the race deleted its file


@pytest.mark.parametrize("uri", ["memory://", "folder"])
def test_threads_that_race_on_a_unit_lose_no_rows(uri: str, tmp_path: Path) -> None:
    store = rows.lake_in(tmp_path if uri == "folder" else uri).store
    lakes = [Lake(store, clock=FakeClock(), run_id=f"r{n}", pause=lambda _: None) for n in range(2)]
    threads = [
        threading.Thread(target=appended, args=(lake, f"t{n}", TRIES - 1))
        for n, lake in enumerate(lakes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_nothing_was_lost(lakes[0], 2 * (TRIES - 1))


def race(folder: str, name: str, times: int) -> None:
    appended(rows.lake_in(folder, name), name, times)


def test_processes_that_race_on_a_unit_lose_no_rows(tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn").Process
    processes = [start(target=race, args=(str(tmp_path), f"p{n}", TRIES - 1)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert_nothing_was_lost(rows.lake_in(tmp_path), 2 * (TRIES - 1))


def test_exactly_one_of_many_writers_creates_a_generation(lake: Lake) -> None:
    outcomes: list[int | None] = []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        own_lake = Lake(lake.store, clock=FakeClock(), run_id=f"r{number}")
        _ = barrier.wait()
        try:
            outcomes.append(
                own_lake.commit(
                    UNIT, UnitContent(rows=rows.usage(rates=(number,))), None
                ).generation
            )
        except LakeConflict:
            outcomes.append(None)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == [1, *[None] * 7]
    assert lake.read(lake.manifests(USAGE_SAMPLE)).num_rows == 1


def test_readers_during_commits_see_one_generation_and_never_a_mixture(lake: Lake) -> None:
    lake.commit(UNIT, UnitContent(rows=rows.usage(users=("a", "b"), rates=(0,) * 5)), None)
    ended = threading.Event()

    def write() -> None:
        for number in range(1, 25):
            content = rows.usage(users=("a", "b"), rates=(number,) * 5)
            lake.update(UNIT, lambda _, content=content: UnitContent(rows=content))
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    rates_read: list[int] = []
    while not ended.is_set() or len(rates_read) < 2:
        rates = lake.read(lake.manifests(USAGE_SAMPLE)).column("rate_units").to_pylist()
        assert len(rates) == 10
        assert len(set(rates)) == 1
        rates_read.append(rates[0])
    writer.join()
    assert rates_read == sorted(rates_read)


def test_a_lake_has_a_unique_run_id_and_unique_file_names(tmp_path: Path) -> None:
    store = rows.lake_in(tmp_path).store
    first, second = (Lake(store, clock=FakeClock()) for _ in range(2))
    assert first.run_id != second.run_id
    assert first.new_name() != first.new_name()
