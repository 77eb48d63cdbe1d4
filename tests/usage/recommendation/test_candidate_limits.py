"""Candidates: the fixed powers, the two rounds, the search, rounding to three digits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.recommendation.candidate_limits import (
    COARSE,
    POWERS,
    coarse,
    fine,
    smallest,
    three_digits,
)
from reconciler.usage.samples import MAX_UNITS

peaks = st.one_of(st.integers(1, 300), st.integers(1, MAX_UNITS))


def test_the_powers_are_rounded_to_the_nearest_hundred_thousandth():
    for k, power in enumerate(POWERS):
        low, high = (2 * power - 1) ** 8, (2 * power + 1) ** 8
        assert low <= (2 * POWERS[0]) ** 8 >> k < high


def test_the_first_round_covers_limits_from_the_peak_to_a_seventh():
    limits = coarse(100_000)
    assert (len(limits), limits[:9], limits[-1]) == (COARSE, (*POWERS, 50_000), 13_632)
    assert coarse(1) == (1,) * COARSE
    assert max(POWERS) * MAX_UNITS < 2**63


@given(peaks)
def test_the_first_round_descends_in_steps_of_at_most_a_tenth(peak):
    limits = coarse(peak)
    assert limits[0] == peak
    for above, below in itertools.pairwise(limits):
        assert below <= above <= below * 1.0906 + 1


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_the_second_round_ends_at_the_sufficient_limit(below, more):
    limits = fine(below, below + more)
    assert limits[-1] == below + more
    assert below < limits[0] <= limits[-1]
    assert list(limits) == sorted(limits)


@given(peaks, st.integers(1, 2 * MAX_UNITS))
def test_the_search_gives_the_result_of_a_check_of_every_candidate(peak, least):
    def holds(limit: int) -> bool:
        return limit >= least

    result = smallest(peak, holds)
    first = coarse(peak)
    passing_limits = [limit for limit in first if holds(limit)]
    if not passing_limits:
        assert result == (peak + 1 if holds(peak + 1) else None)
    elif len(passing_limits) == len(first):
        assert result == first[-1]
    else:
        second = fine(first[len(passing_limits)], passing_limits[-1])
        assert result == min(limit for limit in second if holds(limit))
        assert least <= result <= least * 1.0101 + 1


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
