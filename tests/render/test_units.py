"""Rounded numbers always come with the exact number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota import keys as quantities
from reconciler.quota.keys import Key
from reconciler.render import units


@given(st.floats(min_value=1, max_value=2**63))
def test_a_byte_rate_without_a_rounding_mark_is_exact(value):
    text = units.byte_rate(value)
    if not text.startswith("≈"):
        amount, _, unit = text.partition(" ")
        sizes = {"B/s": 1, **dict(quantities.BINARY), **dict(quantities.DECIMAL)}
        assert float(amount) * sizes[unit] == value


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
