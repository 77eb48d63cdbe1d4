"""Java's hash order, against lists that a JVM printed."""

import pytest

from reconciler.sandbox.broker_rules.hash_order import hash_ordered


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
