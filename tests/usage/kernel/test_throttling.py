"""The four models over columns: by hand, against the same rules row by row, and their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel.throttling import MOST_UNITS, delay_ms, demand_of, served, waiting
from reconciler.usage.samples import MAX_UNITS, MODEL_OF, Censored, QuotaType, ThrottleModel
from reconciler.usage.throttle_models import LONGEST_MS
from tests.usage import reference
from tests.usage.recorded import simulate
from tests.usage.reference import Sample, columns

PRODUCE, MUTATION = QuotaType.PRODUCE, QuotaType.CONTROLLER_MUTATION
GAP = 150_000


def series(*rates: int, dt: int = 30_000, begin: int = 1_000_000) -> list[Sample]:
    return [Sample(begin + n * dt, dt, rate, 0, Censored.NO) for n, rate in enumerate(rates)]


def backlogs(samples: list[Sample], limit: int, kind: QuotaType = PRODUCE) -> list[int]:
    return waiting(MODEL_OF[kind], demand_of(columns(samples), GAP), limit).tolist()


@pytest.mark.parametrize("limit", [0, -1, MAX_UNITS])
def test_an_invalid_limit_cannot_be_simulated(limit):
    with pytest.raises(QuotaValueError, match="cannot be simulated"):
        simulate(PRODUCE, series(1), limit, GAP)


# ---- what 64 bits do not hold ------------------------------------------------------------------


def test_an_impossible_throughput_is_refused_only_where_the_limit_is_near_the_rates():
    glitch = series(MAX_UNITS, *[5] * 40_000)
    demand = demand_of(columns(glitch), GAP)
    assert simulate(PRODUCE, glitch, 20_000_000, GAP).unfinished == 1
    with pytest.raises(QuotaValueError, match="no broker moves so much"):
        served(demand, MAX_UNITS - 1)
    assert simulate(PRODUCE, series(*[5] * 40_000), MAX_UNITS - 1, GAP).throttled_ms == 0


# ---- laws --------------------------------------------------------------------------------------

rates = st.one_of(st.integers(0, 50), st.integers(0, 10**7), st.just(MAX_UNITS))
limits = st.one_of(st.integers(1, 40), st.integers(1, 10**7), st.just(MAX_UNITS - 1))
words = st.sampled_from(Censored)
all_samples = st.lists(
    st.tuples(
        st.integers(1, 400_000),
        st.integers(1, 300_000),
        rates,
        st.sampled_from([None, 0, 7]),
        words,
    ),
    max_size=40,
).map(
    lambda steps: [
        Sample(sum(step for step, *_ in steps[: n + 1]), dt, rate, throttle, word)
        for n, (_, dt, rate, throttle, word) in enumerate(steps)
    ]
)


@given(st.sampled_from(QuotaType), all_samples, st.none() | limits, st.integers(1, 5_000))
def test_every_forecast_equals_the_reference_row_by_row(kind, samples, limit, least):
    expected = reference.simulate(kind, samples, limit, GAP, least)
    assert simulate(kind, samples, limit, GAP, least) == expected


@given(all_samples, limits)
def test_served_rates_equal_the_reference_row_by_row(samples, limit):
    expected = [row.served for row in reference.rows(PRODUCE, samples, limit, GAP)]
    assert served(demand_of(columns(samples), GAP), limit).tolist() == expected


@given(all_samples, limits)
def test_served_units_and_backlog_equal_the_demand_of_a_session(samples, limit):
    demand = demand_of(columns(samples), 10**9)
    backlogs = waiting(ThrottleModel.BACKLOG, demand, limit)
    assert (
        served(demand, limit).sum() + (backlogs[-1] if backlogs.size else 0) == demand.arrived_units
    )


@given(st.integers(0, MOST_UNITS), st.integers(1, MAX_UNITS - 1))
def test_the_delay_is_the_exact_quotient_rounded_down_and_limited(units, limit):
    assert delay_ms(units, limit) == min(LONGEST_MS, 1000 * units // limit)


@given(st.sampled_from(QuotaType), all_samples, limits, limits)
def test_a_larger_limit_never_throttles_more(kind, samples, first, second):
    low, high = sorted((first, second))
    worse, better = (simulate(kind, samples, limit, GAP) for limit in (low, high))
    assert better.throttled_ms <= worse.throttled_ms
    assert (better.max_delay_ms or 0) <= (worse.max_delay_ms or 0)


@given(st.sampled_from(QuotaType), all_samples, limits, st.integers(0, 1_000))
def test_more_demand_never_throttles_less(kind, samples, limit, more):
    heavier = [row._replace(rate_units=min(MAX_UNITS, row.rate_units + more)) for row in samples]
    light, heavy = (simulate(kind, rows, limit, GAP) for rows in (samples, heavier))
    assert heavy.throttled_ms >= light.throttled_ms
    assert (heavy.max_delay_ms or 0) >= (light.max_delay_ms or 0)
