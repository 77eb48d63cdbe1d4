"""Java's hash order, against lists that a JVM printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sandbox.broker_rules.hash_order import hash_ordered, string_hash


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("zz", 3904),
        ("producer_byte_rate", -832502454),
        ("consumer_byte_rate", -1805480786),
        ("request_percentage", -965904822),
        ("controller_mutation_rate", -748852909),
        ("connection_creation_rate", -1714422113),
        ("Aa", 2112),
        ("BB", 2112),
    ],
)
def test_hash_codes_equal_those_of_java(text: str, code: int) -> None:
    assert string_hash(text) == code % 2**32


@pytest.mark.parametrize(
    ("capacity", "put", "walked"),
    [
        (
            2,
            "\xe9\U0001f389|zz|producer_byte_rate|client-id|controller_mutation_rate",
            "\xe9\U0001f389|zz|producer_byte_rate|client-id|controller_mutation_rate",
        ),
        (
            4,
            "producer_byte_rate|controller_mutation_rate|consumer_byte_rate",
            "consumer_byte_rate|controller_mutation_rate|producer_byte_rate",
        ),
        (
            10,
            "controller_mutation_rate|a|BB|producer_byte_rate|zz|yy",
            "BB|zz|yy|a|producer_byte_rate|controller_mutation_rate",
        ),
        (16, "user|request_percentage|b|yy|client-id", "yy|b|request_percentage|client-id|user"),
        (
            11,
            "controller_mutation_rate|a|zz|\xe9\U0001f389|producer_byte_rate|BB",
            "zz|BB|a|\xe9\U0001f389|producer_byte_rate|controller_mutation_rate",
        ),
        (
            10,
            "request_percentage|connection_creation_rate|Aa|b|client-id",
            "connection_creation_rate|Aa|b|request_percentage|client-id",
        ),
        (
            8,
            "zz|controller_mutation_rate|BB|ip|user|producer_byte_rate|b",
            "zz|BB|b|ip|producer_byte_rate|user|controller_mutation_rate",
        ),
        (16, "client-id|controller_mutation_rate|b|Aa", "Aa|b|client-id|controller_mutation_rate"),
        (
            11,
            "request_percentage|user|connection_creation_rate|a|BB|client-id|consumer_byte_rate",
            "connection_creation_rate|BB|a|request_percentage|client-id|consumer_byte_rate|user",
        ),
        (
            9,
            "controller_mutation_rate|yy|a|connection_creation_rate|BB|user",
            "yy|connection_creation_rate|BB|a|user|controller_mutation_rate",
        ),
    ],
)
def test_maps_are_iterated_in_the_order_of_a_jvm(capacity: int, put: str, walked: str) -> None:
    assert hash_ordered(put.split("|"), capacity=capacity) == walked.split("|")


@given(st.lists(st.text()), st.integers(min_value=0, max_value=40))
def test_every_key_is_iterated_once(keys: list[str], capacity: int) -> None:
    walked = hash_ordered(keys, capacity=capacity)
    assert len(walked) == len(set(keys))
    assert set(walked) == set(keys)


@given(st.lists(st.text(), max_size=12), st.integers(min_value=0, max_value=40))
def test_the_order_is_idempotent(keys: list[str], capacity: int) -> None:
    walked = hash_ordered(keys, capacity=capacity)
    assert hash_ordered(walked, capacity=capacity) == walked
