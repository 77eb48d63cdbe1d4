"""Decodes names in labels as Kafka and exporters write them: percent-encoded users, quoted client ids, addresses."""

import ipaddress
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

_USER: Final = re.compile(r"(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})*", re.ASCII)
"""Output of Sanitizer.sanitize: the alphabet of URLEncoder, but ``*`` and spaces are percent-encoded."""

_PLAIN_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9_%. \t-]*", re.ASCII)
"""Client ids that Sanitizer.jmxSanitize does not quote; all others are quoted with ObjectName.quote."""

_QUOTED: Final = re.compile(r'"((?:[^"*?\\\n]|\\["*?\\n])*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def percent_decoded(text: str) -> str | None:
    """Decode a user encoded by Kafka (``Sanitizer.sanitize``); return ``None`` if Kafka cannot have written it.

    Kafka encodes UTF-8 bytes and has one encoding for each name. Other encodings and invalid UTF-8 are rejected.
    """
    if not _USER.fullmatch(text):
        return None
    if "%" not in text:
        return text
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    return decoded if quote(decoded, safe="").replace("~", "%7E") == text else None


def unquoted(text: str) -> str | None:
    """Decode a client id in a JMX property value (``ObjectName.quote``); return ``None`` if it is invalid.

    Kafka quotes only ids with special characters. A special character without quotes means that a greedy exporter rule
    cut it out of a longer value: ``y"`` from ``"x, client-id=y"``.
    """
    if _PLAIN_CLIENT_ID.fullmatch(text):
        return text
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    name = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[1])
    return None if _PLAIN_CLIENT_ID.fullmatch(name) else name


def address(text: str) -> str | None:
    """Return an ip in canonical form, without JMX quotes; ``None`` if it is invalid."""
    plain = unquoted(text)
    try:
        return str(ipaddress.ip_address(plain if plain is not None else text))
    except ValueError:
        return None


def as_it_is(text: str) -> str | None:
    """Return the text unchanged."""
    return text


DECODERS: Final[dict[str, Callable[[str], str | None]]] = {
    "percent": percent_decoded,
    "object_name": unquoted,
    "address": address,
    "plain": as_it_is,
}
"""Decoders by their name in a dialect; each returns ``None`` for invalid text."""
