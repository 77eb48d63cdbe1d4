"""Points of a series are a sequence of pairs in two columns."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.readers.series import (
    PointArray,
)


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.floats(allow_nan=False))))
def test_points_are_a_sequence_of_pairs(pairs: list[tuple[int, float]]) -> None:
    points = PointArray.of(pairs)
    assert list(points) == pairs
    assert len(points) == len(pairs)
    assert list(points[1:]) == pairs[1:]
    assert points == pairs
