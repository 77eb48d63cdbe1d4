import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from reconciler.errors import LakeError
from reconciler.evidence.store import latest_pointer as latest_
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.latest_pointer import BUCKET_SEEN, EvidenceFile, LatestPointer
from reconciler.evidence.store.manifest import counts_of
from reconciler.evidence.store.publisher import publish
from reconciler.evidence.store.recorded_window import MOST_SENTENCES
from reconciler.usage.samples import DAY_MS, MILLION, Cadence, QuotaType, cadence
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE, Table
from tests.evidence.store import rows

PACE = cadence(30_000)
ALICE = (("user", "alice"),)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(rows.Watched(tmp_path / "lake"), clock=rows.FakeClock(), run_id="test")


@pytest.fixture
def to(tmp_path: Path) -> rows.Watched:
    return rows.Watched(tmp_path / "evidence")


def fill(
    lake: Lake, *numbers: int, users: tuple[str, ...] = ("alice", "bob"), **options: object
) -> None:
    for number in numbers:
        for unit, content in (
            (rows.unit(USAGE_SAMPLE, number), rows.usage(number, users=users)),
            (rows.unit(TARGET_UP, number), rows.up(number)),
        ):
            lake.commit(unit, UnitContent(rows=content, **options), lake.manifest(unit))


def published(
    lake: Lake, to: rows.Watched, last: int, *, first: int | None = 0, now: int | None = None
) -> LatestPointer:
    to.put_paths = []
    begin = None if first is None else rows.at(first)
    now_ms = rows.at(last if now is None else now)
    return publish(lake, rows.CLUSTER, to, begin, rows.at(last), pace=PACE, now_ms=now_ms)


def test_a_window_is_published_with_all_tables_of_a_preview(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0, 1, counts=counts_of({"gaps": 2, "filled": 0}, {"1": 990_000, "b 2": 5}))
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, [("s", 0, 1, True)])), None)
    lake.commit(
        rows.unit(QUOTA_ENTRY),
        UnitContent(rows=rows.entries(0, "s", [(ALICE, "producer_byte_rate", 5.0)])),
        None,
    )
    latest = published(lake, to, 2)
    assert [(part.table, part.day, part.rows) for part in latest.files] == [
        ("usage_sample", rows.day(0), 6),
        ("usage_sample", rows.day(1), 6),
        ("bucket_seen", rows.day(0), 2),
        ("bucket_seen", rows.day(1), 2),
        ("quota_entry", rows.day(0), 1),
    ]
    assert (latest.from_ms, latest.to_ms, latest.made_ms) == (rows.at(0), rows.at(2), rows.at(2))
    assert (latest.snapshot_id, latest.observed_at_ms) == ("s", rows.at(0))
    assert latest.measured == (QuotaType.PRODUCE,)
    assert latest.partial == ()
    # Absent counts are not reported.
    assert latest.counts == {"gaps": 4, "days": 2}
    assert latest.coverage_ppm == 180_000 * MILLION // (2 * DAY_MS)
    content = to.get(f"{rows.CLUSTER}/LATEST.json")
    assert latest_.read(content, "x", rows.CLUSTER) == latest
    for part in latest.files:
        assert part.sha256 in part.path
        file = to.get(part.path)
        parquet_files.check_same(file, size=part.size, sha256=part.sha256, path="x")
        assert parquet_files.read(latest_.TABLES[part.table], file, path="x").num_rows == part.rows
    assert to.put_paths[-1] == f"{rows.CLUSTER}/LATEST.json"


def test_buckets_seen_are_counted_by_broker(lake: Lake, to: rows.Watched) -> None:
    content = pa.concat_tables(
        [
            rows.usage(users=("a", "b"), brokers=("1", "2"), rates=(1, 2)),
            rows.usage(users=("a",), quota_type="fetch", rates=(1,)),
        ]
    )
    lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=content), None)
    latest = published(lake, to, 1)
    (part,) = latest.of(BUCKET_SEEN)
    bucket_rows = parquet_files.read(BUCKET_SEEN, to.get(part.path), path="x").to_pylist()
    assert [
        (row["quota_type"], row["user"], row["broker_id"], row["samples"]) for row in bucket_rows
    ] == [
        ("fetch", "a", "1", 1),
        ("produce", "a", "1", 2),
        ("produce", "a", "2", 2),
        ("produce", "b", "1", 2),
        ("produce", "b", "2", 2),
    ]
    assert latest.measured == (QuotaType.PRODUCE, QuotaType.FETCH)


def test_a_repeated_publication_uploads_the_changes_and_reads_no_other_day(
    lake: Lake, to: rows.Watched
) -> None:
    fill(lake, 0, 1, 2)
    first = published(lake, to, 3)
    assert len(to.put_paths) == 7
    store = lake.store
    assert isinstance(store, rows.Watched)
    store.found, store.ranges = [], []
    again = published(lake, to, 3)
    assert to.put_paths == [f"{rows.CLUSTER}/LATEST.json"]
    assert again.files == first.files
    assert not [path for path in store.found if path.startswith(f"usage_sample/{rows.CLUSTER}")]
    fill(lake, 3)
    fill(lake, 1, users=("carol",))
    store.found, store.ranges = [], []
    published(lake, to, 4)
    assert sorted({path.split("/")[1] for path in to.put_paths[:-1]}) == [
        "bucket_seen",
        "usage_sample",
    ]
    assert {path.split("/")[2][:10] for path in to.put_paths[:-1]} == {
        rows.day(1).isoformat(),
        rows.day(3).isoformat(),
    }
    sample_files = (path for path in store.found if path.startswith(f"usage_sample/{rows.CLUSTER}"))
    read = {path.split("/")[2] for path in sample_files}
    assert read == {rows.day(1).isoformat(), rows.day(3).isoformat()}


@pytest.mark.parametrize("content", [None, b"cut off"])
def test_a_file_that_is_missing_or_of_another_size_is_uploaded_again(
    lake: Lake, to: rows.Watched, content: bytes | None
) -> None:
    fill(lake, 0)
    latest = published(lake, to, 1)
    path = latest.of(USAGE_SAMPLE)[0].path
    to.delete([path])
    if content is not None:
        to.put(path, content)
    assert published(lake, to, 1).files == latest.files
    assert to.put_paths[:-1] == [path]


@pytest.mark.parametrize("table", [USAGE_SAMPLE, BUCKET_SEEN])
def test_damaged_files_are_repaired_by_uploading_everything(
    lake: Lake, to: rows.Watched, table: Table
) -> None:
    fill(lake, 0)
    latest = published(lake, to, 1)
    part = latest.of(table)[0]
    to.put(part.path, b"?" * part.size)
    repaired = publish(
        lake,
        rows.CLUSTER,
        to,
        rows.at(0),
        rows.at(1),
        pace=PACE,
        now_ms=rows.at(1),
        upload_all=True,
    )
    assert repaired.files == latest.files
    parquet_files.check_same(to.get(part.path), size=part.size, sha256=part.sha256, path="x")


def test_a_damaged_list_of_buckets_ends_the_publication_with_the_repair(
    lake: Lake, to: rows.Watched
) -> None:
    fill(lake, 0)
    part = published(lake, to, 1).of(BUCKET_SEEN)[0]
    to.put(part.path, b"?" * part.size)
    with pytest.raises(LakeError) as damaged:
        published(lake, to, 1)
    assert "--publish --rebuild" in damaged.value.hint


def test_files_of_broker_responses_that_an_earlier_version_published_are_retired(
    lake: Lake, to: rows.Watched
) -> None:
    fill(lake, 0)
    latest = published(lake, to, 1)
    content = parquet_files.write_parquet(TARGET_UP, rows.up())
    path = f"{rows.CLUSTER}/target_up/2025-03-01-0.parquet"
    digest = hashlib.sha256(content).hexdigest()
    earlier = EvidenceFile(
        path=path,
        size=len(content),
        rows=3,
        sha256=digest,
        table="target_up",
        day=rows.day(0),
        source="s",
        end_sha256=digest,
    )
    to.put(path, content)
    to.put(f"{rows.CLUSTER}/LATEST.json", replace(latest, files=(*latest.files, earlier)).json())
    again = published(lake, to, 1)
    assert again.files == latest.files
    assert [retired_file.path for retired_file in again.retired] == [path]


def test_a_day_without_samples_is_missing(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0)
    lake.commit(
        rows.unit(USAGE_SAMPLE, 1), UnitContent(rows=lake.read((), table=USAGE_SAMPLE)), None
    )
    latest = published(lake, to, 2)
    assert latest.partial[0] == "1 of 2 days have no samples: 2025-03-02"
    assert latest.counts["days_missing"] == 1


def test_limits_of_an_old_snapshot_are_reported_with_its_time(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 9)
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, [("s", 0, 0, True)])), None)
    assert (
        "limits were not observed for 10 days: those of 2025-03-01 00:00 UTC count as in force"
        in published(lake, to, 10).partial
    )
    fill(lake, 0, 1)
    assert not any("not observed" in reason for reason in published(lake, to, 2).partial)


def test_the_window_is_two_weeks_and_begins_at_midnight(lake: Lake, to: rows.Watched) -> None:
    fill(lake, *range(17))
    latest = publish(
        lake, rows.CLUSTER, to, None, rows.at(16, 60), pace=PACE, now_ms=rows.at(16, 60)
    )
    assert latest.from_ms == rows.at(2)
    assert [part.day for part in latest.of(USAGE_SAMPLE)] == [
        rows.day(number) for number in range(2, 17)
    ]
    with pytest.raises(LakeError, match="is empty"):
        publish(lake, rows.CLUSTER, to, rows.at(3), rows.at(3), pace=PACE, now_ms=rows.at(3))


def test_each_file_of_a_day_is_copied_as_it_is(lake: Lake, to: rows.Watched) -> None:
    unit = rows.unit(USAGE_SAMPLE)
    files = []
    for user in ("b", "a"):
        path = f"{unit.folder}/{user}.parquet"
        lake.store.put(path, parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(users=(user,))))
        files.append(lake.measure_file(path))
    lake.commit(unit, UnitContent(files=tuple(files)), None)
    latest = published(lake, to, 1)
    copies = latest.of(USAGE_SAMPLE)
    assert {part.sha256 for part in copies} == {file.sha256 for file in files}
    for part in copies:
        assert to.get(part.path) == lake.content(
            next(file for file in files if file.sha256 == part.sha256)
        )
    (bucket_file,) = latest.of(BUCKET_SEEN)
    assert bucket_file.rows == 2


def test_missing_data_is_listed_and_counted(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0, partial=("a replica was away",))
    fill(lake, 4, partial=("a replica was away",))
    lake.commit(rows.unit(USAGE_SAMPLE, 5), UnitContent(rows=rows.usage(5)), None)
    looks = [("a", 0, 1, True), ("b", 60, 1, True), ("c", 90, 1, True)]
    lake.commit(rows.unit(SNAPSHOT, 4), UnitContent(rows=rows.snapshots(4, looks)), None)
    limits = pa.concat_tables(
        [
            rows.entries(4, name, [(ALICE, "producer_byte_rate", value)])
            for name, value in (("a", 1.0), ("b", 2.0))
        ]
    )
    lake.commit(rows.unit(QUOTA_ENTRY, 4), UnitContent(rows=limits), None)
    latest = published(lake, to, 6)
    assert latest.partial == (
        "3 of 6 days have no samples: 2025-03-02, 2025-03-03, 2025-03-04",
        "incomplete snapshots of the limits: 1",
        "limits changed inside the window (1 times); older samples were recorded under others",
        "2025-03-01, 2025-03-05: a replica was away",
    )
    assert (latest.counts["days_missing"], latest.counts["quota_changes"]) == (3, 1)
    assert latest.snapshot_id == "b"


def test_days_with_another_step_keep_the_longest_gap_of_the_window(
    lake: Lake, to: rows.Watched
) -> None:
    fill(lake, 0, inputs=scrape_interval.inputs(Cadence(step_ms=60_000, max_gap_ms=300_000)))
    fill(lake, 1, inputs=scrape_interval.inputs(Cadence(step_ms=10_000, max_gap_ms=50_000)))
    assert published(lake, to, 2).cadence == Cadence(step_ms=10_000, max_gap_ms=300_000)


def test_the_number_of_sentences_is_bounded(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0, partial=tuple(f"reason {number}" for number in range(50)))
    latest = published(lake, to, 1)
    assert len(latest.partial) == MOST_SENTENCES + 1
    assert latest.partial[-1] == "and 31 more"


def test_the_least_available_broker_determines_the_coverage(lake: Lake, to: rows.Watched) -> None:
    content = pa.concat_tables(
        [rows.up(brokers=("1",), moments=2880), rows.up(brokers=("2",), moments=1440)]
    )
    down = content.set_column(4, "up", pa.array([True] * 4000 + [False] * 320))
    lake.commit(rows.unit(TARGET_UP), UnitContent(rows=down), None)
    lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=rows.usage()), None)
    assert published(lake, to, 1).coverage_ppm == 1120 * 30_000 * MILLION // DAY_MS


def test_with_a_broker_that_never_answered_the_coverage_is_zero(
    lake: Lake, to: rows.Watched
) -> None:
    content = pa.concat_tables(
        [rows.up(brokers=("1",), moments=2880), rows.up(brokers=("2",), moments=4)]
    )
    silent = content.set_column(4, "up", pa.array([True] * 2880 + [False] * 4))
    lake.commit(rows.unit(TARGET_UP), UnitContent(rows=silent), None)
    lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=rows.usage()), None)
    assert published(lake, to, 1).coverage_ppm == 0


def test_a_cluster_without_recorded_data_is_published_as_empty(
    lake: Lake, to: rows.Watched
) -> None:
    latest = published(lake, to, 2)
    assert (latest.files, latest.coverage_ppm, latest.measured) == ((), 0, ())
    assert latest.partial[0] == "2 of 2 days have no samples: 2025-03-01, 2025-03-02"
    assert "the lake has no complete snapshot of the limits" in latest.partial


def test_files_of_earlier_publications_are_removed_a_week_after_their_last_reference(
    lake: Lake, to: rows.Watched
) -> None:
    fill(lake, 0, 1, 2, 3)
    first = published(lake, to, 2)
    gone = {part.path for part in first.files if part.day == rows.day(0)}
    assert len(gone) == 2
    to.put(f"{rows.CLUSTER}/usage_sample/left-over.parquet", b"of a run that was killed")
    age(to, rows.at(2))
    second = published(lake, to, 4, first=1, now=20)
    assert {retired_file.path for retired_file in second.retired} == gone
    assert "left-over" not in " ".join(to.paths())
    for now in (21, 26):
        assert {
            retired_file.since_ms
            for retired_file in published(lake, to, 4, first=1, now=now).retired
        } == {rows.at(20)}
        assert gone < set(to.paths())
    last = published(lake, to, 4, first=1, now=28)
    assert last.retired == ()
    assert not gone & set(to.paths())
    assert set(to.paths()) == {
        f"{rows.CLUSTER}/LATEST.json",
        *(part.path for part in last.files),
    }


def age(to: rows.Watched, when_ms: int) -> None:
    assert to.folder is not None
    for path in to.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (when_ms / 1000, when_ms / 1000))


def test_a_damaged_pointer_file_is_replaced(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0)
    latest = published(lake, to, 1)
    to.put(f"{rows.CLUSTER}/LATEST.json", b"{")
    assert published(lake, to, 1).files == latest.files


def test_clusters_do_not_affect_each_other(lake: Lake, to: rows.Watched) -> None:
    fill(lake, 0)
    published(lake, to, 1)
    age(to, rows.at(1))
    second = publish(lake, "a/b", to, rows.at(0), rows.at(1), pace=PACE, now_ms=rows.at(50))
    assert second.files == ()
    assert {path.split("/")[0] for path in to.paths()} == {rows.CLUSTER, "a~2Fb"}
    assert len(to.paths(rows.CLUSTER)) == 3
