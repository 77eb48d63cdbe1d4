"""How brokers and exporters write names into labels, and back: percent-encoded users, quoted client ids, addresses."""

import ipaddress
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

_USER: Final = re.compile(r"(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})*", re.ASCII)
"""What Sanitizer.sanitize can give: URLEncoder's alphabet, with ``*`` and blanks encoded, too."""

_PLAIN_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9_%. \t-]*", re.ASCII)
"""What Sanitizer.jmxSanitize leaves without quotes; everything else is quoted by ObjectName.quote."""

_QUOTED: Final = re.compile(r'"((?:[^"*?\\\n]|\\["*?\\n])*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def percent_decoded(text: str) -> str | None:
    """The user that Kafka encoded (``Sanitizer.sanitize``); ``None`` = it cannot have come from there.

    Kafka encodes UTF-8 byte by byte and has one spelling for each name. Another spelling, or what is no UTF-8, was
    never made by it.
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
    """The client id behind a JMX property value (``ObjectName.quote``); ``None`` = it cannot be one.

    Kafka quotes exactly the ids that have something special in them. A special character outside of quotes
    was therefore cut out of a longer value by a greedy rule of an exporter: ``y"`` from ``"x, client-id=y"``.
    """
    if _PLAIN_CLIENT_ID.fullmatch(text):
        return text
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    name = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[1])
    return None if _PLAIN_CLIENT_ID.fullmatch(name) else name


def address(text: str) -> str | None:
    """An ip in its canonical spelling, JMX quotes taken off; ``None`` = it is none."""
    plain = unquoted(text)
    try:
        return str(ipaddress.ip_address(plain if plain is not None else text))
    except ValueError:
        return None


def as_it_is(text: str) -> str | None:
    """The name itself."""
    return text


DECODERS: Final[dict[str, Callable[[str], str | None]]] = {
    "percent": percent_decoded,
    "object_name": unquoted,
    "address": address,
    "plain": as_it_is,
}
"""Decoders by the name that a dialect gives them; each answers ``None`` for what cannot be right."""
