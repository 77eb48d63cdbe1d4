"""Addresses as Java reads them, without a name server."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sandbox.broker_rules.ip_literals import is_literal, may_be_name
from tests.contract.expectations import RESOLVED, SCOPED, UNRESOLVED


@pytest.mark.parametrize("text", [text for text in RESOLVED if text not in ("localhost", *SCOPED)])
def test_texts_that_brokers_accept_without_a_resolver_are_literals(text: str) -> None:
    assert is_literal(text)
    assert not may_be_name(text)


@pytest.mark.parametrize("text", UNRESOLVED)
def test_texts_that_brokers_refuse_are_neither_literals_nor_possible_names(text: str) -> None:
    assert not is_literal(text)
    assert not may_be_name(text) or text == "-"


@pytest.mark.parametrize("text", ["localhost", "broker-1.example.com", "broker_1", "example.com."])
def test_host_names_are_possible_names(text: str) -> None:
    assert may_be_name(text)
    assert not is_literal(text)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_every_ipv4_address_is_a_literal_in_all_its_spellings(number: int) -> None:
    a, b, c, d = IPv4Address(number).packed
    for text in (
        f"{a}.{b}.{c}.{d}",
        f"{a}.{b}.{c * 256 + d}",
        f"{a}.{(b << 16) + (c << 8) + d}",
        f"{number}",
        f"::ffff:{a}.{b}.{c}.{d}",
    ):
        assert is_literal(text), text


@given(st.integers(min_value=0, max_value=2**128 - 1))
def test_every_ipv6_address_is_a_literal_in_brackets_or_not(number: int) -> None:
    address = IPv6Address(number)
    for text in (address.compressed, address.exploded, str(address).upper()):
        assert is_literal(text), text
        assert is_literal(f"[{text}]"), text


@given(st.text(max_size=20))
def test_any_text_is_classified(text: str) -> None:
    assert not (is_literal(text) and may_be_name(text))
