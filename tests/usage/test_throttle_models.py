"""Shares of time."""

import pytest

from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.throttle_models import LimitMove, move, share_ppm
from tests.usage.reference import censored


def test_a_small_share_is_never_zero():
    shares = [share_ppm(0, 10), share_ppm(1, 10**9), share_ppm(10, 10), share_ppm(0, 0)]
    assert shares == [0, 1, 1_000_000, 0]


@pytest.mark.parametrize(
    ("throttle_ms", "rate", "limit", "requests", "expected"),
    [
        pytest.param(5, 90, 100, False, Censored.YES, id="throttled and near the limit"),
        pytest.param(5, 89, 100, False, Censored.NO, id="the throttle time only lingers"),
        pytest.param(0, 100, 100, False, Censored.NO, id="near, and not throttled"),
        pytest.param(None, 95, 100, False, Censored.UNKNOWN, id="near, throttling not recorded"),
        pytest.param(None, 10, 100, False, Censored.NO, id="far, throttling not recorded"),
        pytest.param(5, 10**9, None, False, Censored.NO, id="no own limit"),
        pytest.param(0, 1, 100, True, Censored.YES, id="throttled by its request quota"),
        pytest.param(0, 1, 100, None, Censored.UNKNOWN, id="a request quota that cannot be mapped"),
        pytest.param(
            5, 95, 100, None, Censored.YES, id="throttled, with an unmapped request quota"
        ),
    ],
)
def test_a_rate_has_the_expected_censoring(throttle_ms, rate, limit, requests, expected):
    assert (
        censored(
            QuotaType.PRODUCE,
            throttle_ms=throttle_ms,
            rate_units=rate,
            limit=limit,
            request_throttled=requests,
        )
        is expected
    )


@pytest.mark.parametrize(
    ("throttle_ms", "rate", "limit", "requests", "expected"),
    [
        pytest.param(5, 52, 100, False, Censored.UNKNOWN, id="fetches of ten seconds of the limit"),
        pytest.param(5, 90, 100, False, Censored.YES, id="throttled and near the limit"),
        pytest.param(0, 52, 100, False, Censored.NO, id="not throttled"),
        pytest.param(None, 52, 100, False, Censored.NO, id="far, throttling not recorded"),
        pytest.param(5, 52, None, False, Censored.NO, id="no own limit"),
        pytest.param(5, 52, 100, True, Censored.YES, id="throttled by its request quota"),
    ],
)
def test_a_throttled_consumer_may_stay_far_below_its_limit(
    throttle_ms, rate, limit, requests, expected
):
    result = censored(
        QuotaType.FETCH,
        throttle_ms=throttle_ms,
        rate_units=rate,
        limit=limit,
        request_throttled=requests,
    )
    assert result is expected


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (1, 1, LimitMove.EQUAL),
        (None, None, LimitMove.EQUAL),
        (None, 5, LimitMove.TIGHTER),
        (5, 4, LimitMove.TIGHTER),
        (4, 5, LimitMove.LOOSER),
        (4, None, LimitMove.LOOSER),
    ],
)
def test_an_absent_limit_is_higher_than_every_limit(before, after, way):
    assert move(before, after) is way
