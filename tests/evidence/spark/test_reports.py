"""The jobs usage and capacity on a small lake: their reports and rows."""

import pytest
from pyspark.errors import PySparkException

from reconciler.evidence.spark.jobs import capacity, report, rollup, usage
from reconciler.evidence.spark.runtime import job_runner
from reconciler.evidence.spark.tables.time_window import ReportWindow, TimeWindow
from reconciler.evidence.store.recorded_window import NO_SAMPLES
from reconciler.quota.entity import entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.capacity import BudgetBasis, CapacityOfCluster
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.reports.usage import TrafficDirection, UsageState
from reconciler.usage.samples import QuotaType, ThrottleModel
from reconciler.usage.tables import CAPACITY_ROW, IMPACT_ROW, NOISY_ROW, RECOMMENDATION, USAGE_ROW
from reconciler.usage.tags import bucket_of
from tests.evidence.spark import lakes, replays
from tests.evidence.spark.report_lake import BEGIN, DAY, FROM, STEP, TIMES, TO, build_lake
from tests.fakes.progress import silent

pytestmark = pytest.mark.integration

C1 = CapacityOfCluster(cluster_id="c1", ingress=1_500)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return build_lake(tmp_path_factory.mktemp("lake"))


def test_use_is_listed_worst_first_with_unused_limits_and_curves_of_the_first_rows(
    spark, lake
) -> None:
    result = usage.run(spark, lake, ReportWindow(from_ms=FROM, to_ms=TO), silent)
    states = {row.bucket.user: row.state for row in result.usage}
    assert list(states.items()) == [
        ("alice", UsageState.THROTTLED),
        ("dave", UsageState.UNUSED),
        ("carol", UsageState.USED),
        ("bob", UsageState.IDLE),
    ]
    alice = result.usage[0]
    assert (alice.limit_units, alice.max_rate_units, alice.throttled_ms) == (1_000, 900, STEP)
    assert alice.source_entity == canonical_text(entity(user="alice"))
    (note,) = result.evidence
    assert (note.step_ms, note.snapshot_id, note.coverage_ppm) == (
        STEP,
        "s",
        120 * STEP * 1_000_000 // 86_400_000,
    )
    assert note.counts == {"gap": 1}
    stored_rows = lakes.rows_of(lake, USAGE_ROW)
    assert len(stored_rows) == 4
    assert [curve.bucket.user for curve in result.curves] == ["alice", "carol", "bob"]
    first = result.curves[0]
    assert first.points[0] == (BEGIN, 900, 900)
    assert first.throttled == (BEGIN,)
    assert (first.before_units, first.after_units) == (1_000, 1_000)


def test_a_window_that_ends_now_has_no_gap_after_the_present(spark, lake) -> None:
    now = TIMES[-1] + 1
    result = usage.run(spark, lake, ReportWindow(from_ms=FROM, to_ms=now), silent)
    (note,) = result.evidence
    assert (note.from_ms, note.to_ms, note.coverage_ppm) == (FROM, now, 999_999)
    assert len(result.usage) == 4


def test_a_cluster_without_samples_is_reported(spark, lake) -> None:
    settings = ReportWindow(from_ms=FROM, to_ms=TO, cluster=("other",))
    result = usage.run(spark, lake, settings, silent)
    assert result.usage == ()
    assert result.evidence[0].stale == NO_SAMPLES


def test_capacity_is_reduced_by_replication_and_excess_in_the_hottest_intervals_is_reported(
    spark, lake, monkeypatch
) -> None:
    monkeypatch.setattr(capacity, "HOT", 3)
    settings = ReportWindow(from_ms=FROM, to_ms=TO, capacity=(C1,))
    result = capacity.run(spark, lake, settings, silent)
    ingress = next(row for row in result.capacity if row.direction is TrafficDirection.INGRESS)
    assert (ingress.budget_units, ingress.basis) == (1_000, BudgetBasis.MEASURED)
    assert ingress.committed_ppm == 11_000_000  # alice and bob were observed, dave was not
    assert ingress.coincident_ppm == 1_405_000
    assert ingress.overload_ms == 120 * STEP
    assert ingress.unattributed_ppm == 95 * 1_000_000 // 1_500
    egress = next(row for row in result.capacity if row.direction is TrafficDirection.EGRESS)
    assert (egress.budget_units, egress.basis) == (None, BudgetBasis.NO_DATA)
    # Users without a limit have the least weight.
    assert {row.bucket.user for row in result.noisy} == {"alice", "carol"}
    first = result.noisy[0]
    assert first.quota_type is QuotaType.PRODUCE
    assert first.bucket.user == "alice"
    assert sum(row.excess_units for row in result.noisy if row.bucket_ms == BEGIN) == 405
    assert len(lakes.rows_of(lake, CAPACITY_ROW)) == 2
    assert len(lakes.rows_of(lake, NOISY_ROW)) == len(result.noisy)
    assert len({row.bucket_ms for row in result.noisy}) == 3
    assert result.notes == (
        "c1: fair shares are those of the 3 intervals furthest beyond the budget; 10 more are left out",
    )


def test_impossible_rates_are_an_error(spark, tmp_path) -> None:
    fleet, huge, pacing = replays.beyond_64_bits()
    filled_lake = replays.filled(tmp_path, [fleet], pacing)
    settings = ReportWindow(
        from_ms=huge[0].ts_ms - pacing.step_ms,
        to_ms=huge[-1].ts_ms + 1,
        capacity=(CapacityOfCluster(cluster_id=fleet.cluster_id, ingress=10, egress=10),),
    )
    with pytest.raises(PySparkException) as raised:
        capacity.run(spark, filled_lake, settings, silent)
    message = job_runner.spark_error(raised.value, "capacity").message
    assert message.startswith("capacity: 10,000,000,000,000 units per second over ")
    assert "no broker moves so much" in message


def test_a_cluster_without_a_capacity_is_named(spark, lake) -> None:
    result = capacity.run(spark, lake, ReportWindow(from_ms=FROM, to_ms=TO), silent)
    assert result.notes == (
        "c1: no capacity is configured (spec.brokerCapacity), so there is no budget",
    )
    assert {row.basis for row in result.capacity} == {BudgetBasis.NO_DATA}


def test_a_report_contains_the_newest_simulation_of_the_lake_with_both_limits_in_its_curve(
    spark, lake
) -> None:
    produce = {"group_kind": "user", "quota_type": "produce"}
    impact = produce | {
        "user": "bob",
        "any_name": False,
        "broker_id": "1",
        "before_units": 10_000,
        "after_units": 400,
        "source_entity": canonical_text(entity(user="bob")),
        "answer": "exact",
        "verdict": "worse",
        "bound": "at_least",
        "model": "backlog",
        "observed_throttled_ms": 0,
        "after_throttled_ms": 9_000,
        "covered_ms": 100,
    }
    same_impact = impact | {"user": "carol", "verdict": "same", "after_units": 10_000}
    censored_impact = same_impact | {"user": "dave", "after_units": 300, "censored_ms": 90}
    window = {"from_ms": str(FROM - 86_400_000), "to_ms": str(TO), "snapshot_id": "s-0"}
    rows = [same_impact | {"user": "zed"}, same_impact, impact, censored_impact]
    replays.commit(lake, IMPACT_ROW, "c1", DAY, rows, **window)
    advice = produce | {
        "user": "bob",
        "tier": "silver",
        "advice": "change",
        "peak_units": 5,
        "rules": ["cut", "floor"],
    }
    window = {"from_ms": str(FROM), "to_ms": str(TO - 5), "snapshot_id": "s-1"}
    replays.commit(lake, RECOMMENDATION, "c1", DAY, [advice], **window)
    settings = ReportWindow(from_ms=FROM, to_ms=TO, capacity=(C1,), most=3)
    result = report.run(spark, lake, settings, silent)
    assert result.simulation is not None
    assert [row.bucket.user for row in result.simulation.rows] == ["bob", "dave", "carol"]
    assert result.simulation.rows[0].bound == "at_least"
    assert (result.simulation.left_out, result.simulation.may_be_worse) == (1, 1)
    assert result.simulation.verdicts == {"worse": 1, "same": 3}
    assert [
        (origin.table, origin.from_ms, origin.to_ms, origin.snapshot_id, origin.other_window)
        for origin in result.origins
    ] == [
        ("impact_row", FROM - 86_400_000, TO, "s-0", True),
        ("recommendation", FROM, TO - 5, "s-1", False),
    ]
    assert result.recommendations[0].rules == ("cut", "floor")
    assert [(curve.bucket.user, curve.after_units) for curve in result.curves][:3] == [
        ("bob", 400),
        ("carol", 10_000),
        ("alice", 1_000),
    ]
    assert result.left_out["usage_row"] == 1
    assert result.capacity


def test_limits_of_a_cluster_without_samples_are_reported_and_stored(spark, tmp_path) -> None:
    filled_lake = build_lake(tmp_path)
    state = QuotaState().with_values([(entity(user="erin"), Key.PRODUCER_BYTE_RATE, 5.0)])
    replays.looked(filled_lake, "quiet", state, BEGIN)
    result = usage.run(spark, filled_lake, ReportWindow(from_ms=FROM, to_ms=TO), silent)
    states = {(row.cluster_id, row.bucket.user): row.state for row in result.usage}
    assert states["quiet", "erin"] is UsageState.NO_DATA
    stored_states = {
        (row["cluster_id"], row["user"]): row["state"]
        for row in lakes.rows_of(filled_lake, USAGE_ROW)
    }
    assert stored_states == {key: str(state) for key, state in states.items()}


def test_curves_of_a_report_stay_within_its_window_and_below_their_bound(spark, lake) -> None:
    """From 15:00 to 15:00: two days of units are read, 24 hours of them are shown."""
    row = ImpactRow(
        cluster_id="c1",
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of("alice"),
        any_name=False,
        broker_id="1",
        before_units=1_000,
        after_units=400,
        source_entity="",
        answer=Identifiability.EXACT,
        verdict=ImpactVerdict.WORSE,
        bound=FigureBound.EXACT,
        model=ThrottleModel.BACKLOG,
        before_throttled_ms=0,
        before_max_delay_ms=0,
        observed_throttled_ms=0,
        after_throttled_ms=0,
        after_max_delay_ms=0,
        after_over_timeout_ms=0,
        delayed_units=0,
        unfinished=0,
        covered_ms=1,
        censored_ms=0,
        why="",
    )
    begin = BEGIN + 30 * 60_000
    settings = ReportWindow(from_ms=begin - 86_400_000, to_ms=begin)
    span = TimeWindow(from_ms=settings.from_ms, to_ms=settings.to_ms)
    _ = rollup.run(spark, lake, rollup.RollupSettings(from_day=DAY, to_day=DAY), silent)
    (drawn,) = report._curves(spark, lake, span, [row])
    assert [at for at, _, _ in drawn.points] == [BEGIN + n * 300_000 for n in range(6)]
