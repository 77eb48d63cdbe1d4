"""The load of brokers at one time."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.capacity import BudgetBasis
from reconciler.usage.kernel.broker_load import (
    MOST_PPM,
    BrokerCapacity,
    BrokerLoad,
    BrokerMoments,
    CoincidentRates,
    load_ppm,
    weighted,
)
from reconciler.usage.kernel.broker_load import load as load_of
from reconciler.usage.kernel.series import NOT_RECORDED

Moment = tuple[int, int, int, int | None, int | None]


def moment(
    served: int, *, broker: int | None = None, replication: int | None = 0, dt: int = 1_000
) -> Moment:
    return dt, served, served, broker, replication


def load(moments: Sequence[Moment], capacity: int | None) -> BrokerLoad:
    numbers = [[NOT_RECORDED if number is None else number for number in row] for row in moments]
    columns = np.array(numbers, np.int64).reshape(-1, 5).T
    names = ("dt_ms", "served_units", "recorded_units", "broker_units", "replication_units")
    return load_of(
        BrokerMoments(**dict(zip(names, columns, strict=True))), BrokerCapacity(units=capacity)
    )


def test_load_is_relative_to_the_capacity_left_by_replication() -> None:
    broker_load = load([moment(300, replication=200), moment(600, replication=200)], 1_000)
    assert broker_load.budget_units == 600
    assert (broker_load.coincident_ppm, broker_load.overload_ms, broker_load.basis) == (
        1_000_000,
        0,
        BudgetBasis.MEASURED,
    )


def test_the_smallest_budget_of_a_window_is_used() -> None:
    broker_load = load([moment(300, replication=200), moment(300, replication=400)], 1_000)
    assert broker_load.budget_units == 400


def test_time_above_the_budget_is_counted() -> None:
    broker_load = load([moment(801), moment(800), moment(900, dt=500)], 1_000)
    assert broker_load.overload_ms == 1_000 + 500
    assert broker_load.coincident_ppm == 2_250_000  # 900 units in half a second


def test_a_thousandth_of_the_time_may_exceed_the_coincident_load() -> None:
    quiet = [moment(80, dt=1_000)] * 999
    assert load([*quiet, moment(800)], 1_000).coincident_ppm == 100_000
    assert load([*quiet, moment(800), moment(800)], 1_000).coincident_ppm == 1_000_000


@pytest.mark.parametrize(("capacity", "replication"), [(None, 0), (1_000, None)])
def test_without_a_capacity_or_any_replication_there_is_no_budget(capacity, replication) -> None:
    broker_load = load([moment(100, broker=200, replication=replication)], capacity)
    assert (broker_load.budget_units, broker_load.coincident_ppm, broker_load.basis) == (
        None,
        None,
        BudgetBasis.NO_DATA,
    )
    assert broker_load.unattributed_ppm == 500_000


def test_bytes_outside_of_all_buckets_are_a_share_of_the_total() -> None:
    assert load([moment(75, broker=100), moment(90, broker=80)], None).unattributed_ppm == 83_333
    assert load([moment(75)], None).unattributed_ppm is None
    assert load([moment(100, broker=80)], None).unattributed_ppm == 0


def test_time_whose_budget_is_unknown_is_no_time_within_the_budget() -> None:
    unknown = [moment(900, replication=None)] * 9
    broker_load = load([moment(900), moment(700), *unknown], 1_000)
    assert (broker_load.overload_ms, broker_load.covered_ms) == (1_000, 2_000)
    assert load(unknown, 1_000).covered_ms == 9_000


def test_without_moments_there_is_no_load() -> None:
    broker_load = load([], 1_000)
    assert (broker_load.covered_ms, broker_load.basis) == (0, BudgetBasis.NO_DATA)


def test_rates_and_capacities_beyond_any_broker_are_refused() -> None:
    with pytest.raises(QuotaValueError, match="more than a broker can serve"):
        load([moment(2**60)], None)
    with pytest.raises(QuotaValueError, match="more than a broker has"):
        load([], 10**13)


@given(st.integers(0, 9 * 10**15), st.integers(1, 300_000), st.integers(0, 9 * 10**12))
def test_a_load_is_exact_up_to_its_maximum(served: int, dt: int, available: int) -> None:
    (result,) = load_ppm(*(np.array([number]) for number in (served, dt, available)))
    rate = served * 1000 // dt
    exact = rate * 1_000_000 // available if available else (MOST_PPM if served else 0)
    assert result == min(exact, MOST_PPM)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 50)), min_size=1),
    st.integers(1, 1_000_000),
)
def test_a_weighted_percentile_covers_the_requested_share_of_the_weight(values, ppm) -> None:
    numbers, weights = np.array(values).T
    percentile = weighted(numbers, weights, ppm)
    total_weight = sum(weight for _, weight in values)
    assert (
        sum(weight for value, weight in values if value <= percentile) * 1_000_000
        >= ppm * total_weight
    )
    assert (
        sum(weight for value, weight in values if value < percentile) * 1_000_000
        < ppm * total_weight
    )


def test_rates_are_added_up_by_moment_however_uneven_the_scrapes_are() -> None:
    times, rates = np.array([30_001, 59_999, 90_001]), np.array([10, 20, 10])
    load = CoincidentRates()
    for _ in range(2):
        load.add(times, rates, rates - 5)
    assert load.figures == (40, 30)
    of_all = CoincidentRates((times, rates * 3))
    of_all.add(times[:2], rates[:2], rates[:2] - 5)
    assert of_all.figures == (60, 55)
