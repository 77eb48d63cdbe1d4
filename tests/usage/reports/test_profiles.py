"""What was used, in percentiles and in one word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.histogram import histogram, merged
from reconciler.usage.reports.profiles import (
    UsageState,
    from_histogram,
    profile,
    state_of,
)
from reconciler.usage.samples import Censored, Sample


def samples(*rates: int, throttle: int | None = 0) -> list[Sample]:
    return [
        Sample(at * 10_000, 10_000, rate, throttle, Censored.NO) for at, rate in enumerate(rates, 1)
    ]


@pytest.mark.parametrize(
    ("rates", "throttle", "limit", "state"),
    [
        ((0, 0), 0, 100, UsageState.UNUSED),
        ((), 0, 100, UsageState.UNUSED),
        ((100,), 0, 1_000, UsageState.IDLE),
        ((101,), 0, 1_000, UsageState.USED),
        ((899,), 0, 1_000, UsageState.USED),
        ((900,), 0, 1_000, UsageState.NEAR_LIMIT),
        ((900,), 5, 1_000, UsageState.THROTTLED),
        ((900,), None, 1_000, UsageState.NEAR_LIMIT),
        ((10**12,), 0, None, UsageState.USED),
    ],
)
def test_the_first_word_that_holds_is_told(rates, throttle, limit, state) -> None:
    assert state_of(profile(samples(*rates, throttle=throttle)), limit) is state


def test_a_broker_that_does_not_count_says_nothing() -> None:
    assert state_of(profile([]), 100, measured=False) is UsageState.NO_DATA


def test_percentiles_are_of_time_and_never_too_low() -> None:
    found = profile(samples(*[10] * 90, *[1_000] * 10))
    assert found.p50_units is not None
    assert 10 <= found.p50_units <= 11
    assert found.p95_units is not None
    assert 1_000 <= found.p95_units <= 1_022
    assert (found.max_rate_units, found.covered_ms, found.throttled_ms) == (1_000, 1_000_000, 0)


def test_what_was_never_recorded_is_not_known() -> None:
    assert profile(samples(5, throttle=None)).throttled_ms is None
    assert profile([]).p50_units is None


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=40), st.integers(0, 40))
def test_a_profile_of_days_is_that_of_their_merged_histograms(rates, cut) -> None:
    whole = samples(*rates)
    parts = merged([histogram(whole[:cut]), histogram(whole[cut:])])
    kept = from_histogram(
        parts, max_rate_units=max(rates), throttled=0, censored=0, covered=10_000 * len(rates)
    )
    assert kept == profile(whole)
