"""Chunks of alterations keep the order and every bound."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.client.alteration_sender import MAX_BYTES, halves, split_into_chunks
from reconciler.quota.entity import entity
from reconciler.quota.outcome import MAX_OPERATIONS, Alteration

SIZES = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 2 * MAX_BYTES)), max_size=200)


@given(SIZES)
def test_chunks_contain_every_alteration_in_order_and_stay_within_every_bound(
    shape: list[tuple[int, int]],
) -> None:
    alterations = [
        Alteration(entity(user=str(n)), tuple((f"k{i}", 1.0) for i in range(min(operations, 3))))
        for n, (operations, _) in enumerate(shape)
    ]
    sizes = [size for _, size in shape]
    chunks = list(split_into_chunks(alterations, sizes))
    assert [at for start, end in chunks for at in range(start, end)] == list(range(len(shape)))
    for start, end in chunks:
        assert (
            sum(len(alteration.operations) for alteration in alterations[start:end])
            <= MAX_OPERATIONS
        )
        assert end - start == 1 or sum(sizes[start:end]) <= MAX_BYTES


@given(st.integers(0, 50), st.integers(0, 50))
def test_halves_together_equal_the_chunk_and_are_smaller(start: int, count: int) -> None:
    ranges = halves(start, start + count)
    if count < 2:
        assert ranges == ()
        return
    (first, middle), (again, last) = ranges
    assert (first, middle, last) == (start, again, start + count)
    assert start < middle < last
