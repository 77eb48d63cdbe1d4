"""The tables in an object store with the S3 protocol: the tests of the disk, and errors of the store."""

from collections.abc import Iterator

import pytest

from reconciler.errors import LakeError
from reconciler.evidence.store import previews, published_evidence
from reconciler.evidence.store.files import table_store
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
    assert previews.publish(lake, rows.CLUSTER, to) == (rows.day(-11), rows.day(2))
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(3), DAY_MS)
    assert evidence.note.stale == ""
    bucket = bucket_of("alice")
    assert len(evidence.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]) == 9
    assert "no evidence" in published_evidence.opened(to, "other", rows.at(3), DAY_MS).note.stale


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


def test_plain_http_must_be_allowed_explicitly(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(LakeError, match="is http:// and not https://") as caught:
        table_store.opened(address)
    assert "AWS_ALLOW_HTTP=true" in caught.value.hint
