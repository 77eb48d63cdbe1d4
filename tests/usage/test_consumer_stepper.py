"""The share of its limit that a throttled consumer gets: the rule against Kafka's windows, request by request."""

import pytest

from reconciler.usage.fetches import FetchSize
from tests.usage.stepper import obtained

LIMIT = 100_000


def share_obtained(seconds: float) -> float:
    size = round(seconds * LIMIT)
    return FetchSize(least_bytes=size, most_bytes=size).obtained(LIMIT).most / LIMIT


@pytest.mark.parametrize(
    "seconds", [0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.5, 6.0, 10.0]
)
def test_a_consumer_obtains_the_fetches_that_fit_the_window_and_waits_for_the_next(seconds):
    assert share_obtained(seconds) == pytest.approx(obtained(LIMIT, seconds * LIMIT), abs=0.03)


@pytest.mark.parametrize("seconds", [3.4, 5.0, 7.0, 8.0, 9.0])
def test_between_two_whole_numbers_of_fetches_the_rule_is_slightly_too_strict(seconds):
    assert 0 <= obtained(LIMIT, seconds * LIMIT) - share_obtained(seconds) < 0.15


@pytest.mark.parametrize("seconds", [0.25, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("limit", [20_000, 5_000_000])
def test_only_the_duration_of_a_fetch_at_the_limit_matters(seconds, limit):
    several = obtained(limit, seconds * limit, connections=3, overhead=limit / 1000)
    assert share_obtained(seconds) == pytest.approx(several, abs=0.05)


def test_a_fetch_of_more_than_ten_seconds_counts_as_ten():
    assert obtained(LIMIT, 50 * LIMIT) == obtained(LIMIT, 10 * LIMIT)
    assert share_obtained(50) == share_obtained(10) == 0.5
