"""The job `recommend`: sized buckets, with limit, tier, marks and budget; and a window without evidence."""

import dataclasses
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.errors import SparkError
from reconciler.evidence.spark.jobs import recommend
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.recommendation import BUMPED, PINNED
from reconciler.evidence.store import recorded_window, scrape_interval
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import CAPACITY_ROW, RECOMMENDATION, USAGE_SAMPLE
from tests.evidence.spark import lakes, replays
from tests.fakes.progress import silent

pytestmark = pytest.mark.integration

CLUSTER = "c1"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
PACE = Cadence(step_ms=30_000, max_gap_ms=150_000)


def _sample(kind: str, group: str, **names: str) -> dict[str, object]:
    return {
        "quota_type": kind,
        "group_kind": group,
        "broker_id": "1",
        "ts_ms": BEGIN + 3 * DAY_MS + 5,
        "dt_ms": 30_000,
        "rate_units": 7,
        "censored": "no",
        **names,
    }


def test_cases_have_limit_tier_marks_and_budget_and_clients_that_cannot_be_limited_are_omitted(
    spark: SparkSession, tmp_path: Path
) -> None:
    into = lakes.lake(tmp_path)
    state = QuotaState().with_values(
        [
            (entity(user="ann"), Key.PRODUCER_BYTE_RATE, 50.0),
            (entity(user=DEFAULT), Key.PRODUCER_BYTE_RATE, 90.0),
            (entity(user="ann"), Key.REQUEST_PERCENTAGE, -1.0),
        ]
    )
    replays.looked(into, CLUSTER, state, BEGIN + 5)
    rows = [
        _sample("produce", "user", user="ann"),
        _sample("produce", "user", user="bea"),
        _sample("produce", "user", user="cid"),
        _sample("fetch", "client", client_id="app"),
        _sample("request", "user", user="ann"),
        _sample("produce", "none"),
    ]
    last = day_of(BEGIN + 3 * DAY_MS)
    replays.commit(into, USAGE_SAMPLE, CLUSTER, last, rows, **scrape_interval.inputs(PACE))
    capacity = [
        {"broker_id": broker, "direction": "ingress", "budget_units": budget, "basis": "measured"}
        for broker, budget in (("1", 900), ("2", 700), ("3", None))
    ]
    replays.commit(into, CAPACITY_ROW, CLUSTER, last, capacity)
    raised = {
        "quota_type": "produce",
        "group_kind": "user",
        "user": "bea",
        "tier": "silver",
        "advice": "change",
        "rules": ["bump"],
        "target_units": 90,
    }
    replays.commit(
        into,
        RECOMMENDATION,
        CLUSTER,
        day_of(BEGIN + DAY_MS),
        [
            raised,
            raised | {"user": "ann", "rules": ["cut"], "target_units": 5},
            raised | {"user": "cid", "target_units": 91},  # not merged: cid still has 90
        ],
    )
    work = recommend.RecommendationRequest(
        clusters=(CLUSTER,),
        from_ms=BEGIN,
        to_ms=BEGIN + 4 * DAY_MS,
        pinned=frozenset({(CLUSTER, entity(user="ann")), ("c2", entity(user="bea"))}),
    )
    window = recorded_window.opened(into, CLUSTER, work.from_ms, work.to_ms)
    samples = series_blocks.SampleFiles(
        spark=spark, lake=into, units=window.samples, from_ms=work.from_ms, to_ms=work.to_ms
    )
    case_rows = recommend._cases(spark, into, samples.series(), [window], work).collect()
    inputs = {
        (row.quota_type, row.user or row.client_id): (
            row.current_units,
            row.budget_units,
            set(row.marks),
        )
        for row in case_rows
    }
    assert inputs == {
        ("produce", "ann"): (50, 700, {PINNED}),
        ("produce", "bea"): (90, 700, {BUMPED}),
        ("produce", "cid"): (90, 700, set()),
        ("fetch", "app"): (None, None, set()),
        ("request", "ann"): (None, None, {PINNED}),
    }
    assert {row.tier for row in case_rows} == {"silver"}
    assert {row.max_gap_ms for row in case_rows} == {150_000}
    assert len({row.n for row in case_rows}) == 5


def test_a_window_without_samples_recommends_nothing_and_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    work = recommend.RecommendationRequest(clusters=(CLUSTER,), from_ms=BEGIN, to_ms=BEGIN + DAY_MS)
    result = recommend.advised(spark, lakes.lake(tmp_path), dataclasses.replace(work), silent)
    assert result.changes == ()
    assert result.report.evidence[0].stale == recorded_window.NO_SAMPLES


@pytest.mark.integration
def test_the_size_of_broadcast_rows_is_checked_and_changes_are_returned_for_documents_only(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = recommend.RecommendationRequest(
        clusters=(CLUSTER,), from_ms=BEGIN, to_ms=BEGIN + 30 * DAY_MS
    )
    cases = spark.range(10)
    monkeypatch.setattr(recommend, "MOST_BROADCAST", 10)
    assert recommend.fits(cases)
    monkeypatch.setattr(recommend, "MOST_BROADCAST", 9)
    assert not recommend.fits(cases)
    names = {
        "group_kind": "user",
        "client_id": "",
        "ip": "",
        "quota_type": "produce",
        "cluster_id": CLUSTER,
    }
    row = (
        dict.fromkeys(RECOMMENDATION.names)
        | names
        | {
            "source_entity": "",
            "tier": "silver",
            "advice": "change",
            "current_units": 5,
            "target_units": 3,
            "peak_units": 5,
            "confidence_ppm": 1,
            "censored_ppm": 0,
            "rules": ["cut"],
            "evidence_ms": 1,
            "samples": 1,
            "brokers": 1,
            "day": work.sizing.day,
        }
    )
    rows = spark.createDataFrame(
        [tuple((row | {"user": user})[name] for name in RECOMMENDATION.names) for user in "abc"],
        struct(RECOMMENDATION),
    )
    monkeypatch.setattr(recommend, "MOST_CHANGES", 2)
    result = recommend._build_result(rows, (), work)
    assert (len(result.report.recommendations), result.changes) == (3, ())
    with pytest.raises(SparkError, match="more than 2 changes of limits"):
        recommend._build_result(rows, (), dataclasses.replace(work, documents=True))
