"""Rounded numbers always come with the exact number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota import keys as quantities
from reconciler.quota.keys import Key
from reconciler.render import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10 * 2**20, "10 MiB/s"),
        (20_000_000, "20 MB/s"),
        (1.5 * 2**20, "1.5 MiB/s"),
        (1024, "1 KiB/s"),
        (1000, "1 kB/s"),
        (999.7 * 1024, "≈ 1000 KiB/s"),
        (999, "999 B/s"),
        (10_000_001, "≈ 9.54 MiB/s"),
        (2**40, "1 TiB/s"),
        (1_073_741_825, "≈ 1 GiB/s"),
        (1_073_000_001, "≈ 1023 MiB/s"),
    ],
)
def test_byte_rates_are_shown_in_the_unit_in_which_they_are_round(value, text):
    assert units.byte_rate(float(value)) == text


@given(st.floats(min_value=1, max_value=2**63))
def test_a_byte_rate_without_a_rounding_mark_is_exact(value):
    text = units.byte_rate(value)
    if not text.startswith("≈"):
        amount, _, unit = text.partition(" ")
        sizes = {"B/s": 1, **dict(quantities.BINARY), **dict(quantities.DECIMAL)}
        assert float(amount) * sizes[unit] == value


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (Key.PRODUCER_BYTE_RATE, 10485760.0, "10485760 (10 MiB/s)"),
        (Key.PRODUCER_BYTE_RATE, None, "-"),
        (Key.CONSUMER_BYTE_RATE, 2.0**63, "9223372036854775807 (2^63, the maximum)"),
        (Key.REQUEST_PERCENTAGE, 50.5, "50.5 %"),
        (Key.CONTROLLER_MUTATION_RATE, 10.0, "10/s"),
        (Key.CONNECTION_CREATION_RATE, 3.0, "3/s"),
    ],
)
def test_a_limit_shows_the_exact_number_and_the_readable_one(key, value, text):
    assert units.limit(key, value) == text


def test_ages_and_instants_are_formatted():
    assert [units.age(s) for s in (-5, 40, 300, 7200, 200_000)] == [
        "0 s",
        "40 s",
        "5 min",
        "2 h",
        "2 d",
    ]
    assert units.instant(1_700_000_000.0) == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("key", Key)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -5.0, 0.0, 1e308])
def test_a_value_that_is_invalid_in_a_manifest_is_shown(key: Key, value: float) -> None:
    assert repr(value) in units.limit(key, value) or units.number(value) in units.limit(key, value)
    assert units.quantity(key, value)


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (5e6, 10 * 2.0**20, ("≈ 4.77 MiB/s", "10 MiB/s")),
        (5e6, 2e7, ("5 MB/s", "20 MB/s")),
        (2.0**19, 10 * 2.0**20, ("0.5 MiB/s", "10 MiB/s")),
        (2.0**20, 1024.0, ("1 MiB/s", "1 KiB/s")),
        (None, 2e7, ("no limit", "20 MB/s")),
        (2.0**63, 2e7, ("2^63, the maximum", "20 MB/s")),
        (math.nan, 5.0, ("nan B/s", "5 B/s")),
        (0.0, 5.0, ("0 B/s", "5 B/s")),
    ],
)
def test_two_values_of_a_key_have_the_same_unit(before, after, texts):
    assert units.quantities(Key.PRODUCER_BYTE_RATE, before, after) == texts


def test_values_without_bytes_have_the_unit_of_their_key():
    assert units.quantities(Key.REQUEST_PERCENTAGE, 50.5, None) == ("50.5 %", "no limit")
