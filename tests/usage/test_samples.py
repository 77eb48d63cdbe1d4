"""Units: rates and limits as whole numbers, and values that are not numbers."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.keys import Key
from reconciler.usage.samples import (
    DAY_MS,
    KEY_OF,
    LEAST_STEP_MS,
    MAX_UNITS,
    TYPE_OF,
    Cadence,
    QuotaType,
    ValueState,
    cadence,
    half_up,
    in_kafka_units,
    limit_state,
    limit_units,
    spans,
    thinned,
)
from tests.usage.reference import rate_units


def test_each_key_has_its_quota_type():
    assert set(TYPE_OF) == set(Key)
    assert {KEY_OF[TYPE_OF[key]] for key in Key} == set(Key)


@pytest.mark.parametrize(
    ("kind", "value", "units"),
    [
        (QuotaType.PRODUCE, 1_048_576.0, 1_048_576),
        (QuotaType.PRODUCE, 1_000_000.0000005, 1_000_000),
        (QuotaType.FETCH, 2.5, 3),
        (QuotaType.REQUEST, 12.5, 12_500_000),
        (QuotaType.CONTROLLER_MUTATION, 1e-9, 1),
        (QuotaType.IP, 10.0, 10_000_000),
        (QuotaType.PRODUCE, 9_999_999_999_999.0, MAX_UNITS - 1),
        (QuotaType.PRODUCE, 1e13, None),
        (QuotaType.PRODUCE, 2.0**63, None),
        (QuotaType.REQUEST, 1e7, None),
        (QuotaType.IP, 2_147_483_647.0, None),
        (QuotaType.PRODUCE, math.inf, None),
        (QuotaType.PRODUCE, None, None),
    ],
)
def test_a_limit_is_a_whole_number_above_zero(kind, value, units):
    assert limit_units(kind, value) == units


@pytest.mark.parametrize("value", [math.nan, 0.0, -1.0, -math.inf])
def test_a_limit_that_cannot_be_computed_is_refused(value):
    assert limit_state(QuotaType.PRODUCE, value) is ValueState.INVALID
    with pytest.raises(QuotaValueError, match="producer_byte_rate"):
        limit_units(QuotaType.PRODUCE, value)


@pytest.mark.parametrize(
    ("rate", "units"),
    [(0.4, 0), (0.5, 1), (1.5, 2), (2.5, 3), (-7.0, 0), (math.inf, MAX_UNITS), (1e20, MAX_UNITS)],
)
def test_a_rate_is_rounded_half_up_and_limited(rate, units):
    assert rate_units(QuotaType.FETCH, rate) == units


def test_nan_is_not_a_rate():
    assert rate_units(QuotaType.FETCH, math.nan) is None


@given(st.sampled_from(QuotaType), st.integers(1, MAX_UNITS - 1))
def test_units_are_converted_to_kafka_and_back(kind, units):
    assert limit_units(kind, in_kafka_units(kind, units)) == units


@given(st.floats(0, 1e13))
def test_halves_are_rounded_up_in_float64(value):
    assert abs(half_up(value) - value) <= 0.5 + value * 2**-52


PACE = Cadence(step_ms=30_000, max_gap_ms=150_000)
moments = st.lists(st.integers(0, 2 * DAY_MS), unique=True, max_size=60).map(sorted)


def test_scrapes_closer_than_a_window_are_dropped():
    assert thinned(range(0, 31_000, 1_000)) == (0, 10_000, 20_000, 30_000)
    assert thinned(range(0, 60_001, 15_000)) == (0, 15_000, 30_000, 45_000, 60_000)
    assert thinned([0, 9_998, 19_996]) == (
        0,
        9_998,
        19_996,
    )  # the interval of a scraper is not exact to the millisecond


@given(moments)
def test_thinning_one_day_equals_thinning_all_days(times):
    days = [[ts for ts in times if ts // DAY_MS == day] for day in {ts // DAY_MS for ts in times}]
    assert sorted(ts for day in days for ts in thinned(day)) == list(thinned(times))


@given(moments)
def test_kept_scrapes_of_a_day_do_not_overlap(times):
    scrapes = thinned(times)
    assert all(
        after - before >= LEAST_STEP_MS
        for before, after in itertools.pairwise(scrapes)
        if before // DAY_MS == after // DAY_MS
    )
    assert set(scrapes) <= set(times)


def test_a_sample_covers_the_time_since_the_previous_one():
    assert spans([0, 30_000, 61_000, 211_000, 361_001], PACE) == (
        30_000,
        30_000,
        31_000,
        150_000,
        30_000,  # a gap above the largest: unknown, so the usual step
    )
    assert spans([40_000], PACE, before_ms=15_000) == (25_000,)
    assert spans([40_000], PACE, before_ms=-200_000) == (30_000,)


@pytest.mark.parametrize("times", [[1, 1], [2, 1]])
def test_samples_must_be_ascending(times):
    with pytest.raises(QuotaValueError, match="ascend"):
        spans(times, PACE)


@pytest.mark.parametrize(
    ("scrape", "step", "gap", "coverage"),
    [
        (1_000, 10_000, 50_000, 1_000_000),
        (5_000, 10_000, 50_000, 1_000_000),
        (10_000, 10_000, 50_000, 1_000_000),
        (15_000, 15_000, 75_000, 733_333),
        (30_000, 30_000, 150_000, 366_666),
        (60_000, 60_000, 300_000, 183_333),
        (120_000, 120_000, 300_000, 91_666),
        (300_000, 300_000, 300_000, 36_666),
    ],
)
def test_a_cadence_has_the_share_of_time_that_it_observes(scrape, step, gap, coverage):
    pace = cadence(scrape)
    assert (pace.step_ms, pace.max_gap_ms, pace.coverage_ppm) == (step, gap, coverage)


@pytest.mark.parametrize(
    ("scrape", "gap"), [(0, None), (-1, None), (300_001, None), (30_000, 29_999)]
)
def test_a_cadence_without_a_bridged_gap_is_rejected(scrape, gap):
    with pytest.raises(QuotaValueError, match="scrape step"):
        cadence(scrape, gap)
