"""The loop over requests: laws, the same result compiled or not, and Kafka's limiter from an independent implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.usage.kernel import request_loop
from reconciler.usage.kernel.request_loop import RequestShape, Table, Waits, compiled, replay
from tests.usage.stepper import SampledWindows, obtained

NEVER = 10**8


def arrivals(rates: list[int], reading_ms: int = 10_000, inflation: float = 1.0) -> Table:
    """Readings of even rates, of which none is passed over."""
    return np.array(
        [
            (at * reading_ms, reading_ms, rate * reading_ms / 1000, inflation, at)
            for at, rate in enumerate(rates)
        ],
        dtype=float,
    )


def requests(
    *, is_produce: bool = False, size: int = 20_000, batch: int = 1_000, connections: int = 1
) -> RequestShape:
    return RequestShape(
        is_produce=is_produce,
        size=float(size),
        each=float(size),
        batch=float(batch),
        lump=float(max(batch, 2_000)),
        overhead=100.0,
        connections=connections,
    )


def replayed(rates: list[int], limit: int, clients: RequestShape, seed: int = 1) -> Waits:
    return compiled()(arrivals(rates), clients, float(limit), seed, NEVER)


rate_lists = st.lists(
    st.sampled_from([0, 20_000, 80_000, 110_000, 300_000]), min_size=1, max_size=6
)
all_requests = st.builds(
    requests,
    is_produce=st.booleans(),
    size=st.sampled_from([5_000, 50_000, 400_000]),
    batch=st.sampled_from([0, 700, 5_000]),
    connections=st.sampled_from([1, 2, 4]),
)


@settings(max_examples=25)
@given(rate_lists, all_requests, st.integers(0, 2**31 - 1))
def test_the_compiled_loop_equals_the_loop_in_python(rates, clients, seed):
    expected = replay(arrivals(rates), clients, 100_000.0, seed, 3_000)
    assert compiled()(arrivals(rates), clients, 100_000.0, seed, 3_000) == expected


@given(rate_lists, all_requests, st.integers(20_000, 400_000), st.integers(0, 2**31 - 1))
def test_all_that_arrives_is_served(rates, clients, limit, seed):
    waits = replayed(rates, limit, clients, seed)
    arrived = sum(rates) * 10
    largest = 1.5 * clients.lump  # the last lump is not complete
    assert arrived - largest - 1 <= waits.served <= arrived + 1
    assert waits.delayed <= waits.served
    assert 0 <= waits.very_late_ms <= waits.late_ms <= 10_000 * len(rates)


@given(st.lists(st.sampled_from([0, 20_000, 50_000, 80_000]), min_size=1, max_size=6), all_requests)
def test_a_limit_that_use_never_reaches_delays_nothing(rates, clients):
    waits = replayed(rates, 200_000, clients)
    assert (waits.late_ms, waits.is_unfinished) == (0, False)
    assert waits.worst_ms < request_loop.TURNAROUND_MS * 10


@given(rate_lists, all_requests, st.integers(60_000, 200_000))
def test_a_much_larger_limit_never_throttles_more(rates, clients, limit):
    low, high = (replayed(rates, each, clients) for each in (limit, 2 * limit))
    one_fetch_ms = 1_000 * clients.size / limit
    assert high.late_ms <= low.late_ms + 1_000 + one_fetch_ms
    assert high.worst_ms <= low.worst_ms + 1_000 + 2 * one_fetch_ms


@given(rate_lists, st.integers(60_000, 200_000))
def test_small_requests_of_one_connection_wait_as_long_as_a_backlog_after_ten_seconds_of_credit(
    rates, limit
):
    clients = requests(size=5_000, batch=0)._replace(overhead=0.0)
    backlog = worst = credited = 0.0
    for rate in rates:
        backlog = max(0.0, backlog + 10 * (rate - limit))
        credited = max(credited, backlog)
        worst = credited
    waits = replayed(rates, limit, clients)
    assert waits.worst_ms <= worst / limit * 1_000 + 1_500
    assert waits.worst_ms >= worst / limit * 1_000 - 11_000


@pytest.mark.parametrize(
    ("seconds", "connections"),
    [(0.1, 1), (1.0, 1), (4.0, 1), (10.0, 1), (0.1, 3), (1.0, 3), (4.0, 3)],
)
def test_a_consumer_that_always_has_more_to_read_gets_the_fetches_that_fit_the_window(
    seconds, connections
):
    """The issue KAFKA-9677: with fetches of ten seconds of a limit half of it is lost, with small ones little."""
    fetch = round(seconds * 100_000)
    clients = requests(size=fetch, batch=0, connections=connections)._replace(overhead=0.0)
    waits = compiled()(arrivals([400_000] * 30), clients, 100_000.0, 1, NEVER)
    took_ms = waits.worst_ms + 300_000
    expected = obtained(100_000, fetch, connections=connections, overhead=0)
    assert waits.served / took_ms / 100 == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("lump", [8_000.0, 50_000.0])
def test_a_fetch_reads_the_batch_again_in_which_the_one_before_ended(lump):
    complete, cut = (
        compiled()(
            arrivals([400_000] * 10),
            requests(size=20_000, batch=batch)._replace(lump=lump),
            100_000.0,
            1,
            NEVER,
        )
        for batch in (0, 8_000)
    )
    assert (cut.worst_ms + 100_000) / (complete.worst_ms + 100_000) == pytest.approx(1.25, abs=0.05)


def test_one_connection_starves_while_others_are_served():
    alone, four = (
        replayed([60_000] * 3 + [160_000] * 6 + [20_000] * 30, 100_000, clients)
        for clients in (
            requests(size=100_000),
            requests(size=100_000, connections=4),
        )
    )
    assert four.worst_ms > 1.1 * alone.worst_ms


def test_requests_of_a_producer_that_waits_are_larger_and_count_less_beside_their_records():
    """15 kB/s of records, of which the broker counts 33 kB/s as long as each has a request of its own."""
    clients = RequestShape(
        is_produce=True,
        size=16_384.0,
        each=16_384.0,
        batch=109.0,
        lump=1_000.0,
        overhead=120.0,
        connections=1,
    )
    counted = arrivals([15_000] * 12, inflation=229 / 109)
    limit = 25_000.0
    waits = compiled()(counted, clients, limit, 1, NEVER)
    assert waits.late_ms < 2_000
    assert waits.worst_ms < 2_000
    all_counted = compiled()(arrivals([15_000 * 229 // 109] * 12), clients, limit, 1, NEVER)
    assert all_counted.late_ms > 60_000


def test_a_replay_ends_after_its_steps_and_says_how_far_it_came():
    waits = compiled()(arrivals([300_000] * 6), requests(), 100_000.0, 1, 50)
    assert waits.steps == 50
    assert 0 < waits.reached_ms < 60_000
    assert replayed([300_000] * 6, 100_000, requests()).reached_ms == 60_000


def test_times_in_which_nothing_can_be_delayed_are_passed_over():
    rates = [20_000] * 50 + [200_000] * 4 + [20_000] * 50
    table = arrivals(rates)
    every = compiled()(table, requests(), 100_000.0, 1, NEVER)
    table[:46, request_loop.RESUME] = 46
    table[70:, request_loop.RESUME] = len(rates)
    some = compiled()(table, requests(), 100_000.0, 1, NEVER)
    assert some.steps < every.steps / 2
    assert some.late_ms == pytest.approx(every.late_ms, rel=0.03)
    assert some.worst_ms == pytest.approx(every.worst_ms, rel=0.03)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 7, 100, 999, 1_000, 1_001, 2_500, 10_000, 11_000, 30_000]),
            st.sampled_from([1, 1_000, 65_536, 1_000_000]),
        ),
        max_size=60,
    )
)
def test_samples_are_those_of_the_independent_implementation(steps):
    windows, samples = SampledWindows(), np.zeros((request_loop.STATE + 1, 3))
    now = 1_000_000.0
    for later, amount in steps:
        now += later
        windows.record(amount, now)
        request_loop.record(samples, amount, now)
        expected = windows.delay(50_000.0, now)
        assert math.isclose(request_loop.pause(samples, 50_000.0, now), expected, abs_tol=1)
