import hashlib
import http.server
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import latest_pointer, published_evidence
from reconciler.evidence.store.files import object_store, parquet_files
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.latest_pointer import BUCKET_SEEN, LatestPointer
from reconciler.evidence.store.published_evidence import (
    UNKNOWN_PACE,
    PublishedEvidence,
)
from reconciler.evidence.store.publisher import publish
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.samples import Censored, QuotaType, cadence
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.store import rows
from tests.usage.reference import Sample, samples_of

PACE = cadence(30_000)
HOUR = 3_600_000
LATEST = f"{rows.CLUSTER}/LATEST.json"
ALICE = bucket_of("alice")
PRODUCE = QuotaType.PRODUCE


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path / "lake")


@pytest.fixture
def to(tmp_path: Path) -> rows.Watched:
    return rows.Watched(tmp_path / "evidence")


def published(lake: Lake, to: rows.Watched, days: int = 2, **usage: object) -> LatestPointer:
    for number in range(days):
        lake.commit(
            rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number, **usage)), None
        )
        lake.commit(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)
    return publish(
        lake, rows.CLUSTER, to, rows.at(0), rows.at(days), pace=PACE, now_ms=rows.at(days)
    )


def opened(to: rows.Watched, *, day: int = 2, max_age_ms: int = 48 * HOUR) -> PublishedEvidence:
    return published_evidence.opened(to, rows.CLUSTER, rows.at(day), max_age_ms)


def plain(
    series: dict[Bucket, dict[str, SampleSeries]],
) -> dict[Bucket, dict[str, list[Sample]]]:
    return {
        bucket: {broker: samples_of(samples) for broker, samples in brokers.items()}
        for bucket, brokers in series.items()
    }


def test_published_evidence_is_read_back(lake: Lake, to: rows.Watched) -> None:
    limits: list[rows.Limit] = [
        ((("user", "alice"),), "producer_byte_rate", 5.0),
        ((("prefix", "x"),), "producer_byte_rate", 6.0),
    ]
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, [("s", 0, 2, True)])), None)
    lake.commit(rows.unit(QUOTA_ENTRY), UnitContent(rows=rows.entries(0, "s", limits)), None)
    latest = published(lake, to, users=("alice", "bob"), brokers=("1", "2"))
    evidence = opened(to)
    note = evidence.note
    assert (note.stale, note.source, note.cluster_id) == ("", to.display_path(LATEST), rows.CLUSTER)
    assert (note.from_ms, note.to_ms, note.made_ms) == (rows.at(0), rows.at(2), rows.at(2))
    assert (note.step_ms, note.snapshot_id, note.partial) == (30_000, "s", ())
    assert (note.coverage_ppm, note.counts) == (latest.coverage_ppm, latest.counts)
    earlier_counts = {
        "covered_ppm 1": 28_000_000,
        "days_missing": 0,
        f"{latest_pointer.BEYOND} request_percentage": 1,
    }
    earlier = replace(latest, counts={**latest.counts, **earlier_counts})
    to.put(LATEST, earlier.json())
    assert opened(to).note.counts == latest.counts
    assert evidence.cadence == PACE
    assert evidence.state is not None
    assert evidence.state.value(entity(user="alice"), Key.PRODUCER_BYTE_RATE) == 5.0
    assert len(evidence.state.foreign_entities) == 1
    both = frozenset({ALICE, bucket_of("bob")})
    assert evidence.buckets_by_broker(PRODUCE) == {"1": both, "2": both}
    assert evidence.buckets_by_broker(QuotaType.FETCH) == {}
    assert [kind for kind in QuotaType if evidence.measured(kind)] == [PRODUCE]
    samples = [
        Sample(rows.at(number, 30 * (place + 1)), 30_000, rate, None, Censored.NO)
        for number in range(2)
        for place, rate in enumerate((10, 20, 30))
    ]
    assert plain(evidence.series(PRODUCE, [ALICE])) == {ALICE: {"1": samples, "2": samples}}
    assert evidence.series(PRODUCE, []) == {}
    assert evidence.series(QuotaType.FETCH, [ALICE]) == {}
    assert evidence.series(PRODUCE, [bucket_of("nobody")]) == {}
    assert evidence.series(PRODUCE, [bucket_of("", "alice")]) == {}


NAMES = st.sampled_from(["", "a", "b", "ü", "z" * 40])
BUCKETS = st.builds(bucket_of, NAMES, NAMES, NAMES)
ROWS = st.tuples(st.sampled_from(list(QuotaType)), BUCKETS, st.sampled_from(["1", "2", "10"]))


@given(
    st.lists(ROWS, min_size=1, max_size=12, unique=True),
    st.lists(BUCKETS, max_size=6),
    st.sampled_from(list(QuotaType)),
)
def test_series_equal_the_result_of_a_scan_of_all_rows(
    series_keys: list[tuple[QuotaType, Bucket, str]], buckets_asked: list[Bucket], kind: QuotaType
) -> None:
    lake, to = rows.lake_in("memory://"), rows.lake_in("memory://").store
    samples = [
        (key, 30 * (place + 1), place)
        for place, key in enumerate(series_keys)
        for place in range(3)
    ]
    content = rows.table_of(
        USAGE_SAMPLE,
        [
            {
                "cluster_id": rows.CLUSTER,
                "quota_type": str(of),
                "group_kind": str(bucket.kind),
                "user": bucket.user,
                "client_id": bucket.client_id,
                "ip": bucket.ip,
                "broker_id": broker,
                "ts_ms": rows.at(0, second),
                "dt_ms": 30_000,
                "rate_units": rate,
                "throttle_ms": rate or None,
                "censored": ("no", "yes", "unknown")[rate % 3],
                "day": rows.day(0),
            }
            for (of, bucket, broker), second, rate in samples
        ],
    )
    lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=content), None)
    publish(lake, rows.CLUSTER, to, rows.at(0), rows.at(1), pace=PACE, now_ms=rows.at(1))
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(1), HOUR)
    buckets_read = [*buckets_asked, *(bucket for _, bucket, _ in series_keys[:3])]
    expected: dict[Bucket, dict[str, list[Sample]]] = {}
    for (of, bucket, broker), second, rate in samples:
        if of is kind and bucket in buckets_read:
            censored = (Censored.NO, Censored.YES, Censored.UNKNOWN)[rate % 3]
            sample = Sample(rows.at(0, second), 30_000, rate, rate or None, censored)
            expected.setdefault(bucket, {}).setdefault(broker, []).append(sample)
    assert plain(evidence.series(kind, buckets_read)) == expected
    assert {
        broker: set(buckets) for broker, buckets in evidence.buckets_by_broker(kind).items()
    } == {
        broker: {bucket for of, bucket, at in series_keys if of is kind and at == broker}
        for broker in {at for of, _, at in series_keys if of is kind}
    }


def test_only_row_groups_that_may_contain_a_bucket_are_fetched(
    lake: Lake, to: rows.Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP", 1000)
    monkeypatch.setattr("reconciler.evidence.store.files.row_groups.TAIL", 1 << 16)
    users = [f"user-{number:04d}" for number in range(1000)]
    rates = [(number * 7919) % 100_003 for number in range(100)]
    published(lake, to, 1, users=users, rates=rates)
    to.ranges = []
    evidence = opened(to, day=1)
    fetched = [size for path, size in to.ranges if "usage_sample" in path]
    assert fetched[0] == 1 << 16
    assert len(fetched) <= 2  # a larger end is fetched once more
    to.ranges = []
    bucket = bucket_of("user-0023")
    assert len(evidence.series(PRODUCE, [bucket])[bucket]["1"]) == 100
    file_size = next(file.size for file in to.stored() if "usage_sample" in file.path)
    assert 0 < sum(size for _, size in to.ranges) < file_size / 10


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda to: to.delete([LATEST]), "no evidence of this cluster was published"),
        (lambda to: to.put(LATEST, b""), "is empty"),
        (lambda to: to.put(LATEST, to.get(LATEST)[:300]), "is not JSON"),
        (
            lambda to: change(to, schema_version=2),
            "was written with schema version 2; this program reads 0 and 1 (upgrade",
        ),
        (lambda to: change(to, format_version=2), "is of format version 2"),
        (
            lambda to: change(to, format="kquota-state"),
            "is 'kquota-state' and not 'kquota-evidence'",
        ),
        (lambda to: change(to, cluster_id="other"), "is of the cluster other"),
        (lambda to: change(to, step_ms=0), "a scrape step of 0 ms"),
        (lambda to: change(to, measured=["nothing"]), "measured[0] should be one of"),
        (lambda to: change(to, new_field=1), "the unknown field 'new_field' (a newer version"),
        (lambda to: to.delete([file(to, "usage_sample")]), "is not there"),
        (lambda to: to.put(file(to, "usage_sample"), b"PAR1"), "is"),
        (lambda to: cut(to, "usage_sample"), "is"),
        (lambda to: cut(to, "bucket_seen"), "it was cut off or replaced"),
        (lambda to: to.delete([file(to, "bucket_seen")]), "is not there"),
        (lambda to: cut(to, "quota_entry"), "it was cut off or replaced"),
        (
            lambda to: to.put(
                file(to, "usage_sample"),
                parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(rates=(1,))),
            ),
            "is",
        ),
    ],
)
def test_evidence_that_is_missing_damaged_or_newer_is_not_used_and_the_reason_is_given(
    lake: Lake, to: rows.Watched, act: Callable[[rows.Watched], object], reason: str
) -> None:
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, [("s", 0, 1, True)])), None)
    lake.commit(
        rows.unit(QUOTA_ENTRY),
        UnitContent(rows=rows.entries(0, "s", [((("user", "alice"),), "producer_byte_rate", 5.0)])),
        None,
    )
    published(lake, to)
    act(to)
    evidence = opened(to)
    assert reason in evidence.note.stale
    assert_empty(evidence)


def assert_empty(evidence: PublishedEvidence) -> None:
    assert (evidence.state, evidence.cadence) == (None, UNKNOWN_PACE)
    assert not any(
        evidence.measured(kind) or evidence.buckets_by_broker(kind) for kind in QuotaType
    )
    assert evidence.series(PRODUCE, [ALICE]) == {}
    assert evidence.note.cluster_id == rows.CLUSTER
    assert evidence.note.source


def change(to: rows.Watched, **fields: object) -> None:
    to.put(LATEST, json.dumps(json.loads(to.get(LATEST)) | fields).encode())


def file(to: rows.Watched, table: str) -> str:
    return to.paths(f"{rows.CLUSTER}/{table}")[0]


def cut(to: rows.Watched, table: str) -> None:
    path = file(to, table)
    to.put(path, to.get(path)[:-20])


def test_evidence_that_ended_too_long_ago_is_not_used(lake: Lake, to: rows.Watched) -> None:
    published(lake, to)
    assert opened(to, day=4).note.stale == ""
    old = opened(to, day=5)
    assert old.note.stale == "it ends 2025-03-03 00:00 UTC, 72 hours ago; 48 are allowed"
    assert old.note.to_ms == rows.at(2)  # the earlier value is still reported
    assert_empty(old)
    assert "publication time is in the future" in opened(to, day=1).note.stale


@pytest.mark.parametrize(
    ("age_ms", "allowed_ms", "words"),
    [
        (45 * 60_000, 30 * 60_000, "45 minutes ago; 30 are allowed"),
        (3 * HOUR, 90 * 60_000, "180 minutes ago; 90 are allowed"),
        (48 * HOUR + 600_000, 48 * HOUR, "2,890 minutes ago; 2,880 are allowed"),
        (30 * 60_000 + 5_999, 30 * 60_000, "1,805 seconds ago; 1,800 are allowed"),
        (HOUR + 1, HOUR, "3,600,001 milliseconds ago; 3,600,000 are allowed"),
        (50 * HOUR, 48 * HOUR, "50 hours ago; 48 are allowed"),
    ],
)
def test_the_age_of_evidence_and_the_allowed_age_have_different_texts(
    lake: Lake, to: rows.Watched, age_ms: int, allowed_ms: int, words: str
) -> None:
    published(lake, to)
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(2) + age_ms, allowed_ms)
    assert evidence.note.stale == f"it ends 2025-03-03 00:00 UTC, {words}"


def test_the_age_of_evidence_is_that_of_its_window_and_not_of_its_publication(
    lake: Lake, to: rows.Watched
) -> None:
    published(lake, to)
    publish(lake, rows.CLUSTER, to, rows.at(0), rows.at(2), pace=PACE, now_ms=rows.at(5))
    assert "72 hours ago" in opened(to, day=5).note.stale


def test_a_window_without_samples_is_not_used(lake: Lake, to: rows.Watched) -> None:
    publish(lake, rows.CLUSTER, to, rows.at(0), rows.at(2), pace=PACE, now_ms=rows.at(2))
    evidence = opened(to)
    assert evidence.note.stale == "the window holds no sample"
    assert evidence.note.partial
    assert_empty(evidence)


def test_a_snapshot_without_limits_is_a_state_and_a_missing_snapshot_is_none(
    lake: Lake, to: rows.Watched
) -> None:
    published(lake, to)
    assert opened(to).state is None
    lake.commit(rows.unit(SNAPSHOT), UnitContent(rows=rows.snapshots(0, [("s", 0, 0, True)])), None)
    publish(lake, rows.CLUSTER, to, rows.at(0), rows.at(2), pace=PACE, now_ms=rows.at(2))
    assert opened(to).state == QuotaState()


@pytest.mark.parametrize("path", ["LATEST", "usage_sample", "bucket_seen"])
def test_a_store_that_refuses_access_is_an_error_and_not_missing_evidence(
    lake: Lake, to: rows.Watched, path: str
) -> None:
    published(lake, to)
    to.refuses = path
    with pytest.raises(LakeError, match="may not be used"):
        opened(to)


def test_a_store_that_refuses_access_later_is_an_error_too(
    lake: Lake, to: rows.Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.evidence.store.files.row_groups.TAIL", 4096)
    published(
        lake,
        to,
        users=[f"u{number}" for number in range(50)],
        rates=[n * 7919 % 10_007 for n in range(100)],
    )
    evidence = opened(to)
    to.refuses = "usage_sample"
    with pytest.raises(LakeError, match="may not be used") as caught:
        evidence.series(PRODUCE, [bucket_of("u7")])
    assert not isinstance(caught.value, LakeDamaged)


def test_a_modified_byte_is_detected_or_leaves_the_series_unchanged(
    lake: Lake, to: rows.Watched
) -> None:
    rates = [n * 7919 % 10_007 for n in range(100)]
    published(lake, to, 1, users=[f"u{number}" for number in range(50)], rates=rates)
    path = file(to, "usage_sample")
    good = plain(opened(to, day=1).series(PRODUCE, [bucket_of("u7")]))
    content = to.get(path)
    complaints = []
    for place in range(3, len(content), 61):
        to.put(path, content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            evidence = opened(to, day=1)
            series = plain(evidence.series(PRODUCE, [bucket_of("u7")]))
        except LakeDamaged as error:
            complaints.append(error.path)
        else:
            assert evidence.note.stale or series == good
            complaints += [evidence.note.stale] if evidence.note.stale else []
    assert len(complaints) > 40
    assert all(path in complaint for complaint in complaints)


def test_samples_of_a_broker_are_ordered_across_days(lake: Lake, to: rows.Watched) -> None:
    published(lake, to, 5, brokers=("1", "10", "2"))
    samples = opened(to, day=5).series(PRODUCE, [ALICE])[ALICE]
    assert set(samples) == {"1", "10", "2"}
    for series in samples.values():
        assert series.ts_ms.tolist() == sorted(series.ts_ms.tolist())
        assert len(series) == 15


def test_unknown_values_of_an_enumeration_make_a_file_unusable(
    lake: Lake, to: rows.Watched
) -> None:
    pointer = published(lake, to, 1)
    part = next(part for part in pointer.files if part.table == "bucket_seen")
    strange = parquet_files.read(BUCKET_SEEN, to.get(part.path), path="x")
    place = BUCKET_SEEN.names.index("quota_type")
    content = parquet_files.write_parquet(
        BUCKET_SEEN, strange.set_column(place, "quota_type", pa.array(["telepathy"]))
    )
    to.put(part.path, content)
    latest = json.loads(to.get(LATEST))
    for file_entry in latest["files"]:
        if file_entry["table"] == "bucket_seen":
            file_entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    to.put(LATEST, json.dumps(latest).encode())
    assert "telepathy" in opened(to, day=1).note.stale


class Ranged(http.server.BaseHTTPRequestHandler):
    """Files of a folder with range requests."""

    folder: Path

    def do_GET(self) -> None:
        path = self.folder / self.path.lstrip("/")
        if self.path.startswith("/secret"):
            self._answer(403, b"")
        elif not path.is_file():
            self._answer(404, b"")
        else:
            self._answer(200, path.read_bytes())

    def _answer(self, status: int, content: bytes) -> None:
        requested_range = self.headers["Range"]
        self.send_response(206 if requested_range and status == 200 else status)
        if requested_range and status == 200:
            first, _, last = requested_range.removeprefix("bytes=").partition("-")
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            content = content[int(first) : int(last) + 1]
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_evidence_is_read_from_a_web_address(lake: Lake, to: rows.Watched, tmp_path: Path) -> None:
    published(lake, to)
    handler = type("Here", (Ranged,), {"folder": tmp_path / "evidence"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        web = object_store.opened(f"http://127.0.0.1:{server.server_port}")
        evidence = published_evidence.opened(web, rows.CLUSTER, rows.at(2), HOUR)
        assert evidence.note.stale == ""
        assert len(evidence.series(PRODUCE, [ALICE])[ALICE]["1"]) == 6
        none = published_evidence.opened(web, "other", rows.at(2), HOUR)
        assert "no evidence of this cluster" in none.note.stale
        stranger = object_store.opened(f"http://127.0.0.1:{server.server_port}/secret")
        with pytest.raises(LakeError, match="may not be used"):
            published_evidence.opened(stranger, rows.CLUSTER, rows.at(2), HOUR)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
