"""The load of brokers at one time."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel.broker_load import (
    MOST_PPM,
    BrokerCapacity,
    BrokerLoad,
    BrokerMoments,
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
