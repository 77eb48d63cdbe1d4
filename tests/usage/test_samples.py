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


@pytest.mark.parametrize("value", [math.nan, 0.0, -1.0, -math.inf])
def test_a_limit_that_cannot_be_computed_is_refused(value):
    assert limit_state(QuotaType.PRODUCE, value) is ValueState.INVALID
    with pytest.raises(QuotaValueError, match="producer_byte_rate"):
        limit_units(QuotaType.PRODUCE, value)


def test_nan_is_not_a_rate():
    assert rate_units(QuotaType.FETCH, math.nan) is None


@given(st.sampled_from(QuotaType), st.integers(1, MAX_UNITS - 1))
def test_units_are_converted_to_kafka_and_back(kind, units):
    assert limit_units(kind, in_kafka_units(kind, units)) == units


@given(st.floats(0, 1e13))
def test_halves_are_rounded_up_in_float64(value):
    assert abs(half_up(value) - value) <= 0.5 + value * 2**-52
