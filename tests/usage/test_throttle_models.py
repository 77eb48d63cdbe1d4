"""Shares of time."""

from reconciler.usage.throttle_models import share_ppm


def test_a_small_share_is_never_zero():
    shares = [share_ppm(0, 10), share_ppm(1, 10**9), share_ppm(10, 10), share_ppm(0, 0)]
    assert shares == [0, 1, 1_000_000, 0]
