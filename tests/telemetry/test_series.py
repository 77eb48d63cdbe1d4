"""Series and counts: what every word means, and that nothing that was counted gets lost."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.telemetry.series import EXAMPLES, PARTIAL, SENTENCES, Counts, Points, Word

COUNTED = st.dictionaries(st.sampled_from(Word), st.integers(1, 1000))


def test_every_word_is_explained() -> None:
    assert set(SENTENCES) == set(Word)


@given(COUNTED, COUNTED)
def test_merging_adds_word_by_word(one: dict[Word, int], other: dict[Word, int]) -> None:
    both = Counts(one)
    both.merge(Counts(other))
    assert dict(both) == {word: one.get(word, 0) + other.get(word, 0) for word in {*one, *other}}


@given(COUNTED)
def test_a_result_is_partial_if_something_could_not_be_had(counted: dict[Word, int]) -> None:
    assert Counts(counted).partial is bool(PARTIAL & set(counted))


def test_nothing_leaves_no_trace_and_what_was_not_counted_is_zero() -> None:
    counts = Counts()
    counts.add(Word.RETRIES, 0)
    assert (len(counts), counts[Word.RETRIES], Word.RETRIES in counts) == (0, 0, False)


def test_lines_explain_and_the_first_places_are_kept() -> None:
    counts = Counts()
    for number in range(20):
        counts.add(Word.BAD_LINE, 1, f"file:{number}")
    more = Counts()
    more.merge(counts)
    assert more.examples(Word.BAD_LINE) == tuple(f"file:{number}" for number in range(EXAMPLES))
    assert more.lines() == (f"20 bad_line: {SENTENCES[Word.BAD_LINE]}",)


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.floats(allow_nan=False))))
def test_points_are_a_sequence_of_pairs(pairs: list[tuple[int, float]]) -> None:
    points = Points.of(pairs)
    assert list(points) == pairs
    assert len(points) == len(pairs)
    assert list(points[1:]) == pairs[1:]
    assert points == pairs
