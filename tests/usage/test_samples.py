"""Units: rates and limits as whole numbers, and values that are not numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.keys import Key
from reconciler.usage.samples import (
    KEY_OF,
    MAX_UNITS,
    TYPE_OF,
    QuotaType,
    ValueState,
    half_up,
    in_kafka_units,
    limit_state,
    limit_units,
)
from tests.usage.reference import rate_units


def test_each_key_has_its_quota_type():
    assert set(TYPE_OF) == set(Key)
    assert {KEY_OF[TYPE_OF[key]] for key in Key} == set(Key)


@pytest.mark.parametrize(
    ("kind", "value", "units"),
    [
        (QuotaType.PRODUCE, 1_048_576.0, 1_048_576),
        (QuotaType.PRODUCE, 1_000_000.0000005, 1_000_000),
        (QuotaType.FETCH, 2.5, 3),
        (QuotaType.REQUEST, 12.5, 12_500_000),
        (QuotaType.CONTROLLER_MUTATION, 1e-9, 1),
        (QuotaType.IP, 10.0, 10_000_000),
        (QuotaType.PRODUCE, 9_999_999_999_999.0, MAX_UNITS - 1),
        (QuotaType.PRODUCE, 1e13, None),
        (QuotaType.PRODUCE, 2.0**63, None),
        (QuotaType.REQUEST, 1e7, None),
        (QuotaType.IP, 2_147_483_647.0, None),
        (QuotaType.PRODUCE, math.inf, None),
        (QuotaType.PRODUCE, None, None),
    ],
)
def test_a_limit_is_a_whole_number_above_zero(kind, value, units):
    assert limit_units(kind, value) == units


@pytest.mark.parametrize("value", [math.nan, 0.0, -1.0, -math.inf])
def test_a_limit_that_cannot_be_computed_is_refused(value):
    assert limit_state(QuotaType.PRODUCE, value) is ValueState.INVALID
    with pytest.raises(QuotaValueError, match="producer_byte_rate"):
        limit_units(QuotaType.PRODUCE, value)


@pytest.mark.parametrize(
    ("rate", "units"),
    [(0.4, 0), (0.5, 1), (1.5, 2), (2.5, 3), (-7.0, 0), (math.inf, MAX_UNITS), (1e20, MAX_UNITS)],
)
def test_a_rate_is_rounded_half_up_and_limited(rate, units):
    assert rate_units(QuotaType.FETCH, rate) == units


def test_nan_is_not_a_rate():
    assert rate_units(QuotaType.FETCH, math.nan) is None


@given(st.sampled_from(QuotaType), st.integers(1, MAX_UNITS - 1))
def test_units_are_converted_to_kafka_and_back(kind, units):
    assert limit_units(kind, in_kafka_units(kind, units)) == units


@given(st.floats(0, 1e13))
def test_halves_are_rounded_up_in_float64(value):
    assert abs(half_up(value) - value) <= 0.5 + value * 2**-52
