"""Histograms: the table of bounds against exact powers, buckets at their borders, merging, percentiles."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.histogram import (
    BOUNDS,
    STEPS,
    bucket_index,
    histogram,
    largest_in,
    merged,
    percentile,
)
from reconciler.usage.samples import MAX_UNITS, Sample


def test_the_bounds_are_the_powers_rounded_up():
    for n, bound in enumerate(BOUNDS):
        assert (bound - 1) ** STEPS < 2**n <= bound**STEPS
    assert BOUNDS[-2] <= MAX_UNITS < BOUNDS[-1]


def test_the_table_never_changes_because_stored_histograms_are_counted_by_it():
    text = ",".join(map(str, BOUNDS))
    assert (len(BOUNDS), BOUNDS[:2], BOUNDS[320]) == (1383, (1, 2), 1024)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "386fd2cab5e92732"


units = st.one_of(
    st.integers(0, MAX_UNITS),
    st.sampled_from(BOUNDS[:-1]).flatmap(lambda bound: st.sampled_from([bound - 1, bound])),
)


@given(units)
def test_a_bucket_holds_what_it_says(value):
    index = bucket_index(value)
    assert (BOUNDS[index - 1] if index else 0) <= value <= largest_in(index)
    if value:
        assert 2 ** (index - 1) <= value**STEPS < 2**index


@pytest.mark.parametrize("value", [-1, MAX_UNITS + 1])
def test_a_rate_that_cannot_be_has_no_bucket(value):
    with pytest.raises(QuotaValueError, match="no bucket"):
        bucket_index(value)


samples = st.lists(st.builds(Sample, st.just(0), st.integers(1, 300_000), units), max_size=30)


@given(st.lists(samples, max_size=4))
def test_days_merge_by_addition(days):
    whole = histogram(one for day in days for one in day)
    assert merged(map(histogram, days)) == whole
    assert merged(map(histogram, reversed(days))) == whole
    assert sum(whole.values()) == sum(one.dt_ms for day in days for one in day)


@given(samples.filter(bool), st.integers(1, 1_000_000))
def test_a_percentile_is_at_most_a_bucket_too_high_and_never_too_low(found, ppm):
    weighted = sorted((one.rate_units, one.dt_ms) for one in found)
    whole, passed, exact = sum(weight for _, weight in weighted), 0, None
    for rate, weight in weighted:
        passed += weight
        if exact is None and passed * 1_000_000 >= ppm * whole:
            exact = rate
    told = percentile(histogram(found), ppm)
    assert exact <= told <= max(exact, exact * 2 ** (1 / STEPS) * (1 + 1e-12))


def test_no_time_has_no_percentile():
    assert percentile({}, 500_000) is None
    with pytest.raises(QuotaValueError, match="percentile"):
        percentile({1: 1}, 0)
