"""Every drop reason of series, points and samples has a sentence and a line in the documentation; no count is lost."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.drop_reasons import PARTIAL, DropCounts, DropReason

COUNTED = st.dictionaries(st.sampled_from(DropReason), st.integers(1, 1000))


@given(COUNTED, COUNTED)
def test_merging_adds_the_counts_of_each_reason(
    first: dict[DropReason, int], second: dict[DropReason, int]
) -> None:
    both = DropCounts(first)
    both.merge(DropCounts(second))
    assert dict(both) == {
        word: first.get(word, 0) + second.get(word, 0) for word in {*first, *second}
    }


@given(COUNTED)
def test_a_result_is_partial_if_data_could_not_be_read(counted: dict[DropReason, int]) -> None:
    assert DropCounts(counted).partial is bool(PARTIAL & set(counted))
