"""A certificate's subject in the form of Kafka's principal: Java's RFC 2253 form. Pure."""

from collections.abc import Sequence
from typing import Any, Final

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Keywords of RFC 2253 by OpenSSL's long names; Java writes other attributes by their OIDs."""

_SPECIAL: Final = frozenset(',+"\\<>;=')


def distinguished_name(subject: Sequence[Sequence[tuple[str, Any]]]) -> str:
    """Return the subject of ``SSLSocket.getpeercert``, most specific part first, as ``CN=alice,O=Acme``."""
    return ",".join(
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(str(value))}" for kind, value in part)
        for part in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text
