"""Capacity: the part for clients, the promised part, and fair shares that add up."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.capacity import BucketUse, FairShare, budget, committed_ppm, shares
from reconciler.usage.tags import bucket_of

A, B, C = (bucket_of(name) for name in "abc")


def test_the_budget_of_clients_is_the_capacity_minus_headroom_and_replication():
    assert budget(1000, 300) == 500
    assert budget(1000, 900) == 0
    assert committed_ppm([400, 350], 500) == 1_500_000
    assert committed_ppm([1], 0) is None


def test_small_uses_are_served_and_the_others_share_by_weight():
    fair_shares = shares(
        [
            BucketUse(bucket=C, rate=90, weight=2),
            BucketUse(bucket=A, rate=5),
            BucketUse(bucket=B, rate=60),
        ],
        95,
    )
    assert fair_shares == (
        FairShare(bucket=A, fair=5, excess=0),
        FairShare(bucket=B, fair=30, excess=30),
        FairShare(bucket=C, fair=60, excess=30),
    )


def test_an_indivisible_unit_goes_to_the_largest_remainder_and_then_by_name():
    fair_shares = shares([BucketUse(bucket=bucket, rate=10) for bucket in (C, B, A)], 11)
    assert [share.fair for share in fair_shares] == [4, 4, 3]
    fair_shares = shares([BucketUse(bucket=A, rate=10), BucketUse(bucket=B, rate=10, weight=2)], 10)
    assert [share.fair for share in fair_shares] == [3, 7]


def test_sufficient_capacity_has_no_excess():
    assert [
        share.excess
        for share in shares([BucketUse(bucket=A, rate=3), BucketUse(bucket=B, rate=4)], 7)
    ] == [0, 0]
    assert shares([], 0) == ()


uses = st.dictionaries(
    st.integers(0, 30), st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=8
).map(
    lambda parameters: [
        BucketUse(bucket=bucket_of(f"u{n}"), rate=rate, weight=weight)
        for n, (rate, weight) in parameters.items()
    ]
)


@given(uses, st.integers(0, 3 * 10**6))
def test_excess_equals_the_overload_and_shares_differ_by_at_most_a_unit(bucket_uses, available):
    fair_shares = {share.bucket: share for share in shares(bucket_uses, available)}
    total = sum(use.rate for use in bucket_uses)
    assert sum(share.excess for share in fair_shares.values()) == max(0, total - available)
    if total <= available:
        return
    level = level_of(bucket_uses, available)
    for use in bucket_uses:
        share = fair_shares[use.bucket]
        assert share.fair + share.excess == use.rate
        assert abs(share.fair - min(use.rate, level * use.weight)) < 1


def level_of(bucket_uses, available) -> Fraction:
    """The level at which all parts add up to the budget, interpolated between two points."""
    low = Fraction(0)
    for high in sorted(Fraction(use.rate, use.weight) for use in bucket_uses):
        total = sum(min(use.rate, high * use.weight) for use in bucket_uses)
        if total >= available:
            open_ = sum(use.weight for use in bucket_uses if use.rate > low * use.weight)
            before = sum(min(use.rate, low * use.weight) for use in bucket_uses)
            return low + (available - before) / Fraction(open_)
        low = high
    raise AssertionError("the budget is enough for all")


@given(uses, st.integers(0, 3 * 10**6), st.randoms(use_true_random=False))
def test_the_order_of_the_uses_does_not_matter(bucket_uses, available, chance):
    shuffled = list(bucket_uses)
    chance.shuffle(shuffled)
    assert shares(shuffled, available) == shares(bucket_uses, available)


@pytest.mark.parametrize(("rate", "weight"), [(-1, 1), (1, 0)])
def test_an_impossible_use_is_rejected(rate, weight):
    with pytest.raises(QuotaValueError, match="weight"):
        BucketUse(bucket=A, rate=rate, weight=weight)


def test_a_bucket_has_one_share():
    for wrong in ([BucketUse(bucket=A, rate=1)] * 2, []):
        with pytest.raises(QuotaValueError, match="one share"):
            shares(wrong, -1 if not wrong else 1)
