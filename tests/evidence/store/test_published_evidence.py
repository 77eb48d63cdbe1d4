"""What previews read from their root: the last days of a cluster in the same tables."""

from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reconciler.errors import LakeError
from reconciler.evidence.store import previews, published_evidence, scrape_interval
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.published_evidence import UNKNOWN_PACE, PublishedEvidence
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
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
    inputs = scrape_interval.inputs(PACE)
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


def test_a_window_without_samples_is_not_used(lake: Lake) -> None:
    published(lake, rates=())
    evidence = opened(lake)
    assert evidence.note.stale == "the window holds no sample"
    assert evidence.note.partial
    assert_empty(evidence)


@pytest.mark.parametrize("table", ["usage_sample", "target_up"])
def test_a_store_that_refuses_access_is_an_error_and_not_missing_evidence(
    lake: Lake, tmp_path: Path, table: str
) -> None:
    published(lake)
    store = rows.Watched(tmp_path / "lake")
    store.refuses = table
    with pytest.raises(LakeError, match="may not be used"):
        published_evidence.opened(store, rows.CLUSTER, rows.at(2), 48 * HOUR)


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
        previews.publish(lake, rows.CLUSTER, to)
        assert {path: to.content(path) for path in to.paths("")} == before
    assert (
        published_evidence.opened(copied.store, rows.CLUSTER, rows.at(40), 48 * HOUR).note.stale
        == ""
    )


def test_a_cluster_without_samples_has_no_previews(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="nothing to preview"):
        previews.publish(lake, rows.CLUSTER, rows.lake_in(tmp_path / "previews").store)
