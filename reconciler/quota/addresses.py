"""Addresses of ip entities as brokers read them. Kafka stores ip names verbatim, but brokers apply them to the address."""

import ipaddress
import re
from typing import Final

_IPV4: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10}){0,3}")


def canonical_address(text: str) -> str | None:
    """Return the canonical text of an address, IPv4-mapped addresses as IPv4; ``None`` if it is not a literal.

    Brackets and short IPv4 forms (``10.1`` is 10.0.0.1) are parsed as in Java (java.net.InetAddress.getByName):
    the last number fills all remaining bytes. A scope (``fe80::1%eth0``) is ignored, as in Inet6Address.equals.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(_joined_ipv4(bare))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.IPv6Address(int(address)))


def _joined_ipv4(text: str) -> str | int:
    """Convert one to four decimal numbers to the IPv4 address that Java parses (leading zeros allowed); else return the text."""
    if not _IPV4.fullmatch(text):
        return text
    *leading, last = (int(number) for number in text.split("."))
    remaining_bytes = 4 - len(leading)
    if max(leading, default=0) > 255 or last >= 256**remaining_bytes:
        return text
    return last + sum(number << 8 * (3 - at) for at, number in enumerate(leading))
