"""The search for the smallest sufficient limit, rounding to three digits."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.recommendation.candidate_limits import LEAST_PART, smallest
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
