"""Tests of the retry loop: number of tries, delays and end, for every policy of the table."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.backoff import EXACT, Backoff
from reconciler.base.http.retry import POLICIES, Failure, Peer, RetryPolicy, with_retries
from reconciler.errors import KquotaError
from tests.fakes.clock import FakeClock

PLAIN = RetryPolicy(backoff=Backoff(first=1.0, cap=4.0, spread=EXACT), tries=4, total_seconds=900.0)


class Tries:
    """Returns one result after the other, the last one repeatedly."""

    def __init__(self, results: Sequence[str | Failure]) -> None:
        self.results = results
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> str | Failure:
        self.seconds.append(seconds)
        return self.results[min(len(self.seconds), len(self.results)) - 1]

    @property
    def count(self) -> int:
        return len(self.seconds)


def failed(*, again: bool = True, wait: float | None = None, uses_try: bool = True) -> Failure:
    return Failure(error=KquotaError("no"), is_retriable=again, wait=wait, uses_try=uses_try)


def run(policy: RetryPolicy, *results: str | Failure) -> tuple[str, Tries, FakeClock]:
    tries, clock = Tries(results), FakeClock()
    try:
        result = asyncio.run(with_retries(tries, policy, clock=clock, uniform=lambda: 0.5))
    except KquotaError as error:
        result = error.message
    return result, tries, clock


def test_a_final_failure_is_not_retried() -> None:
    assert run(PLAIN, failed(again=False))[1].count == 1


def test_the_pause_is_the_longer_of_back_off_and_retry_after() -> None:
    assert run(PLAIN, failed(wait=7.0), failed(wait=0.0), "yes")[2].slept == [7.0, 2.0]


def test_no_pause_starts_that_would_end_after_the_deadline() -> None:
    policy = RetryPolicy(backoff=PLAIN.backoff, total_seconds=5.0)
    result, tries, clock = run(policy, failed())
    assert (result, clock.slept, tries.seconds) == ("no", [1.0, 2.0], [5.0, 4.0, 2.0])


@pytest.mark.parametrize("peer", Peer)
@given(durations=st.lists(st.floats(0, 1000), min_size=20, max_size=20))
def test_attempts_of_a_slow_server_end_at_the_deadline(peer: Peer, durations: list[float]) -> None:
    """Each attempt ends within its seconds, as every client's attempt does (tests/test_house.py)."""
    clock, policy = FakeClock(), POLICIES[peer]
    began = clock.monotonic()

    async def attempt(seconds: float) -> Failure:
        clock.advance(min(seconds, durations.pop()))
        return failed()

    with pytest.raises(KquotaError):
        asyncio.run(with_retries(attempt, policy, clock=clock))
    assert clock.monotonic() - began <= policy.total_seconds + 1e-6


@pytest.mark.parametrize("peer", Peer)
@given(
    results=st.lists(
        st.builds(failed, again=st.booleans(), wait=st.none() | st.floats(0, 100)),
        min_size=1,
        max_size=20,
    )
)
def test_every_policy_ends_and_stays_within_its_bounds(peer: Peer, results: list[Failure]) -> None:
    policy = POLICIES[peer]
    _, tries, clock = run(policy, *results, failed())
    assert tries.count <= policy.tries
    assert sum(clock.slept) <= policy.total_seconds
    assert len(clock.slept) == tries.count - 1
    for failure, pause in zip([*results, *[failed()] * 20], clock.slept, strict=False):
        assert pause >= (failure.wait or 0.0)
