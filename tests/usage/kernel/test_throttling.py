"""The four models over columns: by hand, against the same rules row by row, and their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel.series import NOT_RECORDED, SampleSeries, series_of
from reconciler.usage.kernel.throttling import (
    MOST_UNITS,
    ThrottledSpan,
    chart_points,
    delay_ms,
    demand_of,
    served,
    throttled_spans,
    waiting,
)
from reconciler.usage.samples import MAX_UNITS, MODEL_OF, Censored, QuotaType, ThrottleModel
from reconciler.usage.throttle_models import BURST_WINDOWS, LONGEST_MS
from tests.usage import reference
from tests.usage.recorded import simulate
from tests.usage.reference import Sample, columns

PRODUCE, MUTATION = QuotaType.PRODUCE, QuotaType.CONTROLLER_MUTATION
GAP = 150_000


def series(*rates: int, dt: int = 30_000, begin: int = 1_000_000) -> list[Sample]:
    return [Sample(begin + n * dt, dt, rate, 0, Censored.NO) for n, rate in enumerate(rates)]


def backlogs(samples: list[Sample], limit: int, kind: QuotaType = PRODUCE) -> list[int]:
    return waiting(MODEL_OF[kind], demand_of(columns(samples), GAP), limit).tolist()


def test_a_backlog_lasts_longer_than_its_peak():
    samples = series(100, 300, 50, 50, 0)
    assert backlogs(samples, 100) == [0, 6000, 4500, 3000, 0]
    assert served(demand_of(columns(samples), GAP), 100).tolist() == [3000] * 5
    forecast = simulate(PRODUCE, samples, 100, GAP)
    assert forecast.throttled_ms == 90_000
    assert forecast.max_delay_ms == 60_000
    assert forecast.over_timeout_ms == 0
    assert forecast.delayed_units == 9000
    assert forecast.arrived_units == 15_000
    assert not forecast.is_lower_bound


def test_a_gap_resets_the_backlog_and_reports_that_it_was_not_finished():
    samples = [
        Sample(1_000, 30_000, 500, 0, Censored.NO),
        Sample(1_000 + GAP, 30_000, 0, 0, Censored.NO),
        Sample(1_000 + GAP + GAP + 1, 30_000, 10, 0, Censored.NO),
    ]
    assert backlogs(samples, 100) == [12_000, 9_000, 0]
    forecast = simulate(PRODUCE, samples, 100, GAP)
    assert (forecast.unfinished, forecast.is_lower_bound) == (1, True)
    assert simulate(PRODUCE, samples[:2], 100, GAP).unfinished == 1


def test_a_byte_over_the_limit_is_not_throttling_and_a_second_is():
    barely = series(101, 101, 101)
    assert simulate(PRODUCE, barely, 100, GAP).throttled_ms == 0
    assert simulate(PRODUCE, barely, 100, GAP, 1).throttled_ms == 90_000
    assert simulate(PRODUCE, series(104, 104, 104), 100, GAP).throttled_ms == 90_000


def test_arrivals_are_rounded_up_at_halves_and_the_limit_is_rounded_down():
    assert demand_of(columns(series(1, 3, dt=500)), GAP).units.tolist() == [1, 2]
    assert backlogs(series(3, dt=500), 1) == [2]  # 3 * 0.5 is 2, 1 * 0.5 is 0


def test_time_beyond_the_delivery_timeout_is_counted_separately():
    forecast = simulate(PRODUCE, series(1000, 0, 0), 100, GAP)
    assert (forecast.max_delay_ms, forecast.over_timeout_ms) == (270_000, 90_000)
    assert (
        simulate(PRODUCE, series(500, 0), 100, GAP).over_timeout_ms == 0
    )  # 120 s does not exceed the bound


def test_mutations_are_delayed_beyond_a_burst_of_eleven_seconds():
    limit = 2
    burst = series(limit * (BURST_WINDOWS + 10), dt=1_000)
    assert simulate(MUTATION, series(24, dt=1_000), limit, GAP).throttled_ms == 0
    assert backlogs(burst, limit, MUTATION) == [18]
    forecast = simulate(MUTATION, burst, limit, GAP)
    assert forecast.model is ThrottleModel.TOKENS
    assert (forecast.unfinished, forecast.max_delay_ms) == (1, 9_000)


def test_rejected_connections_are_not_queued():
    assert backlogs(series(15, 5), 10, QuotaType.IP) == [150, 0]
    forecast = simulate(QuotaType.IP, series(15, 5), 10, GAP)
    assert (forecast.throttled_ms, forecast.delayed_units) == (30_000, 150)
    assert forecast.max_delay_ms is forecast.over_timeout_ms is None


def test_request_time_is_only_time_over_the_limit():
    forecast = simulate(QuotaType.REQUEST, series(11, 10, 9), 10, GAP)
    assert (forecast.throttled_ms, forecast.max_delay_ms) == (30_000, None)
    assert forecast.model is ThrottleModel.APPROXIMATE


def test_without_a_limit_no_client_is_throttled():
    forecast = simulate(PRODUCE, series(10**12), None, GAP)
    assert (forecast.throttled_ms, forecast.max_delay_ms, forecast.covered_ms) == (0, 0, 30_000)
    assert simulate(PRODUCE, [], 1, GAP).samples == 0


@pytest.mark.parametrize("limit", [0, -1, MAX_UNITS])
def test_an_invalid_limit_cannot_be_simulated(limit):
    with pytest.raises(QuotaValueError, match="cannot be simulated"):
        simulate(PRODUCE, series(1), limit, GAP)


def test_a_delay_bound_of_zero_is_refused():
    with pytest.raises(QuotaValueError, match="cannot be simulated"):
        simulate(PRODUCE, series(1), 1, GAP, 0)


# ---- what 64 bits do not hold ------------------------------------------------------------------


def test_impossible_rates_over_a_week_are_refused_with_their_size():
    full = series(*[MAX_UNITS] * 2_100, dt=300_000)
    with pytest.raises(QuotaValueError, match=r"10,000,000,000,000 units per second .* cannot be"):
        demand_of(columns(full), 300_000)


def test_an_impossible_throughput_is_refused_only_where_the_limit_is_near_the_rates():
    glitch = series(MAX_UNITS, *[5] * 40_000)
    demand = demand_of(columns(glitch), GAP)
    assert simulate(PRODUCE, glitch, 20_000_000, GAP).unfinished == 1
    with pytest.raises(QuotaValueError, match="no broker moves so much"):
        served(demand, MAX_UNITS - 1)
    assert simulate(PRODUCE, series(*[5] * 40_000), MAX_UNITS - 1, GAP).throttled_ms == 0


def test_a_month_at_a_terabyte_per_second_is_counted():
    month = series(*[10**12] * 8_640, dt=300_000)
    forecast = simulate(PRODUCE, month, 1, 300_000)
    assert forecast.arrived_units == 2_592_000 * 10**12 < MOST_UNITS
    assert forecast.max_delay_ms == LONGEST_MS
    assert forecast.delayed_units == forecast.arrived_units - 300


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


READ_MS, LONGEST_GAP_MS = 10, 50

readings = st.lists(
    st.tuples(
        st.integers(1, 100), st.integers(0, 10**13), st.sampled_from([NOT_RECORDED, 0, 5, 900])
    ),
    min_size=1,
    max_size=40,
)
"""Distance to the reading before, rate, throttle time."""


def recorded_series(rows: list[tuple[int, int, int]]) -> SampleSeries:
    times = [1_000 + sum(distance for distance, _, _ in rows[: at + 1]) for at in range(len(rows))]
    durations = [READ_MS if distance > LONGEST_GAP_MS else distance for distance, _, _ in rows]
    return series_of(
        {
            "ts_ms": times,
            "dt_ms": durations,
            "rate_units": [rate for _, rate, _ in rows],
            "throttle_ms": [delay for _, _, delay in rows],
            "censored": [0] * len(rows),
        }
    )


def test_a_span_ends_with_the_throttling_or_at_a_gap() -> None:
    rows = [(10, 1, 0), (10, 7, 5), (10, 9, 900), (10, 1, 0), (10, 2, 5), (60, 3, 5)]
    assert throttled_spans(recorded_series(rows), LONGEST_GAP_MS) == (
        ThrottledSpan(begin_ms=1_010, end_ms=1_030, delay_ms=900, rate_units=9),
        ThrottledSpan(begin_ms=1_040, end_ms=1_050, delay_ms=5, rate_units=2),
        ThrottledSpan(begin_ms=1_100, end_ms=1_110, delay_ms=5, rate_units=3),
    )
    assert throttled_spans(recorded_series([(10, 1, NOT_RECORDED)]), LONGEST_GAP_MS) == ()


@given(readings)
def test_spans_cover_the_time_that_the_broker_recorded_as_throttled(rows) -> None:
    recorded = recorded_series(rows)
    spans = throttled_spans(recorded, LONGEST_GAP_MS)
    covered_ms = sum(span.end_ms - span.begin_ms for span in spans)
    assert covered_ms == (recorded.throttled_ms or 0)


@given(readings, st.integers(1, 500))
def test_points_keep_all_units_the_largest_rate_and_the_throttling(rows, length_ms) -> None:
    recorded = recorded_series(rows)
    points, throttled = chart_points(recorded, 1_000, length_ms)
    begins = [begin for begin, _, _ in points]
    assert begins == sorted(
        {1_000 + (ts - 1_000) // length_ms * length_ms for ts in recorded.ts_ms}
    )
    assert max(largest for _, _, largest in points) == recorded.peak
    assert all(mean <= largest for _, mean, largest in points)
    assert set(throttled) <= set(begins)
    assert bool(throttled) == bool(recorded.throttled_ms)
    ((_, mean, largest),) = chart_points(recorded, 1_000, 10**6)[0]
    assert abs(
        mean - int(recorded.rate_units.dot(recorded.dt_ms.astype(object))) / recorded.covered_ms
    ) <= max(1, largest * 1e-9)
