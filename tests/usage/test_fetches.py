"""Sizes of fetches, and the part of a limit that remains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.fetches import UNSTATED, FetchSize

MIB = 1_048_576


def fetch_size(fetch: int, batch: int = 0) -> FetchSize:
    return FetchSize(least_bytes=fetch, most_bytes=fetch, batch_bytes=batch)


@pytest.mark.parametrize(
    ("size", "limit", "least", "most"),
    [
        pytest.param(fetch_size(MIB), 100_000, 50_000, 50_000, id="ten seconds in one fetch: half"),
        pytest.param(
            fetch_size(MIB), 200_000, 133_333, 133_333, id="two fetches in the window: two thirds"
        ),
        pytest.param(
            fetch_size(MIB),
            MIB,
            MIB * 11 // 12,
            MIB * 11 // 12,
            id="a fetch a second: eleven of twelve",
        ),
        pytest.param(
            fetch_size(8_192, 2_048),
            8_192_000,
            7_167_402,
            7_167_402,
            id="half a batch of each fetch is read again",
        ),
        pytest.param(UNSTATED, 100_000, 50_000, 100_000, id="not stated: from half to all"),
        pytest.param(
            UNSTATED, 50 * MIB, 50 * MIB * 11 // 12, 50 * MIB, id="large limits: nearly all"
        ),
        pytest.param(
            FetchSize(least_bytes=MIB, most_bytes=50 * MIB),
            200_000,
            100_000,
            133_333,
            id="one partition or many",
        ),
        pytest.param(fetch_size(MIB), 1, 1, 1, id="never zero"),
    ],
)
def test_a_throttled_consumer_obtains_a_part_of_its_limit(size, limit, least, most):
    assert size.obtained(limit) == (least, most)


@pytest.mark.parametrize(
    ("least", "most", "batch", "message"),
    [
        (2, 1, 0, "a fetch of 2 to 1 bytes is none"),
        (0, 0, 0, "a fetch of 0 to 0 bytes is none"),
        (-1, 1, 0, "a fetch of -1 to 1 bytes is none"),
        (10, 10, 11, "a fetch of 10 bytes does not hold a batch of 11"),
        (10, 10, -1, "does not hold a batch"),
    ],
)
def test_contradictory_sizes_are_refused(least, most, batch, message):
    with pytest.raises(QuotaValueError, match=message):
        FetchSize(least_bytes=least, most_bytes=most, batch_bytes=batch)


sizes = st.tuples(st.integers(0, 10**8), st.integers(1, 10**8), st.integers(0, 10**6))


@given(sizes, st.integers(1, 10**12))
def test_a_consumer_obtains_more_than_nothing_and_at_most_its_limit(numbers, limit):
    first, second, batch = numbers
    low, high = sorted((first, second))
    rates = FetchSize(
        least_bytes=low, most_bytes=max(1, high), batch_bytes=min(batch, low)
    ).obtained(limit)
    assert 1 <= rates.least <= rates.most <= limit
    assert rates.least * 4 + 4 >= limit  # a half, and half of that if a batch fills a fetch


@given(st.integers(1, 10**8), st.integers(1, 10**8), st.integers(1, 10**9))
def test_smaller_fetches_obtain_at_least_as_much(first, second, limit):
    small, large = sorted((first, second))
    assert fetch_size(small).obtained(limit).least >= fetch_size(large).obtained(limit).most
