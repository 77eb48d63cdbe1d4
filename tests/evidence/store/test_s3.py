"""The tables in an object store with the S3 protocol: the tests of the disk, and errors of the store."""

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

from reconciler.errors import LakeConflict, LakeError
from reconciler.evidence.store import published_evidence
from reconciler.evidence.store.files import parquet_files, table_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.evidence.store import rows, test_lake
from tests.fakes.clock import FakeClock
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.integration

for shared in (
    test_lake.test_a_day_is_put_read_and_replaced_with_its_facts,
    test_lake.test_a_file_of_another_program_is_named,
    test_lake.test_a_removed_day_is_not_created_again_by_a_writer_that_read_it,
    test_lake.test_a_truncated_file_is_an_error_and_never_fewer_rows,
    test_lake.test_a_writer_whose_first_answer_was_lost_does_not_conflict_with_itself,
    test_lake.test_a_writer_reads_the_rows_of_the_version_that_it_replaces,
    test_lake.test_an_error_while_rows_are_written_leaves_the_old_day,
    test_lake.test_columns_and_a_window_are_selected,
    test_lake.test_days_are_selected_by_cluster_and_day_and_other_files_are_ignored,
    test_lake.test_the_second_of_two_writers_gets_a_conflict_and_changes_nothing,
    test_lake.test_update_repeats_after_a_conflict_with_growing_pauses_and_finally_fails,
    test_lake.test_writers_in_two_processes_lose_no_rows,
    test_lake.test_writers_in_two_threads_lose_no_rows,
):
    globals()[shared.__name__] = shared


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server("lake") as running:
        yield running


@pytest.fixture
def address(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://lake/{abs(hash(request.node.name))}"


@pytest.fixture
def lake(address: str) -> Lake:
    store = table_store.opened(address)
    return Lake(store, clock=FakeClock(rows.FIRST_MS / 1000), run_id="test", pause=lambda _: None)


def test_previews_are_copied_and_read(lake: Lake, address: str) -> None:
    for number in range(3):
        lake.put(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
        lake.put(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)
    to = table_store.opened(f"{address}/previews")
    assert published_evidence.publish(lake, rows.CLUSTER, to) == (rows.day(-11), rows.day(2))
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(3), DAY_MS)
    assert evidence.note.stale == ""
    bucket = bucket_of("alice")
    assert len(evidence.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]) == 9
    assert "no evidence" in published_evidence.opened(to, "other", rows.at(3), DAY_MS).note.stale


def replaced_while_it_is_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, times: int
) -> tuple[int, pa.Table]:
    """Read the row groups of a day; it is replaced by one with more rows after the first group of each of some tries."""
    monkeypatch.setattr(parquet_files, "ROW_GROUP", 50)
    rates = itertools.count(10)

    def replace(amount: int) -> None:
        content = UnitContent(rows=rows.usage(users=["a", "b"], rates=[next(rates)] * amount))
        _ = lake.replace(rows.unit(USAGE_SAMPLE), content)

    replace(100)
    read_groups: list[int] = []

    def work(part: pa.Table) -> pa.Table:
        read_groups.append(part.num_rows)
        if len(read_groups) <= times:
            replace(100 + 60 * min(3, len(read_groups)))
        return part

    file = lake.open(rows.unit(USAGE_SAMPLE)).file
    tables = file.map_groups(["user", "rate_units"], work, ["quota_type"], [("produce",)])
    return len(read_groups), pa.concat_tables(tables)


def test_an_object_that_is_replaced_between_two_ranges_is_read_again_from_its_footer(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times in (1, 3):
        read_groups, table = replaced_while_it_is_read(lake, monkeypatch, times)
        assert table.num_rows == 2 * (100 + 60 * times)
        assert table["rate_units"].unique().to_pylist() == [10 + times]
        assert read_groups > times


def test_an_object_that_is_replaced_again_and_again_is_an_error_that_says_so(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LakeConflict, match="replaced again and again") as caught:
        replaced_while_it_is_read(lake, monkeypatch, parquet_files.TRIES * 20)
    assert caught.value.hint == "run it again"


def test_a_missing_bucket_is_reported(address: str) -> None:
    missing = table_store.opened("s3://no-such-bucket/x")
    for act in (lambda: missing.put("a", b"1", after=None), lambda: missing.paths("a")):
        with pytest.raises(LakeError, match="there is no such bucket") as caught:
            act()
        assert caught.value.hint


def test_an_unreachable_server_is_reported_with_the_settings_to_check(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_store, "TRIES", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = table_store.opened("s3://lake/x")
    for act in (lambda: store.put("a", b"1", after=None), lambda: store.paths("a")):
        with pytest.raises(LakeError, match="could not be reached") as caught:
            act()
        assert "AWS_ENDPOINT_URL" in caught.value.hint
        assert "a-secret" not in str(caught.value)


def test_a_store_that_cannot_be_opened_is_an_error_of_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(LakeError, match=r"cannot be opened: .*AccessKeyId$"):
        table_store.opened(address)


def test_plain_http_must_be_allowed_explicitly(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(LakeError, match="is http:// and not https://") as caught:
        table_store.opened(address)
    assert "AWS_ALLOW_HTTP=true" in caught.value.hint
