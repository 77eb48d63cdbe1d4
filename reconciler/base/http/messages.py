"""A request, its response, the reason for a missing response, and whether a proxy carries it; nothing is sent here."""

import email.utils
import ipaddress
from collections.abc import Mapping
from datetime import UTC
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct, field

from reconciler.base.redaction import QuietRepr

MAX_DIGITS: Final = 9
"""A ``Retry-After`` with more digits exceeds thirty years."""


class HttpRequest(QuietRepr, Struct, frozen=True, kw_only=True):
    """A request, which can be sent any number of times."""

    method: str  # in capital letters
    url: str  # the URL; it may contain secrets
    # They may contain secrets.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    max_bytes: int  # maximum decompressed body of a response
    is_cut: bool = False  # whether a larger body is cut at `max_bytes`; else it is `TOO_LARGE`
    # Whether the path is percent-encoded already and must not be normalised.
    is_encoded: bool = False


class HttpResponse(Struct, frozen=True, kw_only=True):
    """A complete response."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # names in lower case
    body: bytes = b""  # decompressed

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: 408, 425, 429 and every 5xx."""
        return self.status in {408, 425, 429} or self.status >= 500

    def retry_after(self, now: float) -> float | None:
        """Return the seconds of ``Retry-After`` (RFC 9110 section 10.2.3); ``None`` if it is missing or invalid.

        Args:
            now: Seconds since the epoch; a date is relative to it.
        """
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdigit():
            return float(text) if len(text) <= MAX_DIGITS else None
        try:
            date = email.utils.parsedate_to_datetime(text)
            return max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now, 0.0)
        except (ValueError, OverflowError):
            return None


class NoResponseKind(StrEnum):
    """Why there is no response."""

    NAME = "name"
    CONNECT = "connect"
    CONNECT_TIMEOUT = "connect timeout"
    TLS = "tls"
    REQUEST = "request"
    TIMEOUT = "timeout"
    TOO_LARGE = "too large"
    BROKEN = "broken"


_NOT_SENT: Final = frozenset(
    {
        NoResponseKind.NAME,
        NoResponseKind.CONNECT,
        NoResponseKind.CONNECT_TIMEOUT,
        NoResponseKind.TLS,
        NoResponseKind.REQUEST,
    }
)
_FINAL: Final = frozenset({NoResponseKind.TLS, NoResponseKind.REQUEST, NoResponseKind.TOO_LARGE})


class NoResponse(Struct, frozen=True, kw_only=True):
    """There is no usable response."""

    kind: NoResponseKind
    # The reason on one line, without URLs; it may quote the peer, so secrets still have to be hidden.
    text: str

    @property
    def may_be_sent(self) -> bool:
        """Whether the server may have executed the request."""
        return self.kind not in _NOT_SENT

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind not in _FINAL


def is_loopback(host: str) -> bool:
    """Whether a host, as in ``urlsplit(...).hostname``, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_plain(url: str) -> bool:
    """Whether a request to this URL crosses a network without TLS. Plain HTTP to this machine does not."""
    split = urlsplit(url)
    return split.scheme != "https" and not is_loopback(split.hostname or "")


def proxy_for(url: str) -> str:
    """Return the proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` configure; "" = none.

    Loopback addresses never use a proxy, as in curl and Go.
    """
    split = urlsplit(url)
    host = split.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    return getproxies().get(split.scheme, "")
