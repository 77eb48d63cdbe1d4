"""The recursion and the other three models: by hand, against a second reading in exact fractions, and their laws."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MAX_UNITS, Censored, QuotaType, Sample
from reconciler.usage.throttle_models import (
    BURST_WINDOWS,
    LONGEST_MS,
    MAX_TOTAL,
    ThrottledSample,
    ThrottleModel,
    arrivals,
    delay_ms,
    rows,
    share_ppm,
    simulate,
)

PRODUCE, MUTATION = QuotaType.PRODUCE, QuotaType.CONTROLLER_MUTATION
GAP = 150_000


def series(*rates: int, dt: int = 30_000, begin: int = 1_000_000):
    return arrivals(
        [Sample(begin + n * dt, dt, rate, 0, Censored.NO) for n, rate in enumerate(rates)], GAP
    )


def test_a_backlog_outlives_its_peak():
    found = list(rows(PRODUCE, series(100, 300, 50, 50, 0), 100))
    assert found == [
        ThrottledSample(backlog=0, served=3000, delayed=0, delay_ms=0, throttled=False),
        ThrottledSample(backlog=6000, served=3000, delayed=6000, delay_ms=60_000, throttled=True),
        ThrottledSample(backlog=4500, served=3000, delayed=1500, delay_ms=45_000, throttled=True),
        ThrottledSample(backlog=3000, served=3000, delayed=1500, delay_ms=30_000, throttled=True),
        ThrottledSample(backlog=0, served=3000, delayed=0, delay_ms=0, throttled=False),
    ]
    forecast = simulate(PRODUCE, series(100, 300, 50, 50, 0), 100)
    assert (forecast.throttled_ms, forecast.max_delay_ms, forecast.over_timeout_ms) == (
        90_000,
        60_000,
        0,
    )
    assert (forecast.delayed_units, forecast.arrived_units, forecast.unfinished) == (
        9000,
        15_000,
        0,
    )
    assert not forecast.is_lower_bound


def test_a_gap_forgets_the_backlog_and_tells_that_it_was_not_over():
    samples = [
        Sample(1_000, 30_000, 500, 0, Censored.NO),
        Sample(1_000 + GAP, 30_000, 0, 0, Censored.NO),
        Sample(1_000 + GAP + GAP + 1, 30_000, 10, 0, Censored.NO),
    ]
    found = list(rows(PRODUCE, arrivals(samples, GAP), 100))
    assert [row.backlog for row in found] == [12_000, 9_000, 0]
    forecast = simulate(PRODUCE, arrivals(samples, GAP), 100)
    assert (forecast.unfinished, forecast.is_lower_bound) == (1, True)
    assert simulate(PRODUCE, arrivals(samples[:2], GAP), 100).unfinished == 1


def test_a_byte_over_the_limit_is_not_throttling_but_a_second_is():
    barely = series(*[101] * 3, dt=30_000)
    assert simulate(PRODUCE, barely, 100).throttled_ms == 0
    assert simulate(PRODUCE, barely, 100, 1).throttled_ms == 90_000
    assert simulate(PRODUCE, series(*[104] * 3), 100).throttled_ms == 90_000


def test_halves_round_up_what_arrives_and_the_limit_rounds_down():
    assert [one.units for one in series(1, 3, dt=500)] == [1, 2]
    (row,) = rows(PRODUCE, series(3, dt=500), 1)
    assert row.backlog == 2  # 3 * 0.5 is 2, 1 * 0.5 is 0


def test_time_beyond_the_delivery_timeout_is_told_apart():
    forecast = simulate(PRODUCE, series(1000, 0, 0), 100)
    assert (forecast.max_delay_ms, forecast.over_timeout_ms) == (270_000, 90_000)
    assert simulate(PRODUCE, series(500, 0), 100).over_timeout_ms == 0  # exactly 120 s is not over


def test_mutations_are_delayed_beyond_a_burst_of_eleven_seconds():
    limit = 2
    burst = series(limit * (BURST_WINDOWS + 10), dt=1_000)
    assert not next(rows(MUTATION, series(24, dt=1_000), limit)).throttled
    (row,) = rows(MUTATION, burst, limit)
    assert (row.backlog, row.throttled, row.delay_ms, row.delayed) == (40, True, 9_000, 18)
    forecast = simulate(MUTATION, burst, limit)
    assert (forecast.model, forecast.unfinished, forecast.max_delay_ms) == (
        ThrottleModel.TOKENS,
        1,
        9_000,
    )


def test_refused_connections_are_not_queued():
    found = list(rows(QuotaType.IP, series(15, 5), 10))
    assert [(row.delayed, row.backlog, row.served) for row in found] == [(150, 0, 300), (0, 0, 150)]
    forecast = simulate(QuotaType.IP, series(15, 5), 10)
    assert (forecast.throttled_ms, forecast.max_delay_ms, forecast.over_timeout_ms) == (
        30_000,
        None,
        None,
    )
    assert forecast.delayed_units == 150


def test_request_time_is_only_told_as_time_over_the_limit():
    forecast = simulate(QuotaType.REQUEST, series(11, 10, 9), 10)
    assert (forecast.throttled_ms, forecast.max_delay_ms, forecast.model) == (
        30_000,
        None,
        ThrottleModel.APPROXIMATE,
    )


def test_no_limit_throttles_nobody():
    forecast = simulate(PRODUCE, series(10**12), None)
    assert (forecast.throttled_ms, forecast.max_delay_ms, forecast.covered_ms) == (0, 0, 30_000)
    assert simulate(PRODUCE, (), 1).samples == 0


@pytest.mark.parametrize("limit", [0, -1, MAX_UNITS])
def test_what_is_no_limit_cannot_be_simulated(limit):
    with pytest.raises(QuotaValueError, match="cannot be simulated"):
        simulate(PRODUCE, series(1), limit)


def test_a_delay_of_nothing_is_no_bound():
    with pytest.raises(QuotaValueError, match="cannot be simulated"):
        simulate(PRODUCE, series(1), 1, 0)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([Sample(2, 1, 0), Sample(2, 1, 0)], "ascend"),
        ([Sample(2, 1, 0), Sample(1, 1, 0)], "ascend"),
        ([Sample(1, 0, 0)], "over 0 ms"),
        ([Sample(1, 1, -1)], "-1 units"),
        ([Sample(1, 1, MAX_UNITS + 1)], "units over"),
    ],
)
def test_samples_that_cannot_be_are_refused(samples, message):
    with pytest.raises(QuotaValueError, match=message):
        arrivals(samples, GAP)


# ---- laws ------------------------------------------------------------------------------------

rates = st.one_of(st.integers(0, 50), st.integers(0, 10**7), st.just(MAX_UNITS))
limits = st.one_of(st.integers(1, 40), st.integers(1, 10**7), st.just(MAX_UNITS - 1))
all_samples = st.lists(
    st.tuples(st.integers(1, 400_000), st.integers(1, 300_000), rates), max_size=30
).map(
    lambda steps: [
        Sample(sum(step for step, _, _ in steps[: n + 1]), dt, rate, 0, Censored.NO)
        for n, (_, dt, rate) in enumerate(steps)
    ]
)


@given(all_samples, limits, st.integers(1, 5_000))
def test_the_recursion_equals_prefix_sums_and_their_minimum(samples, limit, least):
    """The form that a data frame uses: B = S - min of S and of the S before, within the session."""
    found = list(rows(PRODUCE, arrivals(samples, GAP), limit, least))
    total = low = 0
    for n, (one, row) in enumerate(zip(samples, found, strict=True)):
        fresh = n == 0 or one.ts_ms - samples[n - 1].ts_ms > GAP
        arrived = (one.rate_units * one.dt_ms + 500) // 1000
        before = total
        total += arrived - limit * one.dt_ms // 1000
        low = min(before, total) if fresh else min(low, total)
        assert row.backlog == total - low
        assert row.throttled == (1000 * row.backlog >= limit * least)
        assert row.delayed == min(row.backlog, arrived)


@given(all_samples, limits)
def test_nothing_is_lost_within_a_session(samples, limit):
    ready = arrivals(samples, 10**9)
    found = list(rows(PRODUCE, ready, limit))
    arrived = sum(one.units for one in ready)
    assert sum(row.served for row in found) + (found[-1].backlog if found else 0) == arrived


@given(st.integers(0, 10**16), st.integers(1, MAX_UNITS - 1))
def test_the_delay_is_the_exact_quotient_rounded_down_and_cut_after_thirty_thousand_years(
    units, limit
):
    assert delay_ms(units, limit) == min(LONGEST_MS, Fraction(1000 * units, limit).__floor__())


@given(st.sampled_from(QuotaType), all_samples, limits, limits)
def test_a_larger_limit_never_throttles_more(kind, samples, one, other):
    low, high = sorted((one, other))
    ready = arrivals(samples, GAP)
    worse, better = simulate(kind, ready, low), simulate(kind, ready, high)
    assert better.throttled_ms <= worse.throttled_ms
    assert (better.max_delay_ms or 0) <= (worse.max_delay_ms or 0)


@given(st.sampled_from(QuotaType), all_samples, limits, st.integers(0, 1_000))
def test_more_demand_never_throttles_less(kind, samples, limit, more):
    heavier = [one._replace(rate_units=min(MAX_UNITS, one.rate_units + more)) for one in samples]
    light, heavy = (simulate(kind, arrivals(one, GAP), limit) for one in (samples, heavier))
    assert heavy.throttled_ms >= light.throttled_ms
    assert (heavy.max_delay_ms or 0) >= (light.max_delay_ms or 0)


@given(st.sampled_from(QuotaType), all_samples, limits, st.integers(1, 5_000))
def test_a_forecast_is_the_sum_of_its_rows(kind, samples, limit, least):
    ready = arrivals(samples, GAP)
    found = list(rows(kind, ready, limit, least))
    forecast = simulate(kind, ready, limit, least)
    both = list(zip(ready, found, strict=True))
    assert forecast.throttled_ms == sum(one.dt_ms for one, row in both if row.throttled)
    assert forecast.delayed_units == sum(row.delayed for row in found)
    assert forecast.covered_ms == sum(one.dt_ms for one in samples)
    assert forecast.arrived_units == sum(one.units for one in ready)
    if forecast.model not in (ThrottleModel.BACKLOG, ThrottleModel.TOKENS):
        assert forecast.max_delay_ms is forecast.over_timeout_ms is None
        assert forecast.unfinished == 0
        return
    assert forecast.max_delay_ms == max((row.delay_ms for row in found), default=0)
    assert forecast.over_timeout_ms == sum(one.dt_ms for one, row in both if row.delay_ms > 120_000)
    waits = [
        row.backlog if forecast.model is ThrottleModel.BACKLOG else row.delay_ms for row in found
    ]
    last = [n for n in range(len(ready)) if n + 1 == len(ready) or ready[n + 1].fresh]
    assert forecast.unfinished == sum(waits[n] > 0 for n in last)


def test_a_share_of_a_little_is_never_nothing():
    assert [share_ppm(0, 10), share_ppm(1, 10**9), share_ppm(10, 10), share_ppm(0, 0)] == [
        0,
        1,
        1_000_000,
        0,
    ]


def test_totals_are_cut_to_what_a_column_of_64_bits_holds():
    found = simulate(PRODUCE, series(*[MAX_UNITS] * 11, dt=86_400_000), 1)
    assert found.arrived_units == found.delayed_units == MAX_TOTAL
    assert found.max_delay_ms == LONGEST_MS
