"""Spans with recorded throttling, and points of charts."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.usage.kernel.series import NOT_RECORDED, SampleSeries, series_of
from reconciler.usage.kernel.throttled_spans import ThrottledSpan, chart_points, throttled_spans

STEP, GAP = 10, 50

readings = st.lists(
    st.tuples(
        st.integers(1, 100), st.integers(0, 10**13), st.sampled_from([NOT_RECORDED, 0, 5, 900])
    ),
    min_size=1,
    max_size=40,
)
"""Distance to the reading before, rate, throttle time."""


def series(rows: list[tuple[int, int, int]]) -> SampleSeries:
    times = [1_000 + sum(distance for distance, _, _ in rows[: at + 1]) for at in range(len(rows))]
    durations = [STEP if distance > GAP else distance for distance, _, _ in rows]
    return series_of(
        {
            "ts_ms": times,
            "dt_ms": durations,
            "rate_units": [rate for _, rate, _ in rows],
            "throttle_ms": [delay for _, _, delay in rows],
            "censored": [0] * len(rows),
        }
    )


def test_a_span_ends_with_the_throttling_or_at_a_gap() -> None:
    rows = [(10, 1, 0), (10, 7, 5), (10, 9, 900), (10, 1, 0), (10, 2, 5), (60, 3, 5)]
    assert throttled_spans(series(rows), GAP) == (
        ThrottledSpan(begin_ms=1_010, end_ms=1_030, delay_ms=900, rate_units=9),
        ThrottledSpan(begin_ms=1_040, end_ms=1_050, delay_ms=5, rate_units=2),
        ThrottledSpan(begin_ms=1_100, end_ms=1_110, delay_ms=5, rate_units=3),
    )
    assert throttled_spans(series([(10, 1, NOT_RECORDED)]), GAP) == ()


@given(readings)
def test_spans_cover_the_time_that_the_broker_recorded_as_throttled(rows) -> None:
    recorded = series(rows)
    spans = throttled_spans(recorded, GAP)
    covered_ms = sum(span.end_ms - span.begin_ms for span in spans)
    assert covered_ms == (recorded.throttled_ms or 0)


@given(readings, st.integers(1, 500))
def test_points_keep_all_units_the_largest_rate_and_the_throttling(rows, length_ms) -> None:
    recorded = series(rows)
    points, throttled = chart_points(recorded, 1_000, length_ms)
    begins = [begin for begin, _, _ in points]
    assert begins == sorted(
        {1_000 + (ts - 1_000) // length_ms * length_ms for ts in recorded.ts_ms}
    )
    assert max(largest for _, _, largest in points) == recorded.peak
    assert all(mean <= largest for _, mean, largest in points)
    assert set(throttled) <= set(begins)
    assert bool(throttled) == bool(recorded.throttled_ms)
    ((_, mean, largest),) = chart_points(recorded, 1_000, 10**6)[0]
    assert abs(
        mean - int(recorded.rate_units.dot(recorded.dt_ms.astype(object))) / recorded.covered_ms
    ) <= max(1, largest * 1e-9)
