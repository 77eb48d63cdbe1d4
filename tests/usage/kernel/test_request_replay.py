"""Series are replayed in episodes: which ones, how readings are spread, and what is counted beside records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.clients import Requests
from reconciler.usage.kernel.request_replay import (
    Episode,
    Spread,
    episodes,
    likely,
    limited,
    parts,
    records,
    replayed,
    resumes,
)
from reconciler.usage.kernel.throttling import Demand, backlogs, demand_of, simulate
from reconciler.usage.samples import Censored, QuotaType
from tests.usage.reference import Sample, columns

GAP = 50_000
ONE = Requests(is_produce=False, connections=1, most_bytes=20_000, part_bytes=0)


def demand(*rates: int, gap_after: int | None = None) -> Demand:
    rows = [
        Sample(
            at * 10_000 + (100_000 if gap_after is not None and at > gap_after else 0),
            10_000,
            rate,
            0,
            Censored.NO,
        )
        for at, rate in enumerate(rates)
    ]
    return demand_of(columns(rows), GAP)


def episodes_of(series: Demand, limit: int) -> tuple[Episode, ...]:
    return episodes(series, limit, backlogs(series, limit))


def test_episodes_are_the_time_around_a_backlog_under_half_of_the_limit():
    series = demand(*[10] * 20, 900, *[10] * 40, 3_000, *[10] * 40)
    small, large = sorted(episodes_of(series, 700), key=lambda episode: episode.begin)
    assert episodes_of(series, 700) == (large, small)  # the longest waits first
    assert (small.begin, small.end) == (18, 24)
    assert (large.begin, large.backlog) == (59, 23_000)
    assert episodes_of(demand(), 700) == ()
    assert episodes_of(demand(*[10] * 20), 700) == ()


def test_an_episode_ends_with_its_session():
    series = demand(*[10] * 5, *[3_000] * 5, *[10] * 5, gap_after=9)
    assert [(episode.begin, episode.end) for episode in episodes_of(series, 1_000)] == [(3, 10)]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.sampled_from(Spread))
def test_each_spread_has_the_bytes_and_the_time_of_the_readings(rates, spread):
    series = demand(*rates)
    lengths, levels = parts(series, spread, Episode(0, len(rates), 0, 0))
    assert (lengths >= 0).all()
    assert (levels >= 0).all()
    times, units = (column.reshape(-1, 2).sum(axis=1) for column in (lengths, lengths * levels))
    assert times == pytest.approx(np.full(len(rates), 10_000.0))
    assert units == pytest.approx(np.array(rates) * 10_000.0, rel=1e-9, abs=1e-3)


def test_spreads_are_even_stepped_or_in_bursts():
    series = demand(0, 25, 100, 50, 50)
    complete = Episode(0, 5, 0, 0)
    assert parts(series, Spread.EVEN, complete)[1].tolist() == [
        0,
        0,
        25,
        25,
        100,
        100,
        50,
        50,
        50,
        50,
    ]
    lengths, levels = parts(series, Spread.STEPS, complete)
    assert (levels[2:4].tolist(), lengths[2:4].tolist()) == ([0, 100], [7_500, 2_500])
    assert (levels[4:6].tolist(), lengths[4:6].tolist()) == ([50, 150], [5_000, 5_000])
    lengths, levels = parts(series, Spread.BURSTS, complete)
    assert (levels[2:4].tolist(), lengths[2:4].tolist()) == ([0, 250], [9_000, 1_000])
    assert (levels[4:6].tolist(), lengths[4:6].tolist()) == ([25, 775], [9_000, 1_000])
    assert levels[6:].tolist() == [50] * 4


@pytest.mark.parametrize(
    ("rates", "levels"),
    [
        ((20, 20, 100, 40, 40), [40, 160]),
        ((40, 40, 100, 20, 20), [160, 40]),
        ((80, 80, 100, 90, 90), [100, 100]),  # noise
        ((0, 30, 100, 40, 0), [100, 100]),  # a longer burst, which reaches into its neighbours
    ],
)
def test_a_peak_lasts_half_of_its_reading_beside_the_higher_neighbour(rates, levels):
    complete = Episode(0, 5, 0, 0)
    assert parts(demand(*rates), Spread.STEPS, complete)[1][4:6].tolist() == levels


@given(
    st.integers(1, 10**8),
    st.integers(20, 70_000),
    st.sampled_from([1, 6]),
    st.sampled_from([0, 50]),
)
def test_the_bytes_beside_records_are_those_of_requests_that_a_connection_collects(
    rate, record, connections, linger_ms
):
    clients = Requests(
        is_produce=True,
        connections=connections,
        most_bytes=16_384,
        part_bytes=record,
        linger_ms=linger_ms,
    )
    (content,), (inflation,) = records(np.array([float(rate)]), clients)
    each = content / record / connections
    counted = content + connections * each * 120 / (1 + each * (linger_ms + 1) / 1000)
    assert counted == pytest.approx(rate, rel=1e-6)
    assert inflation == pytest.approx(rate / content)


def test_without_a_size_of_records_all_bytes_are_records():
    content, inflation = records(np.array([0.0, 100.0]), ONE)
    assert (content.tolist(), inflation.tolist()) == ([0, 100], [1, 1])


def test_a_replay_goes_on_shortly_before_the_next_rate_near_the_limit():
    rates = np.array([0.0] * 10 + [81.0] + [0.0] * 10)
    assert resumes(rates, 100).tolist() == [6] * 6 + list(range(6, 15)) + [21] * 6


@given(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=30),
    st.integers(50_000, 400_000),
    st.sampled_from([1, 3]),
)
def test_a_forecast_lies_between_those_of_an_even_and_an_uneven_spread_or_near_them(
    rates, limit, connections
):
    series = demand(*rates)
    clients = Requests(is_produce=False, connections=connections, most_bytes=20_000, part_bytes=0)
    work = limited(series, limit)
    likely_forecast = likely(work, clients)
    for spread in Spread:
        case = replayed(work, clients, spread)
        assert (case.samples, case.covered_ms, case.arrived_units) == (
            likely_forecast.samples,
            likely_forecast.covered_ms,
            likely_forecast.arrived_units,
        )
    closed = simulate(QuotaType.FETCH, series, limit // 2)
    assert likely_forecast.throttled_ms <= closed.throttled_ms + 20_000 + 10_000 * len(rates) // 10


def test_a_backlog_at_the_end_of_a_session_is_unfinished():
    assert likely(limited(demand(*[300_000] * 5), 100_000), ONE).unfinished == 1
    assert likely(limited(demand(*[300_000] * 5, *[0] * 30), 100_000), ONE).unfinished == 0
