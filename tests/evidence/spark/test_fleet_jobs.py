"""The jobs resolve, plan and history on a small lake: their reports and rows, and ambiguous input that they refuse."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.errors import UsageError
from reconciler.evidence.spark.fleet.plan_inputs import ClusterPlanInput
from reconciler.evidence.spark.jobs import history, plan, resolve
from reconciler.evidence.spark.tables.time_window import ReportWindow
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.entity_forms import canonical_parts_text, canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.reports.fleet import FleetReport
from reconciler.usage.tables import (
    APPLY_LOG,
    DEAD_QUOTA,
    EFFECTIVE_QUOTA,
    PLAN_CONFLICT,
    PLAN_ROW,
    QUOTA_CHANGE,
    USAGE_HIST_D,
    USAGE_SAMPLE,
    Table,
)
from tests.evidence.spark import lakes, replays
from tests.evidence.spark.core_plan_rows import plan_rows
from tests.fakes.progress import silent

pytestmark = pytest.mark.integration

KEY = Key.PRODUCER_BYTE_RATE
DAY_MS = 86_400_000
FIRST = dt.date(2026, 11, 1)
BEGIN = 1_793_491_200_000
NOW = BEGIN + 2 * DAY_MS
ALICE, BOB, EVERY = entity(user="alice"), entity(user="bob"), entity(user=DEFAULT)
PAIR = entity(user="alice", client_id="app")


def state(values: dict[Entity, float]) -> QuotaState:
    return QuotaState(
        limits={subject: limits_of({KEY: value}) for subject, value in values.items()}
    )


LOOKS = {
    "c1": [
        (BEGIN, state({ALICE: 10.0, BOB: 20.0})),
        (BEGIN + DAY_MS, state({ALICE: 11.0, BOB: 20.0, EVERY: 1e20})),
    ],
    "c2": [(BEGIN + DAY_MS + 5, state({ALICE: 7.0, PAIR: 8.0}))],
}

LONG_AGO = ((400, "bob", 3), (300, "bob", 5), (200, "bob", 0), (250, "zoe", 9))
"""Use of older days: age in days, user, and the bucket of the histogram; bucket 0 is no use."""
BOB_USED = BEGIN - 300 * DAY_MS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lakes.lake(tmp_path)
    for cluster, looks in LOOKS.items():
        for n, (at, snapshot) in enumerate(looks):
            replays.looked(lake, cluster, snapshot, at, f"s{n}")
    produce = {"quota_type": "produce", "group_kind": "user", "broker_id": "1"}
    sample = produce | {
        "ts_ms": BEGIN + 30_000,
        "dt_ms": 30_000,
        "throttle_ms": 0,
        "censored": "no",
    }
    samples = [
        sample | {"user": user, "rate_units": rate} for user, rate in (("alice", 5), ("bob", 0))
    ]
    replays.commit(lake, USAGE_SAMPLE, "c1", FIRST, samples)
    for days_ago, user, bucket in LONG_AGO:
        row = produce | {"user": user, "bucket": bucket, "n_dt_ms": 9}
        replays.commit(lake, USAGE_HIST_D, "c1", FIRST - dt.timedelta(days=days_ago), [row])
    applied = {
        "applied_at_ms": BEGIN + DAY_MS - 1000,
        "commit": "abc",
        "digest": "sha256:0",
        "entity_json": canonical_text(ALICE),
        "quota_key": str(KEY),
        "action": "update",
        "before": 10.0,
        "after": 11.0,
        "outcome": "APPLIED",
        "writer": "ci",
    }
    replays.commit(lake, APPLY_LOG, "c1", FIRST + dt.timedelta(days=1), [applied])
    return lake


def stored_rows(lake: Lake, table: Table) -> list[dict[str, object]]:
    return lakes.rows_of(lake, table)


def dead_limits(lake: Lake) -> dict[tuple[object, object], tuple[object, object]]:
    """Cluster and entity of each limit that applies to no client -> the reason, and when it last did."""
    return {
        (row["cluster_id"], row["entity_json"]): (row["reason"], row["last_effective_ms"])
        for row in stored_rows(lake, DEAD_QUOTA)
    }


def test_clients_of_a_list_are_resolved_in_every_cluster_and_everything_is_stored(
    spark: SparkSession, lake: Lake
) -> None:
    principals = (Principal(user="alice", client_id="app"), Principal(user="carol"))
    report = resolve.resolved(
        spark,
        lake,
        ReportWindow(from_ms=NOW - 35 * DAY_MS, to_ms=NOW, most=3),
        principals,
        silent,
    )
    assert [totals.cluster_id for totals in report.clusters] == ["c1", "c2"]
    assert report.clusters[0].counts["resolved"] == 8
    assert report.clusters[1].counts["shadowed"] == 1
    rows = {
        (r["cluster_id"], r["user"]): (r["value"], r["level"], r["source_entity"])
        for r in stored_rows(lake, EFFECTIVE_QUOTA)
        if r["quota_key"] == str(KEY)
    }
    assert rows == {
        ("c1", "alice"): (11.0, 3, canonical_text(ALICE)),
        ("c1", "carol"): (1e20, 6, canonical_text(EVERY)),
        ("c2", "alice"): (8.0, 1, canonical_text(PAIR)),
        ("c2", "carol"): (None, None, ""),
    }
    dead = {key: reason for key, (reason, _) in dead_limits(lake).items()}
    assert dead == {
        ("c1", canonical_text(BOB)): "never_seen",
        ("c1", canonical_text(EVERY)): "unlimited_equivalent",
        ("c2", canonical_text(ALICE)): "shadowed",
    }
    assert len(report.effective) == 3
    assert report.left_out == {"effective_quota": 13}


def test_without_a_list_tags_are_used_and_undecided_limits_have_no_data(
    spark: SparkSession, lake: Lake
) -> None:
    report = resolve.resolved(
        spark, lake, ReportWindow(from_ms=NOW - 35 * DAY_MS, to_ms=NOW), None, silent
    )
    assert any("no list of clients" in note for note in report.notes)
    assert [(r["user"], r["value"]) for r in stored_rows(lake, EFFECTIVE_QUOTA)] == [
        ("alice", 11.0)
    ]
    dead = dead_limits(lake)
    assert dead.pop(("c1", canonical_text(BOB))) == ("never_seen", BOB_USED)
    assert {key: reason for key, (reason, _) in dead.items()} == {
        ("c1", canonical_text(EVERY)): "no_data",
        ("c2", canonical_text(ALICE)): "no_data",
        ("c2", canonical_text(PAIR)): "no_data",
    }


def intended() -> dict[str, ClusterPlanInput]:
    owner = Owner(document="team/old", since=1.0)
    owned = OwnershipRecords(cluster_id="c1").with_changes(
        [Recorded(entity=BOB, key=KEY, value=20.0, owner=owner)]
    )
    claims = [
        Declaration(
            document="team/a", entity=ALICE, limits=limits_of({KEY: 12.0}), path="a.yaml", line=3
        ),
        Declaration(
            document="team/b", entity=PAIR, limits=limits_of({KEY: 5.0}), path="b.yaml", line=1
        ),
        Declaration(
            document="team/c", entity=PAIR, limits=limits_of({KEY: 6.0}), path="c.yaml", line=1
        ),
    ]
    rules = Rules(policy=Policy.SYNC, sync_confirmed=True)
    return {
        "c1": ClusterPlanInput(
            desired=merge(claims[:1]),
            owned=owned,
            rules=rules,
            day=FIRST,
            guards=Guards(max_removals=0),
        ),
        "c2": ClusterPlanInput(
            desired=merge(claims), owned=OwnershipRecords(cluster_id="c2"), rules=rules, day=FIRST
        ),
    }


def run_plan(spark: SparkSession, lake: Lake, **more: object) -> FleetReport:
    arguments = {"to_ms": NOW, "max_rows": 50, "progress": silent} | more
    return plan.planned(spark, lake, intended(), **arguments)


def test_a_fleet_plan_equals_the_plan_of_each_cluster_with_its_guards_and_conflicts(
    spark: SparkSession, lake: Lake
) -> None:
    report = run_plan(spark, lake)
    expected = []
    for cluster, plan_input in intended().items():
        plan_of_cluster = compare(
            desired=plan_input.desired,
            owned=replace(plan_input.owned, cluster_id=cluster),
            live=LOOKS[cluster][-1][1],
            rules=plan_input.rules,
        )
        expected += [
            (
                row.cluster_id,
                canonical_parts_text(row.entity),
                row.key,
                row.action,
                row.cause,
                row.before,
                row.after,
                row.document,
            )
            for row in plan_rows(plan_of_cluster)
        ]
    names = ("cluster_id", "entity_json", "quota_key", "action", "cause", "before", "after")
    rows = [
        tuple(row[name] for name in (*names, "document")) for row in stored_rows(lake, PLAN_ROW)
    ]
    assert sorted(rows) == sorted(expected)
    assert {row[3] for row in expected} == {"update", "remove"}
    assert [(r["cluster_id"], r["document"]) for r in stored_rows(lake, PLAN_CONFLICT)] == [
        ("c2", "team/b"),
        ("c2", "team/c"),
    ]
    first, second = report.clusters
    assert first.violations[0].startswith("1 removals are more than the 0 that are allowed")
    assert second.violations == ("1 quota keys are declared by several documents",)
    assert report.is_refused
    assert first.counts["Unmanaged report"] == 1


def test_a_cluster_without_a_snapshot_is_named_and_never_planned(
    spark: SparkSession, lake: Lake
) -> None:
    fleet = {"never": replace(intended()["c1"], owned=OwnershipRecords(cluster_id="never"))}
    with pytest.raises(UsageError, match="no complete snapshot"):
        plan.planned(spark, lake, fleet, to_ms=NOW, max_rows=5, progress=silent)
    report = plan.planned(spark, lake, fleet | intended(), to_ms=NOW, max_rows=5, progress=silent)
    assert [totals.cluster_id for totals in report.clusters] == ["c1", "c2"]
    assert report.notes == ("never: no complete snapshot in the lake, so it is not in this report",)


def test_history_reports_changes_and_declared_limits_that_are_not_applied(
    spark: SparkSession, lake: Lake
) -> None:
    settings = ReportWindow(from_ms=BEGIN, to_ms=NOW)
    report = history.run(spark, lake, settings, silent)
    causes = {(r.cluster_id, r.entity_json, r.after): (r.cause, r.commit) for r in report.changed}
    assert causes == {
        ("c1", canonical_text(ALICE), 10.0): ("first-seen", ""),
        ("c1", canonical_text(BOB), 20.0): ("first-seen", ""),
        ("c1", canonical_text(ALICE), 11.0): ("applied-by-us", "abc"),
        ("c1", canonical_text(EVERY), 1e20): ("drift-external", ""),
        ("c2", canonical_text(ALICE), 7.0): ("first-seen", ""),
        ("c2", canonical_text(PAIR), 8.0): ("first-seen", ""),
    }
    assert report.changed[0].from_ms >= report.changed[-1].from_ms
    _ = run_plan(spark, lake)
    again = history.run(spark, lake, settings, silent)
    ahead = [
        (r.cluster_id, r.before, r.after, r.writer)
        for r in again.changed
        if r.cause == "manifest-ahead"
    ]
    assert sorted(ahead) == [("c1", 11.0, 12.0, "team/a"), ("c2", 7.0, 12.0, "team/a")]
    assert len(stored_rows(lake, QUOTA_CHANGE)) == len(causes) + 2
