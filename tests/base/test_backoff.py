"""Tests of delays between tries, and of deadlines over all tries."""

import pytest

from reconciler.base.backoff import Backoff, Deadline


def test_delays_double_up_to_the_maximum_and_vary_by_a_fifth() -> None:
    backoff = Backoff(first=0.1, cap=1.0)
    assert [backoff.pause(n, lambda: 0.5) for n in range(7)] == pytest.approx(
        [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )
    assert backoff.pause(5, lambda: 0.0) == pytest.approx(0.8)
    assert backoff.pause(5, lambda: 0.999999) == pytest.approx(1.2, abs=1e-5)
    assert backoff.pause(10_000, lambda: 0.5) == 1.0


def test_the_remaining_time_of_a_deadline_is_never_negative() -> None:
    deadline = Deadline(at=10.0)
    assert (deadline.seconds_remaining(4.0), deadline.seconds_remaining(12.0)) == (6.0, 0.0)
    assert (deadline.within(4.0, 1.0), deadline.within(4.0, 9.0)) == (1.0, 6.0)
    assert Deadline(at=10.0, connect_at=6.0).to_connect.seconds_remaining(4.0) == 2.0
    assert deadline.to_connect == deadline
    assert [deadline.passed(at) for at in (9.9, 10.0)] == [False, True]
