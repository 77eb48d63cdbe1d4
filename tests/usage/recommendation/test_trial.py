"""The search for the smallest sufficient limit, rounding to three digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.recommendation.trial import LEAST_PART, smallest, three_digits
from reconciler.usage.samples import MAX_UNITS

peaks = st.one_of(st.integers(1, 300), st.integers(1, MAX_UNITS))


@given(peaks, st.data())
def test_the_limit_is_sufficient_and_too_large_by_less_than_a_hundredth(peak, data):
    least = data.draw(st.integers(1, peak))
    limit = smallest(peak, lambda limit: limit >= least)
    assert least <= limit <= peak
    assert limit <= max(least, peak // LEAST_PART) * 1.01 + 1


@given(peaks)
def test_above_the_peak_only_one_unit_is_tried(peak):
    assert smallest(peak, lambda limit: limit > peak) == peak + 1
    assert smallest(peak, lambda limit: limit > peak + 1) is None


@given(peaks, st.data())
def test_a_stricter_promise_needs_no_smaller_limit(peak, data):
    first, second = sorted(data.draw(st.tuples(st.integers(1, peak), st.integers(1, peak))))
    weaker = smallest(peak, lambda limit: limit >= first)
    assert weaker <= smallest(peak, lambda limit: limit >= second)


def test_a_search_needs_few_trials():
    tried = []
    smallest(10**12, lambda limit: tried.append(limit) or limit >= 5 * 10**11)
    assert len(tried) <= 10


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1, 1, 1),
        (999, 999, 999),
        (1001, 1010, 1000),
        (123_456, 124_000, 123_000),
        (9_999, 10_000, 9_990),
    ],
)
def test_limits_are_rounded_to_three_digits(value, up, down):
    assert (three_digits(value, up=True), three_digits(value, up=False)) == (up, down)
