"""Tests of texts for recorded use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.use.units import (
    bucket_text,
    length_text,
    share_text,
)
from reconciler.usage.tags import bucket_of


@given(st.integers(0, 10**10), st.integers(0, 10**10))
def test_compared_durations_have_equal_texts_only_if_they_are_equal(
    first: int, second: int
) -> None:
    same = length_text(first, unlike=second) == length_text(second, unlike=first)
    assert same == (first == second)


def test_a_small_share_is_never_shown_as_zero() -> None:
    assert [share_text(ppm) for ppm in (None, 0, 1, 100, 12_500, 125_000, 1_000_000)] == [
        "-",
        "0 %",
        "< 0.01 %",
        "0.01 %",
        "1.2 %",
        "12 %",
        "100 %",
    ]


@pytest.mark.parametrize(
    ("ppm", "text"),
    [
        (996_000, "99.6 %"),
        (997_999, "99.7 %"),
        (999_999, "99.9 %"),
        (990_000, "99 %"),
        (989_999, "98 %"),
        (1_004_000, "100.4 %"),
        (1_015_000, "101 %"),
        (2_400_000, "240 %"),
        (99_999, "9.9 %"),
        (1_999, "0.19 %"),
        (-50_000, "-5 %"),
    ],
)
def test_a_share_is_rounded_down_so_that_only_everything_is_100_percent(
    ppm: int, text: str
) -> None:
    assert share_text(ppm) == text


@given(st.integers(0, 10**7))
def test_the_text_of_a_share_never_exceeds_its_value(ppm: int) -> None:
    if ppm >= 100:
        assert float(share_text(ppm).removesuffix(" %")) * 10_000 <= ppm + 1e-6


def test_names_that_resemble_others_are_quoted() -> None:
    assert (
        bucket_text(bucket_of("alice", 'x",user="admin'))
        == 'user=alice,client-id="x\\",user=\\"admin"'
    )
    assert bucket_text(bucket_of("<default>")) == 'user="<default>"'
    assert bucket_text(bucket_of("alice", ""), any_name=True) == "user=alice"
    assert bucket_text(bucket_of()) == "clients without a client id"
    assert bucket_text(bucket_of(ip="10.0.0.1")) == "ip=10.0.0.1"
