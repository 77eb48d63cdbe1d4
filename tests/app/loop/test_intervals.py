import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.loop import LoopIntervals
from reconciler.errors import ConfigError

CHANCE = st.floats(0, 1, exclude_max=True)
PACES = st.builds(
    LoopIntervals,
    interval=st.floats(0.1, 1e6),
    jitter=st.floats(0, 0.99),
    first_retry=st.floats(0.01, 10),
    last_retry=st.floats(10, 1e5),
)


@given(PACES, CHANCE)
def test_a_resync_starts_within_the_jitter_around_the_interval(
    pace: LoopIntervals, chance: float
) -> None:
    wait = pace.resync_after(lambda: chance)
    assert wait >= pace.interval * (1 - pace.jitter) * (1 - 1e-12)
    assert wait <= pace.interval * (1 + pace.jitter) * (1 + 1e-12)


@given(PACES, st.integers(1, 5000), CHANCE)
def test_the_delay_of_a_retry_stays_within_its_bounds_for_any_number_of_failures(
    pace: LoopIntervals, failures: int, chance: float
) -> None:
    wait = pace.retry_after(failures, lambda: chance)
    assert pace.first_retry * (1 - pace.jitter) * (1 - 1e-12) <= wait
    assert wait <= pace.last_retry * (1 + pace.jitter) * (1 + 1e-12)


@given(PACES, st.integers(1, 100))
def test_without_jitter_delays_never_shrink_while_failures_increase(
    pace: LoopIntervals, failures: int
) -> None:
    def even() -> float:
        return 0.5

    assert pace.retry_after(failures, even) <= pace.retry_after(failures + 1, even)


def test_delays_double_up_to_the_maximum() -> None:
    pace = LoopIntervals(first_retry=1.0, last_retry=10.0)
    assert [pace.retry_after(n, lambda: 0.5) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_jitter_lengthens_and_shortens_the_interval() -> None:
    pace = LoopIntervals(interval=100.0, jitter=0.1)
    assert pace.resync_after(lambda: 0.0) == pytest.approx(90.0)
    assert pace.resync_after(lambda: 0.5) == pytest.approx(100.0)
    assert pace.resync_after(lambda: 0.999999) == pytest.approx(110.0, abs=0.001)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("interval", 0.0),
        ("interval", math.nan),
        ("interval", math.inf),
        ("jitter", 1.0),
        ("jitter", -0.1),
        ("gap", -1.0),
        ("linger", math.nan),
        ("batch", 0),
        ("first_retry", 0.0),
        ("last_retry", 0.5),
    ],
)
def test_intervals_that_are_not_positive_are_rejected(name: str, wrong: float) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        LoopIntervals(**{name: wrong})
    assert caught.value.key == name
