"""What previews read from their root: the last days of a cluster in the same tables."""

from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from reconciler.errors import LakeError
from reconciler.evidence.store import published_evidence, recorded_window
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.published_evidence import UNKNOWN_PACE, PublishedEvidence
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.recorded_limits import MOST_WAYS
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.samples import Censored, QuotaType, cadence
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.store import rows
from tests.usage.reference import Sample, samples_of

PACE = cadence(30_000)
HOUR = 3_600_000
ALICE = bucket_of("alice")
PRODUCE = QuotaType.PRODUCE
END = rows.at(1, 90) + 1
"""The end of the evidence of two days: after the last scrape."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path / "lake")


def published(lake: Lake, days: int = 2, **usage: object) -> None:
    """Samples of some days."""
    inputs = recorded_window.cadence_inputs(PACE)
    for number in range(days):
        content = UnitContent(rows=rows.usage(number, **usage), inputs=inputs)
        lake.replace(rows.unit(USAGE_SAMPLE, number), content)
        lake.replace(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)))


def limited(lake: Lake, number: int, name: str, limits: list[rows.Limit]) -> None:
    """The only snapshot of a day."""
    looks = rows.snapshots(number, [(name, 0, len(limits), True)])
    lake.replace(rows.unit(SNAPSHOT, number), UnitContent(rows=looks))
    entries = UnitContent(rows=rows.entries(number, name, limits))
    lake.replace(rows.unit(QUOTA_ENTRY, number), entries)


def opened(lake: Lake, *, day: int = 2, max_age_ms: int = 48 * HOUR) -> PublishedEvidence:
    return published_evidence.opened(lake.store, rows.CLUSTER, rows.at(day), max_age_ms)


def plain(
    series: dict[Bucket, dict[str, SampleSeries]],
) -> dict[Bucket, dict[str, list[Sample]]]:
    return {
        bucket: {broker: samples_of(samples) for broker, samples in brokers.items()}
        for bucket, brokers in series.items()
    }


def test_evidence_is_read_back(lake: Lake) -> None:
    limits: list[rows.Limit] = [
        ((("user", "alice"),), "producer_byte_rate", 5.0),
        ((("prefix", "x"),), "producer_byte_rate", 6.0),
    ]
    limited(lake, 0, "s", limits)
    published(lake, users=("alice", "bob"), brokers=("1", "2"))
    evidence = opened(lake)
    note = evidence.note
    place = lake.store.display_path(f"usage_sample/cluster_id={rows.CLUSTER}")
    assert (note.stale, note.source, note.cluster_id) == ("", place, rows.CLUSTER)
    assert (note.from_ms, note.to_ms, note.made_ms) == (rows.at(0), END, rows.FIRST_MS)
    assert (note.step_ms, note.snapshot_id, note.partial) == (30_000, "s", ())
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
    series_keys=st.lists(ROWS, min_size=1, max_size=12, unique=True),
    buckets_asked=st.lists(BUCKETS, max_size=6),
    kind=st.sampled_from(list(QuotaType)),
)
def test_series_equal_the_result_of_a_scan_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    series_keys: list[tuple[QuotaType, Bucket, str]],
    buckets_asked: list[Bucket],
    kind: QuotaType,
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    lake, to = rows.lake_in(folder), rows.lake_in(folder).store
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
    lake.put(rows.unit(USAGE_SAMPLE), UnitContent(rows=content), None)
    evidence = published_evidence.opened(to, rows.CLUSTER, rows.at(1), 25 * HOUR)
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


def test_only_row_groups_that_may_contain_a_bucket_are_decoded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP", 1000)
    users = [f"user-{number:04d}" for number in range(100)]
    published(lake, 1, users=users, rates=range(100))
    evidence = opened(lake, day=1)
    decoded: list[object] = []
    read = parquet_files.TableFile._read
    monkeypatch.setattr(
        parquet_files.TableFile,
        "_read",
        lambda file, columns, groups: decoded.append(groups) or read(file, columns, groups),
    )
    bucket = bucket_of("user-0023")
    assert len(evidence.series(PRODUCE, [bucket])[bucket]["1"]) == 100
    assert decoded == [[2]]


def put(lake: Lake, table: object, content: bytes) -> None:
    path = rows.unit(table, 1 if table in {USAGE_SAMPLE, TARGET_UP} else 0).path
    lake.store.put(path, content, after=lake.store.version(path))


def cut(lake: Lake, table: object) -> None:
    unit = rows.unit(table, 1 if table in {USAGE_SAMPLE, TARGET_UP} else 0)
    put(lake, table, lake.store.content(unit.path)[:-20])


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda lake: put(lake, USAGE_SAMPLE, b"PAR1"), "is not a complete Parquet file"),
        (lambda lake: cut(lake, USAGE_SAMPLE), "is not a complete Parquet file"),
        (lambda lake: cut(lake, TARGET_UP), "is not a complete Parquet file"),
        (lambda lake: cut(lake, QUOTA_ENTRY), "is not a complete Parquet file"),
        (
            lambda lake: put(
                lake, USAGE_SAMPLE, parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(), {})
            ),
            "has no facts that kquota wrote",
        ),
    ],
)
def test_evidence_that_is_damaged_or_of_another_program_is_not_used_and_the_reason_is_given(
    lake: Lake, act: Callable[[Lake], object], reason: str
) -> None:
    limited(lake, 0, "s", [((("user", "alice"),), "producer_byte_rate", 5.0)])
    published(lake)
    act(lake)
    evidence = opened(lake)
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


def test_missing_evidence_is_not_used(lake: Lake) -> None:
    assert "no evidence of this cluster was published" in opened(lake).note.stale


def test_evidence_that_ended_too_long_ago_or_is_of_the_future_is_not_used(lake: Lake) -> None:
    published(lake)
    assert opened(lake, day=3).note.stale == ""
    old = opened(lake, day=5)
    assert old.note.stale == "it ends 2025-03-02 00:01 UTC, 95 hours ago; 48 are allowed"
    assert old.note.to_ms == END  # the earlier value is still reported
    assert_empty(old)
    assert "made in the future" in opened(lake, day=-1).note.stale


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
    lake: Lake, age_ms: int, allowed_ms: int, words: str
) -> None:
    published(lake)
    evidence = published_evidence.opened(lake.store, rows.CLUSTER, END + age_ms, allowed_ms)
    assert evidence.note.stale == f"it ends 2025-03-02 00:01 UTC, {words}"


def test_a_window_without_samples_is_not_used(lake: Lake) -> None:
    published(lake, rates=())
    evidence = opened(lake)
    assert evidence.note.stale == "the window holds no sample"
    assert evidence.note.partial
    assert_empty(evidence)


def test_a_snapshot_without_limits_is_a_state_and_a_missing_snapshot_is_none(lake: Lake) -> None:
    published(lake)
    assert opened(lake).state is None
    limited(lake, 0, "s", [])
    assert opened(lake).state == QuotaState()


@pytest.mark.parametrize("table", ["usage_sample", "target_up"])
def test_a_store_that_refuses_access_is_an_error_and_not_missing_evidence(
    lake: Lake, tmp_path: Path, table: str
) -> None:
    published(lake)
    store = rows.Watched(tmp_path / "lake")
    store.refuses = table
    with pytest.raises(LakeError, match="may not be used"):
        published_evidence.opened(store, rows.CLUSTER, rows.at(2), 48 * HOUR)


def test_samples_of_a_broker_are_ordered_across_days(lake: Lake) -> None:
    published(lake, 5, brokers=("1", "10", "2"))
    samples = opened(lake, day=5).series(PRODUCE, [ALICE])[ALICE]
    assert set(samples) == {"1", "10", "2"}
    for series in samples.values():
        assert series.ts_ms.tolist() == sorted(series.ts_ms.tolist())
        assert len(series) == 15


def test_unknown_values_of_an_enumeration_make_a_file_unusable(lake: Lake) -> None:
    published(lake, 1, quota_type="telepathy")
    assert "telepathy" in opened(lake, day=1).note.stale


def test_more_samples_than_a_plan_reads_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(lake)
    monkeypatch.setattr(published_evidence, "MOST_SAMPLES", 5)
    with pytest.raises(LakeError, match="more than 5 samples"):
        opened(lake).series(PRODUCE, [ALICE])


def test_limits_of_the_whole_window_are_read_back(lake: Lake) -> None:
    limited(lake, 0, "s0", [((("client-id", "app"),), "producer_byte_rate", 5.0)])
    limited(lake, 1, "s1", [((("user", "alice"),), "producer_byte_rate", 7.0)])
    published(lake)
    evidence = opened(lake)
    assert evidence.state is not None
    assert set(evidence.state.limits) == {entity(user="alice")}
    assert evidence.recorded is not None
    assert {frozenset(state.limits) for state in evidence.recorded.states} == {
        frozenset({entity(user="alice")}),
        frozenset({entity(client_id="app")}),
    }
    assert not evidence.recorded.beyond


def test_keys_whose_limits_changed_too_often_are_named(lake: Lake) -> None:
    looks = range(MOST_WAYS + 1)
    tables = [
        rows.entries(
            0,
            f"s{n}",
            [
                ((("user", f"u{n}"),), "producer_byte_rate", 5.0),
                ((("client-id", "a"),), "producer_byte_rate", 5.0),
            ],
        )
        for n in looks
    ]
    headers = rows.snapshots(0, [(f"s{n}", n, 2, True) for n in looks])
    lake.put(rows.unit(SNAPSHOT), UnitContent(rows=headers), None)
    lake.put(rows.unit(QUOTA_ENTRY), UnitContent(rows=pa.concat_tables(tables)), None)
    published(lake)
    evidence = opened(lake)
    assert evidence.recorded is not None
    assert evidence.recorded.beyond == {Key.PRODUCER_BYTE_RATE}
    assert any("limits changed too often" in reason for reason in evidence.note.partial)


def test_the_last_fourteen_days_are_copied_with_the_limits_that_were_in_force_before(
    lake: Lake, tmp_path: Path
) -> None:
    for number in (0, 3):
        limited(lake, number, f"s{number}", [((("user", "alice"),), "producer_byte_rate", 5.0)])
    published(lake, 16)
    to = rows.lake_in(tmp_path / "previews")
    assert published_evidence.publish(lake, rows.CLUSTER, to.store) == (rows.day(2), rows.day(15))
    assert [unit.day for unit in to.units(USAGE_SAMPLE)] == [rows.day(n) for n in range(2, 16)]
    assert [unit.day for unit in to.units(QUOTA_ENTRY)] == [rows.day(0), rows.day(3)]
    before = {path: to.store.version(path) for path in to.store.paths("usage_sample")}
    assert published_evidence.publish(lake, rows.CLUSTER, to.store) == (rows.day(2), rows.day(15))
    assert {path: to.store.version(path) for path in to.store.paths("usage_sample")} == before
    content = UnitContent(rows=rows.usage(17))
    lake.replace(rows.unit(USAGE_SAMPLE, 17), content)
    published_evidence.publish(lake, rows.CLUSTER, to.store)
    assert [unit.day for unit in to.units(USAGE_SAMPLE)][-2:] == [rows.day(15), rows.day(17)]


def test_nothing_is_deleted_where_previews_are_copied_to_even_in_the_lake_itself(
    lake: Lake, tmp_path: Path
) -> None:
    copied = rows.lake_in(tmp_path / "other")
    for store in (lake, copied):
        limited(store, 0, "s0", [((("user", "alice"),), "producer_byte_rate", 5.0)])
        limited(store, 3, "s3", [((("user", "alice"),), "producer_byte_rate", 5.0)])
        published(store, 40)
    for to in (lake.store, copied.store):
        before = {path: to.content(path) for path in to.paths("")}
        published_evidence.publish(lake, rows.CLUSTER, to)
        assert {path: to.content(path) for path in to.paths("")} == before
    assert (
        published_evidence.opened(copied.store, rows.CLUSTER, rows.at(40), 48 * HOUR).note.stale
        == ""
    )


def test_a_cluster_without_samples_has_no_previews(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="nothing to preview"):
        published_evidence.publish(lake, rows.CLUSTER, rows.lake_in(tmp_path / "previews").store)


def test_a_damaged_copy_is_replaced(lake: Lake, tmp_path: Path) -> None:
    published(lake)
    to = rows.lake_in(tmp_path / "previews")
    published_evidence.publish(lake, rows.CLUSTER, to.store)
    put(to, USAGE_SAMPLE, b"PAR1")
    published_evidence.publish(lake, rows.CLUSTER, to.store)
    assert opened(to).note.stale == ""
