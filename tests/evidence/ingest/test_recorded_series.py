"""Points of a series are pairs in two columns."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.recorded_series import RecordedSeries

TIMES = st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(TIMES, st.floats(allow_nan=False))), TIMES, TIMES)
def test_points_of_a_time_range_keep_their_order(
    points: list[tuple[int, float]], begin: int, end: int
) -> None:
    series = RecordedSeries.of("m", {"a": "b"}, points)
    assert series.points == points
    within = series.within(begin, end)
    assert within.points == [point for point in points if begin <= point[0] < end]
    assert (within.name, within.labels) == ("m", {"a": "b"})
