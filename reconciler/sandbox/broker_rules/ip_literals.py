"""Texts that Kafka accepts as an address: the literals of ``InetAddress.getByName``, and names worth a lookup. Pure.

Source: responses of the brokers of 3.4.1 to 4.4.0 on Java 17 (``ClientQuotaControlManager.isValidIpEntity`` calls
``InetAddress.getByName``). Java reads one to four decimal numbers as IPv4, the last one filling the rest of the
address, ignoring leading zeros; IPv6 may be in brackets, IPv4 may not.
"""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final

LOCAL_NAMES: Final = frozenset({"localhost"})
"""Names that every machine resolves itself."""

NEVER_RESOLVED: Final = (".invalid",)
"""RFC 6761: no resolver may resolve a name under these, so no lookup is needed."""

_LAST_LIMIT: Final = {1: 2**32, 2: 2**24, 3: 2**16, 4: 2**8}
"""Limit of the last of n numbers, exclusive."""

_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_MAX_HOST_NAME: Final = 253
_NUMBER_LIKE: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
"""A last label that C's resolver reads as part of an address, and Java's does not."""

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
_SCOPE: Final = re.compile(r"[0-9]+")


def is_literal(text: str) -> bool:
    """Whether Java reads ``text`` as an address without a look-up."""
    if text.startswith("["):
        return text.endswith("]") and _is_ipv6(text[1:-1])
    return _is_ipv4(text) or _is_ipv6(text)


def may_be_name(text: str) -> bool:
    """Whether ``text`` could be a host name, so that a lookup makes sense.

    Anything else (blanks, CIDR, a port, an asterisk) also fails in Java's resolver.
    """
    return (
        len(text) <= _MAX_HOST_NAME
        and _HOST_NAME.fullmatch(text) is not None
        and not is_literal(text)
        and _NUMBER_LIKE.fullmatch(text.rstrip(".").rpartition(".")[2]) is None
        and not text.rstrip(".").lower().endswith(NEVER_RESOLVED)
    )


def is_scoped_by_name(text: str) -> bool:
    """Whether ``text`` is an IPv6 address with the name of an interface: Java accepts one that the machine has."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    address, percent, scope = bare.partition("%")
    return bool(percent and scope) and _SCOPE.fullmatch(scope) is None and _is_ipv6(address)


def _is_ipv4(text: str) -> bool:
    numbers = text.split(".")
    limit = _LAST_LIMIT.get(len(numbers))
    if limit is None or len(text) > 15 or not all(map(_NUMBER.fullmatch, numbers)):
        return False
    *first, last = map(int, numbers)
    return last < limit and all(number < 256 for number in first)


def _is_ipv6(text: str) -> bool:
    """Whether ``ipaddress`` or Java reads the text as IPv6.

    Java allows leading zeros in groups and in an embedded IPv4 address, and a numeric scope; the name of an interface
    is looked up on the machine (:func:`is_scoped_by_name`), so it is not a literal.
    """
    address, percent, scope = text.partition("%")
    if ":" not in address or (percent and _SCOPE.fullmatch(scope) is None):
        return False
    try:
        IPv6Address(_LEADING_ZEROS.sub("", address) if "." in address else _strip_zeros(address))
    except AddressValueError:
        return False
    return True


def _strip_zeros(address: str) -> str:
    return ":".join(group.lstrip("0") or "0" if group else "" for group in address.split(":"))
