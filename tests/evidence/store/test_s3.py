"""The lake in an object store with the S3 protocol: conditional puts, races, long listings, ranges, bulk removal."""

import threading
import time
from collections.abc import Iterator

import pytest

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store import published_evidence, publisher
from reconciler.evidence.store.expiry import expired
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.files.object_store import FileStore
from reconciler.evidence.store.lake import TRIES, Lake, UnitContent
from reconciler.usage.samples import DAY_MS, QuotaType, cadence
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.evidence.store import rows, test_lake
from tests.fakes.clock import FakeClock
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server("lake") as running:
        yield running


@pytest.fixture
def place(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> FileStore:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return object_store.opened(f"s3://lake/{abs(hash(request.node.name))}")


def test_an_object_is_created_once(place: FileStore) -> None:
    place.put("a/~2Fb", b"first", create=True)
    with pytest.raises(LakeConflict):
        place.put("a/~2Fb", b"second", create=True)
    place.put("a/~2Fb", b"first", create=True)  # as after a lost response
    assert place.get("a/~2Fb") == b"first"
    assert place.get_range("a/~2Fb", 1, 3) == b"ir"
    assert place.get_range("a/~2Fb", 3, 99) == b"st"
    with pytest.raises(LakeDamaged):
        place.get_range("a/~2Fb", 50, 60)
    place.put("a/~2Fb", b"replaced")
    assert place.get("a/~2Fb") == b"replaced"
    assert place.find("nothing") is None


def test_exactly_one_of_many_writers_creates_an_object(place: FileStore) -> None:
    won: list[int] = []

    def create(number: int) -> None:
        try:
            place.put("x", str(number).encode(), create=True)
        except LakeConflict:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert place.get("x") == str(won[0]).encode()


def test_large_objects_are_uploaded_in_parts_and_listings_have_many_pages(place: FileStore) -> None:
    content = bytes(range(256)) * 50_000  # 12.8 MB
    place.put("large", content)
    assert place.get("large") == content
    for number in range(1100):
        place.put(f"many/{number:04d}", b"1")
    assert len(place.paths("many")) == 1100
    place.delete([*place.paths("many"), "many/nothing"])
    assert [(file.path, file.size) for file in place.stored()] == [("large", len(content))]


def test_concurrent_writers_lose_no_rows(place: FileStore) -> None:
    lakes = [Lake(place, clock=FakeClock(), run_id=f"r{n}", pause=lambda _: None) for n in range(2)]
    threads = [
        threading.Thread(target=test_lake.appended, args=(lake, f"t{n}", TRIES - 1))
        for n, lake in enumerate(lakes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    test_lake.assert_nothing_was_lost(lakes[0], 2 * (TRIES - 1))


def test_evidence_is_published_and_read_and_all_tables_expire(place: FileStore) -> None:
    lake = Lake(place, clock=FakeClock())
    for number in range(3):
        lake.commit(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
        lake.commit(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)
    to = object_store.opened(f"{place.redacted_address}/evidence")
    publisher.publish(
        lake, rows.CLUSTER, to, rows.at(0), rows.at(3), pace=cadence(30_000), now_ms=rows.at(3)
    )
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(3), DAY_MS)
    assert evidence.note.stale == ""
    bucket = bucket_of("alice")
    assert len(evidence.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]) == 9
    assert "no evidence" in published_evidence.opened(to, "other", rows.at(3), DAY_MS).note.stale
    assert place.uri("x").startswith("s3a://lake/")
    later = time.time_ns() // 1_000_000 + 40 * DAY_MS
    assert expired(lake.store, later).total.units == 6
    assert all(path.startswith("evidence/") for path in place.paths())


def test_a_missing_bucket_is_reported(place: FileStore) -> None:
    missing = object_store.opened("s3://no-such-bucket/x")
    for act in (lambda: missing.put("a", b"1"), missing.paths):
        with pytest.raises(LakeError, match="there is no such bucket") as caught:
            act()
        assert caught.value.hint


def test_an_unreachable_server_is_reported_with_the_settings_to_check(
    place: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "TRIES", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(LakeError, match="could not be reached") as caught:
        object_store.opened("s3://lake/x").get("a")
    assert "AWS_ENDPOINT_URL" in caught.value.hint
    assert "a-secret" not in str(caught.value)


def test_plain_http_must_be_allowed_explicitly(
    place: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(LakeError, match="is http:// and not https://") as caught:
        object_store.opened(place.redacted_address).get("a")
    assert "AWS_ALLOW_HTTP=true" in caught.value.hint
