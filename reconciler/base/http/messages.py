"""A request, its response, the reason for a missing response, and retries; nothing is sent here.

Retries have one loop with back-off and one deadline for all attempts; peers differ by :data:`POLICIES`. A server that
sends a byte now and then keeps an attempt waiting until its limit, so each attempt also ends at the deadline. A pause is
the longer of the policy's own back-off and the server's ``Retry-After``.
"""

import email.utils
import ipaddress
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC
from enum import Enum, StrEnum, auto
from typing import Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct, field

from reconciler.base.protocols import EXACT, Backoff, Clock
from reconciler.base.redaction import QuietRepr
from reconciler.errors import KquotaError

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


T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and how long a request is retried."""

    backoff: Backoff
    tries: float = math.inf
    total_seconds: float  # maximum seconds from the first attempt to the end of the last one


class Peer(Enum):
    """Kinds of servers with separate policies."""

    CODE_HOST = auto()
    KUBERNETES = auto()
    PROMETHEUS = auto()
    TOKEN_ENDPOINT = auto()


# One table and one loop, not a library: docs/adr/http-and-retries.md.
POLICIES: Final[Mapping[Peer, RetryPolicy]] = {
    # Half of it for waits that the host requires.
    Peer.CODE_HOST: RetryPolicy(
        backoff=Backoff(first=1.0, cap=4.0, spread=EXACT), tries=4, total_seconds=360.0
    ),
    Peer.KUBERNETES: RetryPolicy(
        backoff=Backoff(first=0.25, cap=2.0, spread=EXACT), tries=4, total_seconds=60.0
    ),
    # Samples that time out are asked for in parts at once.
    Peer.PROMETHEUS: RetryPolicy(
        backoff=Backoff(first=1.0, cap=16.0, spread=EXACT), tries=6, total_seconds=600.0
    ),
    # sasl.login.retry.backoff.ms and .max.ms of Kafka's clients
    Peer.TOKEN_ENDPOINT: RetryPolicy(backoff=Backoff(first=0.1, cap=10.0), total_seconds=10.0),
}


class Failure(Struct, frozen=True, kw_only=True):
    """A failed attempt."""

    error: KquotaError  # raised if there is no further attempt
    is_retriable: bool  # whether another attempt may succeed and is harmless
    wait: float | None = None  # seconds that the server requests; None = none
    # Whether it counts as an attempt. A rate limit does not, if the client limits the waits.
    uses_try: bool = True


class Exhausted(Struct, frozen=True, kw_only=True):
    """No attempt succeeded, and there is no further one."""

    failure: Failure
    tries: int
    # Seconds of the pause that would have ended too late; None = time was not the reason.
    pause: float | None = None


async def with_retries(
    attempt: Callable[[float], Awaitable[T | Failure]],
    policy: RetryPolicy,
    *,
    clock: Clock,
    uniform: Callable[[], float] = random.random,
    before_retry: Callable[[Failure], None] = lambda _: None,
    final_error: Callable[[Exhausted], KquotaError] = lambda exhausted: exhausted.failure.error,
) -> T:
    """Return the result of the first successful attempt.

    Args:
        attempt: One attempt; it ends within its argument, the seconds until the deadline.
        uniform: Returns a random number in [0, 1).
        before_retry: Called before each pause, for example to count it.
        final_error: Returns the error to raise; by default the last failure's own.

    Raises:
        KquotaError: No attempt succeeded.
    """
    began = clock.monotonic()
    tries, used = 0, 0
    while True:
        result = await attempt(policy.total_seconds - (clock.monotonic() - began))
        tries += 1
        if not isinstance(result, Failure):
            return result
        used += result.uses_try
        if not result.is_retriable or used >= policy.tries:
            raise final_error(Exhausted(failure=result, tries=tries))
        pause = max(policy.backoff.pause(max(used, 1), uniform), result.wait or 0.0)
        if clock.monotonic() - began + pause > policy.total_seconds:
            raise final_error(Exhausted(failure=result, tries=tries, pause=pause))
        before_retry(result)
        await clock.sleep(pause)
