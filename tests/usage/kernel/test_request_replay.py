"""Series are replayed in episodes: which ones, how readings are spread, and what is counted beside records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.clients import Requests
from reconciler.usage.kernel.request_replay import (
    Episode,
    Spread,
    likely,
    limited,
    parts,
    records,
    replayed,
)
from reconciler.usage.kernel.throttling import Demand, demand_of, simulate
from reconciler.usage.samples import Censored, QuotaType
from tests.usage.reference import Sample, columns

GAP = 50_000


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


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.sampled_from(Spread))
def test_each_spread_has_the_bytes_and_the_time_of_the_readings(rates, spread):
    series = demand(*rates)
    lengths, levels = parts(series, spread, Episode(0, len(rates), 0, 0))
    assert (lengths >= 0).all()
    assert (levels >= 0).all()
    times, units = (column.reshape(-1, 2).sum(axis=1) for column in (lengths, lengths * levels))
    assert times == pytest.approx(np.full(len(rates), 10_000.0))
    assert units == pytest.approx(np.array(rates) * 10_000.0, rel=1e-9, abs=1e-3)


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
