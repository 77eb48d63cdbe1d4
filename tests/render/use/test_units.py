"""Tests of texts for recorded use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.use.units import (
    bucket_text,
    length_text,
    per_day_text,
    share_text,
    source_text,
)
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tags import bucket_of


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_000, "1 min 1 s"),
        (7_500_000, "2 h 5 min"),
        (2 * DAY_MS + 5_000, "2 d"),
        (1_000 * DAY_MS, "1,000 d"),
    ],
)
def test_a_duration_has_at_most_two_parts(length_ms: int | None, text: str) -> None:
    assert length_text(length_ms) == text


@given(st.integers(1, 9_999))
def test_a_delay_of_a_few_seconds_is_shown_to_a_tenth(length_ms: int) -> None:
    amount, unit = length_text(length_ms).split()
    shown_ms = round(float(amount) * {"ms": 1, "s": 1_000}[unit])
    assert 0 <= length_ms - shown_ms < 100


@pytest.mark.parametrize(
    ("found_ms", "allowed_ms", "texts"),
    [
        (60_900, 60_000, ("1 min 900 ms", "1 min")),
        (2 * DAY_MS + 5_000, 2 * DAY_MS, ("2 d 5 s", "2 d")),
        (7_501_000, 7_500_000, ("2 h 5 min 1 s", "2 h 5 min")),
        (61_000, 60_000, ("1 min 1 s", "1 min")),
        (60_000, 60_000, ("1 min", "1 min")),
        (5, None, ("5 ms", "-")),
    ],
)
def test_two_different_durations_have_different_texts(found_ms, allowed_ms, texts) -> None:
    assert (
        length_text(found_ms, unlike=allowed_ms),
        length_text(allowed_ms, unlike=found_ms),
    ) == texts


@given(st.integers(0, 10**10), st.integers(0, 10**10))
def test_compared_durations_have_equal_texts_only_if_they_are_equal(
    first: int, second: int
) -> None:
    same = length_text(first, unlike=second) == length_text(second, unlike=first)
    assert same == (first == second)


def test_throttled_time_is_shown_per_day_of_evidence() -> None:
    assert per_day_text(14 * 60_000, 14 * DAY_MS) == "1 min a day"
    assert per_day_text(1, 14 * DAY_MS) == "1 ms a day"
    assert per_day_text(5, 0) == "-"
    assert per_day_text(270_000, 300_000) == "4 min 30 s of the 5 min recorded"
    assert per_day_text(3_600_000, DAY_MS // 2) == "2 h a day"


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


def test_the_source_of_a_limit_is_shown_as_an_entity() -> None:
    assert source_text('[["user","alice"],["client-id",null]]') == "user=alice,client-id=<default>"
    assert source_text("") == "no limit"
