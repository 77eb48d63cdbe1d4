"""Values of quotas in words: exact numbers, and the unit in which they are round."""

import math

import pytest

from reconciler.quota.keys import Key
from reconciler.quota.quantities import byte_rate, limit, number, quantity

RATE, SHARE, MUTATIONS = (
    Key.PRODUCER_BYTE_RATE,
    Key.REQUEST_PERCENTAGE,
    Key.CONTROLLER_MUTATION_RATE,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (2.0**63, "9223372036854775807"), (10.0, "10"), (10, "10"), (0.5, "0.5"),
        (1e22, "1e+22"), (math.inf, "inf"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_the_exact_number_of_a_value(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10485760.0, "10 MiB/s"), (20_000_000.0, "20 MB/s"), (9999.0, "≈ 9.76 KiB/s"),
        (1023.9 * 1024, "≈ 1024 KiB/s"), (7.0, "7 B/s"), (math.inf, "inf B/s"),
    ],
)  # fmt: skip
def test_a_rate_has_the_unit_in_which_it_is_round(value, text):
    assert byte_rate(value) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (RATE, None, "no limit"), (RATE, 2.0**63, "2^63, the maximum"), (RATE, 1024.0, "1 KiB/s"),
        (SHARE, 50.5, "50.5 %"), (MUTATIONS, 10.0, "10/s"),
    ],
)  # fmt: skip
def test_a_quantity_has_the_unit_of_its_key(key, value, text):
    assert quantity(key, value) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (RATE, None, "-"), (RATE, 1e9, "1000000000 (1 GB/s)"), (RATE, 99.0, "99 B/s"),
        (SHARE, 50.5, "50.5 %"),
    ],
)  # fmt: skip
def test_a_limit_has_its_exact_number_and_its_unit(key, value, text):
    assert limit(key, value) == text
