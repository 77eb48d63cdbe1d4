"""Prefixes of ip names meet if they cover two names of one address; those of usual IPv4 names as texts do."""

import ipaddress
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.inventory.address_prefixes import prefixes_meet
from reconciler.quota.entity import canonical_address

FIRST_ZERO = re.compile(r"(^|[.:[])0$")
"""The end of a prefix that counts as the number zero, although other digits may follow in a name."""


def ipv4_name(number: int, random: Random) -> str:
    numbers = str(ipaddress.IPv4Address(number)).split(".")
    return ".".join("0" * random.randrange(3) + text for text in numbers)


def ipv6_name(number: int, random: Random) -> str:
    """Return one of the names of an address: zeros left out or not, IPv4 at its end, upper case, brackets."""
    groups = [f"{number >> 16 * (7 - place) & 0xFFFF:x}" for place in range(8)]
    groups = [group.zfill(random.choice((1, len(group), 4))) for group in groups]
    if random.random() < 0.3:
        groups[6:] = [str(ipaddress.IPv4Address(number & 0xFFFFFFFF))]
    zeros = [place for place, group in enumerate(groups) if not group.strip("0")]
    text = ":".join(groups)
    if zeros and random.random() < 0.7:
        first = end = random.choice(zeros)
        while end + 1 in zeros and random.random() < 0.7:
            end += 1
        text = f"{':'.join(groups[:first])}::{':'.join(groups[end + 1 :])}"
    text = text.upper() if random.random() < 0.3 else text
    return random.choice((text, f"[{text}]", f"{text}%eth0"))


def names_of(number: int, random: Random) -> str:
    is_ipv4 = number >> 32 == 0xFFFF
    if is_ipv4 and random.random() < 0.5:
        return ipv4_name(number & 0xFFFFFFFF, random)
    return ipv6_name(number, random)


NUMBERS = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda number: (0xFFFF << 32) + number),
    st.integers(0, 2**128 - 1),
    st.lists(st.sampled_from([0, 1, 0xA, 0xFE80, 0xFFFF]), min_size=8, max_size=8).map(
        lambda groups: int("".join(f"{group:04x}" for group in groups), 16)
    ),
)


@given(NUMBERS, st.randoms(use_true_random=False))
def test_beginnings_of_two_names_of_one_address_meet(number, random):
    first, second = names_of(number, random), names_of(number, random)
    assert canonical_address(first) == canonical_address(second) is not None
    prefixes = [name[: random.randrange(len(name) + 1)] for name in (first, second)]
    if not any(map(FIRST_ZERO.search, prefixes)):
        assert prefixes_meet(*prefixes)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 15), st.integers(0, 15))
def test_beginnings_of_usual_ipv4_names_meet_as_texts_do(first, second, length, second_length):
    prefix = str(ipaddress.IPv4Address(first))[:length]
    second_prefix = str(ipaddress.IPv4Address(second))[:second_length]
    is_same = prefix.startswith(second_prefix) or second_prefix.startswith(prefix)
    begins_ipv6 = "0" in (
        prefix,
        second_prefix,
    )  # 0:0:0:0:0:ffff: is the beginning of every address
    assert prefixes_meet(prefix, second_prefix) == (is_same or begins_ipv6)


@given(NUMBERS, NUMBERS)
def test_full_names_of_two_addresses_do_not_meet(first, second):
    names = [ipaddress.IPv6Address(number).exploded for number in (first, second)]
    assert prefixes_meet(*names) == (first == second)


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ("010.", "10.", True),
        ("::ffff:10.", "10.", True),
        ("::ffff:a00:", "10.0.", True),
        ("0:0:0:0:0:ffff:10", "16.", True),
        ("2001:DB8::", "2001:db8:0:", True),
        ("[::", "0:", True),
        (":", "0:", True),
        ("10.", "11.", False),
        ("10.3", "10.4", False),
        ("256.", "10.", False),
        ("fe8:", "fe80", False),
        ("a", "b", False),
        ("1:2:3:4:5:6:7::%eth0", "1:2:3:4:5:6:7:0", True),
        ("00000:", "1", False),
        ("1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8", True),
        ("1:2:3:4:5:6:7:8:9", "1:02", False),
        ("1::2::", "1:0", False),
        ("host-a", "host-b", False),
        ("192.168.0", "192.168.1", False),
        ("192.168.00", "192.168.1", True),
        ("2001:db8:0", "2001:db8:1", False),
        ("feed.example", "feed::", False),
        ("", "host", True),
    ],
)
def test_prefixes_meet_by_their_addresses(first, second, meet):
    assert prefixes_meet(first, second) is meet
    assert prefixes_meet(second, first) is meet
