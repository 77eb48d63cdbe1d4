"""Prefixes of ip names as ranges of addresses: two prefixes may cover one address by different spellings of it.

``010.`` and ``10.`` are the beginnings of two names of one address, and so are ``2001:DB8::`` and ``2001:db8:0:``.
Left out are names by which usual prefixes of different networks would meet: short forms of IPv4 (``10.1`` is 10.0.0.1,
and ``192.168.1000`` begins with ``192.168.1`` but is 192.168.3.232), and zeros before a number if the prefix ends with
the first of them (``192.168.01.5`` begins with ``192.168.0``).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

AddressRange: TypeAlias = tuple[int, int]
"""First and last address, as numbers of IPv6; an IPv4 address is the IPv6 address to which it is mapped."""

_IPV4_IN_IPV6: Final = 0xFFFF << 32
_IPV4: Final = re.compile(r"([0-9]+\.){0,3}[0-9]*")
_IPV6: Final = re.compile(r"[0-9a-f:.]*")
_GROUPS: Final = 8
_GROUP_BITS: Final = 16
_GROUP_DIGITS: Final = 4
_BYTES: Final = 4


def prefixes_meet(first: str, second: str) -> bool:
    """Whether two prefixes cover one name, or two names of one address."""
    if first.startswith(second) or second.startswith(first):
        return True
    ranges = tuple(_address_ranges(second))
    return any(
        start <= last and first_address <= end
        for start, end in _address_ranges(first)
        for first_address, last in ranges
    )


def _address_ranges(prefix: str) -> Iterator[AddressRange]:
    """Yield the ranges of addresses that have a name with this beginning."""
    text = prefix.removeprefix("[").partition("%")[0].partition("]")[0].lower()
    for start, end in _ipv4_ranges(text):
        yield _IPV4_IN_IPV6 + start, _IPV4_IN_IPV6 + end
    if _IPV6.fullmatch(text):
        yield from _ipv6_ranges("::" if text == ":" else text)


def _ipv4_ranges(text: str) -> Iterator[AddressRange]:
    if not _IPV4.fullmatch(text):
        return
    *leading, last = text.split(".")
    values = [int(number) for number in leading]
    if max(values, default=0) > 255:
        return
    bits = 8 * (_BYTES - 1 - len(values))
    start = int.from_bytes(bytes(values))
    number = last.lstrip("0") if last != "0" else last
    for low, high in _number_ranges(number, base=10, digits=3, most=255):
        yield ((start << 8) + low) << bits, (((start << 8) + high + 1) << bits) - 1


def _ipv6_ranges(text: str) -> Iterator[AddressRange]:
    head, zeros, tail = text.partition("::")
    if not zeros:
        *groups, last = head.split(":")
        yield from _ranges_after(groups, last)
        return
    before = head.split(":") if head else []
    *after, last = tail.split(":")
    for count in range(1, _GROUPS - len(before) - len(after) + 1):
        yield from _ranges_after([*before, *["0"] * count, *after], last)


def _ranges_after(groups: Sequence[str], last: str) -> Iterator[AddressRange]:
    """Yield the ranges of addresses with these complete groups, whose next part begins with a text."""
    if not all(0 < len(group) <= _GROUP_DIGITS and "." not in group for group in groups):
        return
    start = int("0" + "".join(group.rjust(_GROUP_DIGITS, "0") for group in groups), 16)
    remaining = _GROUPS - len(groups)
    if remaining == 2:  # The address may end as one of IPv4.
        for low, high in _ipv4_ranges(last):
            yield (start << 32) + low, (start << 32) + high
    if remaining == 0 and not last:
        yield start, start
    if remaining < 1 or len(last) > _GROUP_DIGITS or "." in last:
        return
    bits = _GROUP_BITS * (remaining - 1)
    for low, high in _number_ranges(last, base=16, digits=_GROUP_DIGITS, most=0xFFFF):
        group = start << _GROUP_BITS
        yield (group + low) << bits, ((group + high + 1) << bits) - 1


def _number_ranges(text: str, *, base: int, digits: int, most: int) -> Iterator[AddressRange]:
    """Yield the ranges of numbers up to ``most`` whose digits, leading zeros included, begin with a text."""
    start = int(text, base) if text else 0
    most_more = 0 if text == "0" else max(digits - len(text), 0)
    for more in range(most_more + 1):
        low, high = start * base**more, (start + 1) * base**more - 1
        if low <= most:
            yield low, min(high, most)
