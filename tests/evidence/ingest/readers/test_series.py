"""Series and counts: what every word means, and that nothing that was counted gets lost."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.readers.series import (
    EXAMPLES,
    PARTIAL,
    SENTENCES,
    OutcomeCounts,
    PointArray,
    SeriesOutcome,
)

COUNTED = st.dictionaries(st.sampled_from(SeriesOutcome), st.integers(1, 1000))


def test_every_word_is_explained() -> None:
    assert set(SENTENCES) == set(SeriesOutcome)


@given(COUNTED, COUNTED)
def test_merging_adds_word_by_word(
    one: dict[SeriesOutcome, int], other: dict[SeriesOutcome, int]
) -> None:
    both = OutcomeCounts(one)
    both.merge(OutcomeCounts(other))
    assert dict(both) == {word: one.get(word, 0) + other.get(word, 0) for word in {*one, *other}}


@given(COUNTED)
def test_a_result_is_partial_if_something_could_not_be_had(
    counted: dict[SeriesOutcome, int],
) -> None:
    assert OutcomeCounts(counted).partial is bool(PARTIAL & set(counted))


def test_nothing_leaves_no_trace_and_what_was_not_counted_is_zero() -> None:
    counts = OutcomeCounts()
    counts.add(SeriesOutcome.RETRIES, 0)
    assert (len(counts), counts[SeriesOutcome.RETRIES], SeriesOutcome.RETRIES in counts) == (
        0,
        0,
        False,
    )


def test_lines_explain_and_the_first_places_are_kept() -> None:
    counts = OutcomeCounts()
    for number in range(20):
        counts.add(SeriesOutcome.BAD_LINE, 1, f"file:{number}")
    more = OutcomeCounts()
    more.merge(counts)
    assert more.examples(SeriesOutcome.BAD_LINE) == tuple(
        f"file:{number}" for number in range(EXAMPLES)
    )
    assert more.lines() == (f"20 bad_line: {SENTENCES[SeriesOutcome.BAD_LINE]}",)


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.floats(allow_nan=False))))
def test_points_are_a_sequence_of_pairs(pairs: list[tuple[int, float]]) -> None:
    points = PointArray.of(pairs)
    assert list(points) == pairs
    assert len(points) == len(pairs)
    assert list(points[1:]) == pairs[1:]
    assert points == pairs
