"""Recorded use of budgets: rates of one moment are added up, and the plan's limits hold back what they would."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.evidence.analysis import budget_loads
from reconciler.evidence.analysis.budget_loads import MOST_SERIES, observed_uses
from reconciler.evidence.store import published_evidence, recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.published_evidence import PublishedEvidence
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetUse, Share
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import cadence
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE
from tests.evidence.store import rows

RATE = Key.PRODUCER_BYTE_RATE
PEAKS = (100, 100, 1000, 100, 100, 100, 100, 100, 100, 100)
NO_LIMITS = QuotaState()


def limits(**values: float) -> QuotaState:
    return QuotaState(
        limits={entity(user=name): limits_of({RATE: value}) for name, value in values.items()}
    )


def use_of(basis: BudgetMeasure = BudgetMeasure.OBSERVED, **more) -> BudgetUse:
    counted = more.pop("counted", frozenset())
    budget = Budget(name="b", key=RATE, amount=500.0, basis=basis, **more)
    return BudgetUse(
        budget=budget, before=7.0, after=8.0, basis=BudgetMeasure.PROMISED, counted=counted
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = rows.lake_in(tmp_path / "lake")
    content = UnitContent(
        rows=rows.usage(0, users=("alice", "bob"), brokers=("1", "2"), rates=PEAKS),
        inputs=recorded_window.cadence_inputs(cadence(30_000)),
    )
    lake.replace(rows.unit(USAGE_SAMPLE), content)
    lake.replace(rows.unit(TARGET_UP), UnitContent(rows=rows.up(0, moments=len(PEAKS))))
    return lake


def opened(lake: Lake) -> PublishedEvidence:
    return published_evidence.opened(lake.store, rows.CLUSTER, rows.at(1), 48 * 3_600_000)


def with_totals(lake: Lake, **extra: int) -> None:
    """Record the total of each broker: both clients and what nobody counts."""
    totals = [
        {
            "cluster_id": rows.CLUSTER,
            "broker_id": broker.removeprefix("broker_"),
            "ts_ms": rows.at(0, 30 * (place + 1)),
            "dt_ms": 30_000,
            "bytes_in": 2 * rate + more,
            "bytes_out": None,
            "replication_in": None,
            "replication_out": None,
            "request_idle_ppm": None,
            "day": rows.day(0),
        }
        for broker, more in extra.items()
        for place, rate in enumerate(PEAKS)
    ]
    lake.replace(rows.unit(BROKER_SAMPLE), UnitContent(rows=rows.table_of(BROKER_SAMPLE, totals)))


def observed(lake: Lake, use: BudgetUse, after: QuotaState) -> BudgetUse:
    (result,) = observed_uses(opened(lake), [use], NO_LIMITS, after)
    return result


def test_rates_of_one_moment_are_added_up_and_a_limit_takes_the_top_of_its_client(
    lake: Lake,
) -> None:
    use = observed(lake, use_of(), limits(alice=200.0))
    assert (use.basis, use.before, use.after) == (BudgetMeasure.OBSERVED, 2000.0, 1200.0)
    assert use.is_exceeded


def test_of_a_recorded_total_only_the_difference_of_changed_clients_is_read(lake: Lake) -> None:
    with_totals(lake, broker_1=5, broker_2=50)
    use = observed(lake, use_of(), limits(alice=200.0))
    assert (use.before, use.after) == (2050.0, 1250.0)
    assert "worst broker, 2;" in use.note
    assert observed(lake, use_of(), NO_LIMITS).after == 2050.0


def test_a_raise_adds_nothing_that_was_not_seen(lake: Lake) -> None:
    (use,) = observed_uses(opened(lake), [use_of()], limits(alice=200.0), limits(alice=9000.0))
    assert use.before == use.after == 2000.0


def test_a_budget_of_some_documents_counts_the_clients_of_their_limits(lake: Lake) -> None:
    use = use_of(namespaces=frozenset({"pay"}), counted=frozenset({entity(user="bob")}))
    assert observed(lake, use, limits(alice=200.0, bob=5000.0)).after == 1000.0
    nobody = use_of(namespaces=frozenset({"pay"}), counted=frozenset({entity(user="carol")}))
    unseen = observed(lake, nobody, limits(carol=5.0))
    assert (unseen.after, unseen.note) == (0.0, "no counted client was seen")


def test_large_limits_far_above_their_use_are_named_where_a_budget_is_exceeded(lake: Lake) -> None:
    after = limits(alice=90_000.0, bob=1500.0, carol=70_000.0)
    shares = tuple(Share(subject, values[0] or 0.0, 1) for subject, values in after.limits.items())
    use = replace(use_of(BudgetMeasure.PROMISED), after=161_500.0, largest=shares)
    (result,) = observed_uses(opened(lake), [use], NO_LIMITS, after)
    # Bob uses most of his limit, and of Carol nothing is known.
    assert result.spare == ((entity(user="alice"), 1000.0),)


def test_a_promised_budget_stays_as_it_is(lake: Lake) -> None:
    use = use_of(BudgetMeasure.PROMISED)
    assert observed(lake, use, NO_LIMITS) is use


def test_use_that_was_not_recorded_leaves_the_promised_sum_with_the_reason(lake: Lake) -> None:
    budget = Budget(name="b", key=Key.REQUEST_PERCENTAGE, amount=5.0, basis=BudgetMeasure.OBSERVED)
    use = BudgetUse(budget=budget, before=1.0, after=2.0, basis=BudgetMeasure.PROMISED)
    result = observed(lake, use, NO_LIMITS)
    assert (result.basis, result.after) == (BudgetMeasure.PROMISED, 2.0)
    assert result.note == "the brokers recorded no use of this kind"


def test_more_series_than_a_plan_can_read_leave_the_promised_sum(lake: Lake) -> None:
    users = tuple(f"u{number}" for number in range(MOST_SERIES + 1))
    lake.replace(
        rows.unit(USAGE_SAMPLE),
        UnitContent(
            rows=rows.usage(0, users=users, rates=(1,)),
            inputs=recorded_window.cadence_inputs(cadence(30_000)),
        ),
    )
    result = observed(lake, use_of(), NO_LIMITS)
    assert (result.basis, result.note) == (
        BudgetMeasure.PROMISED,
        "601 series would have to be read",
    )


def test_clients_are_read_in_portions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_evidence, "MOST_SAMPLES", 2 * len(PEAKS))
    monkeypatch.setattr(budget_loads, "AT_ONCE", 1)
    assert observed(lake, use_of(), limits(alice=200.0)).after == 1200.0


def test_a_budget_that_cannot_be_read_leaves_the_others_compared(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_totals(lake, broker_1=5)
    monkeypatch.setattr(published_evidence, "MOST_SAMPLES", len(PEAKS))
    of_bob = use_of(namespaces=frozenset({"pay"}), counted=frozenset({entity(user="bob")}))
    after = limits(bob=9000.0)
    result, of_all = observed_uses(opened(lake), [of_bob, use_of()], after, after)
    assert (result.basis, result.after) == (BudgetMeasure.PROMISED, 8.0)
    assert result.note.startswith("the buckets that are asked for have more than 10 samples")
    assert (of_all.basis, of_all.after) == (BudgetMeasure.OBSERVED, 2005.0)
