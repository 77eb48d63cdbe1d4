"""Keys and their values: Kafka's range, the range of a manifest, and equal values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.keys import (
    CLIENT_KEYS,
    COLUMN_OF,
    COLUMNS,
    EPSILON,
    FIELDS,
    INT_MAX,
    IP_KEYS,
    LONG_MAX,
    RULES,
    Key,
    byte_rate,
    check_value,
    limit,
    number,
    quantity,
    read_key_columns,
    same_value,
    whole_if_near,
)

RATE, SHARE, CONNECTIONS = (
    Key.PRODUCER_BYTE_RATE,
    Key.REQUEST_PERCENTAGE,
    Key.CONNECTION_CREATION_RATE,
)
WHOLE = [key for key in Key if RULES[key].is_integer]
values = st.floats(min_value=1e-3, max_value=1e15) | st.integers(1, 10**6).map(float)


def test_every_key_has_one_column_one_rule_and_one_field():
    assert COLUMNS == tuple(Key) == tuple(RULES)
    assert [COLUMN_OF[key] for key in COLUMNS] == list(range(5))
    assert [FIELDS[rule.field] for rule in RULES.values()] == list(COLUMNS)
    assert [key for key in Key if RULES[key].on_ip] == [CONNECTIONS]
    assert [str(key) for key in WHOLE] == [
        "producer_byte_rate",
        "consumer_byte_rate",
        "connection_creation_rate",
    ]


def test_ip_entities_have_the_connection_rate_and_all_other_keys_belong_to_clients():
    assert IP_KEYS == (CONNECTIONS,)
    assert (*CLIENT_KEYS, *IP_KEYS) == COLUMNS


def test_a_stored_row_with_more_values_than_keys_is_refused():
    with pytest.raises(ValueError, match="values to unpack"):
        read_key_columns([1.0] * (len(COLUMNS) + 1))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (RATE, math.nan, "must be a finite number"),
        (SHARE, math.inf, "must be a finite number"),
        (SHARE, -math.inf, "must be a finite number"),
        (RATE, 10**400, "must be a finite number"),
        (RATE, 0, "greater than 0"),
        (RATE, -1, "greater than 0"),
        (SHARE, 0.0, "greater than 0"),
        (RATE, 1.5, "whole number"),
        (CONNECTIONS, 0.5, "whole number"),
        (RATE, 1e19, "maximum of 9223372036854775807"),
        (CONNECTIONS, INT_MAX + 1, "maximum of 2147483647"),
        (RATE, 2**53 + 1, "no exact float64; the nearest is 9007199254740992"),
        (SHARE, 2**53 + 1, "no exact float64"),
        (RATE, LONG_MAX - 1, "no exact float64"),
    ],
)
def test_values_that_are_invalid_in_a_manifest_are_refused(key, value, words):
    with pytest.raises(QuotaValueError, match=words):
        check_value(key, value)


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        (RATE, 1, 1.0),
        (RATE, 1024.0, 1024.0),
        (RATE, LONG_MAX, 2.0**63),
        (CONNECTIONS, INT_MAX, 2147483647.0),
        (SHARE, 0.5, 0.5),
        (SHARE, 1e300, 1e300),
        (Key.CONTROLLER_MUTATION_RATE, 250.25, 250.25),
    ],
)
def test_values_equal_those_that_kafka_stores(key, value, stored):
    assert check_value(key, value) == stored
    assert isinstance(check_value(key, value), float)


@given(st.sampled_from(Key), st.integers(1, INT_MAX))
def test_whole_numbers_are_legal_for_every_key(key, value):
    assert check_value(key, value) == value


@given(st.sampled_from(WHOLE), st.integers(1, 10**6), st.floats(-2e-6, 2e-6))
def test_an_integral_value_within_epsilon_of_a_whole_number_equals_it(key, number, off):
    value = number + off
    near = abs(value - number) <= EPSILON
    assert same_value(key, float(number), value) == same_value(key, value, float(number)) == near
    assert whole_if_near(value) == (number if near else value)


@given(st.sampled_from(Key), st.lists(values, min_size=3, max_size=3))
def test_equality_of_values_is_transitive(key, three):
    first, second, third = three
    if same_value(key, first, second) and same_value(key, second, third):
        assert same_value(key, first, third)


def test_other_keys_are_compared_exactly():
    assert not same_value(SHARE, 1.0, 1.000_000_1)
    assert same_value(SHARE, 50.5, 50.5)


def test_values_that_cannot_be_enforced_equal_only_themselves():
    for key in (RATE, SHARE):
        assert same_value(key, math.nan, math.nan)
        assert same_value(key, math.inf, math.inf)
        assert not same_value(key, math.nan, 1.0)
        assert not same_value(key, math.inf, 1.0)
        assert not same_value(key, math.nan, math.inf)


RATE, SHARE, MUTATIONS = (
    Key.PRODUCER_BYTE_RATE,
    Key.REQUEST_PERCENTAGE,
    Key.CONTROLLER_MUTATION_RATE,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (2.0**63, "9223372036854775807"),
        (10.0, "10"),
        (10, "10"),
        (0.5, "0.5"),
        (1e22, "1e+22"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_the_exact_number_of_a_value_is_returned(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10485760.0, "10 MiB/s"),
        (20_000_000.0, "20 MB/s"),
        (9999.0, "≈ 9.76 KiB/s"),
        (1023.9 * 1024, "≈ 1024 KiB/s"),
        (7.0, "7 B/s"),
        (math.inf, "inf B/s"),
    ],
)
def test_a_rate_is_shown_in_the_unit_in_which_it_is_round(value, text):
    assert byte_rate(value) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (RATE, None, "no limit"),
        (RATE, 2.0**63, "2^63, the maximum"),
        (RATE, 1024.0, "1 KiB/s"),
        (SHARE, 50.5, "50.5 %"),
        (MUTATIONS, 10.0, "10/s"),
    ],
)
def test_a_quantity_has_the_unit_of_its_key(key, value, text):
    assert quantity(key, value) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (RATE, None, "-"),
        (RATE, 1e9, "1000000000 (1 GB/s)"),
        (RATE, 99.0, "99 B/s"),
        (SHARE, 50.5, "50.5 %"),
    ],
)
def test_a_limit_is_shown_with_its_exact_number_and_its_unit(key, value, text):
    assert limit(key, value) == text
