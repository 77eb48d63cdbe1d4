"""The canonical text of an address in any spelling, as Java reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.addresses import canonical_address


@pytest.mark.parametrize(
    ("spelling", "address"),
    [
        # Results of java.net.InetAddress.getByName on Java 17.
        ("10.0.0.1", "10.0.0.1"),
        ("010.0.0.1", "10.0.0.1"),
        ("10.0.0.01", "10.0.0.1"),
        ("10.1", "10.0.0.1"),
        ("10.0.1", "10.0.0.1"),
        ("167772161", "10.0.0.1"),
        ("1", "0.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("::1%lo", "::1"),
        ("fe80::1%2", "fe80::1"),
    ],
)
def test_every_spelling_of_an_address_has_one_canonical_text(spelling, address):
    assert canonical_address(spelling) == address


@pytest.mark.parametrize(
    "name",
    [
        "",
        "localhost",
        "10.0.0.256",
        "256.1",
        "10.16777216",
        "4294967296",
        "1.2.3.4.5",
        "10.0.0.0/8",
        " 10.0.0.1",
    ],
)
def test_a_text_that_is_not_a_literal_address_has_no_canonical_text(name):
    assert canonical_address(name) is None


@given(st.ip_addresses(v=4), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_leading_zeros_do_not_change_an_address(address, zeros):
    numbers = str(address).split(".")
    padded = ".".join("0" * more + number for more, number in zip(zeros, numbers, strict=True))
    assert canonical_address(padded) == str(address)


@given(st.ip_addresses(v=6))
def test_long_and_short_spellings_of_an_ipv6_address_are_equal(address):
    assert canonical_address(address.exploded) == canonical_address(str(address))
