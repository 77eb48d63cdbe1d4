"""Tokens by OpenID Connect client credentials (KIP-768): one form POST, cached for most of the token's life.

A token endpoint's response must not become part of an exception: decoding errors keep their input, and `from None`
only hides the chain from printing. Errors contain the status, the endpoint's ``error`` and ``error_description``,
truncated and without secrets, never the body. Retries are those of :mod:`reconciler.base.http.messages`. Needs the extra ``http``.
"""

import asyncio
import base64
import math
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from reconciler.base import bounded_json
from reconciler.base.backoff import Backoff
from reconciler.base.http.client import HttpClient, Route
from reconciler.base.http.messages import HttpRequest, NoResponse, is_loopback
from reconciler.base.http.retry import POLICIES, Exhausted, Failure, Peer, RetryPolicy, with_retries
from reconciler.base.protocols import Clock
from reconciler.base.redaction import redact_url
from reconciler.base.secret import Secret, scrubbed
from reconciler.client.auth.sasl import BearerToken
from reconciler.errors import AuthenticationError, ConfigError

RETRY: Final = POLICIES[Peer.TOKEN_ENDPOINT]
REUSE_SHARE: Final = 0.8
"""Share of its life for which a token is used: the default of ``sasl.login.refresh.window.factor``."""

LONGEST_LIFE: Final = 86_400.0
"""Seconds: a token with a longer life is fetched again after this time, so that none is cached without an end."""

_MAX_ANSWER: Final = bounded_json.ANSWER
_MAX_DIGITS: Final = 18


class OidcSettings(Struct, frozen=True, kw_only=True):
    """Settings of a token request."""

    url: str  # `https://...`, or `http://` for a loopback address
    client_id: str
    client_secret: Secret
    scope: str = ""  # scopes separated by blanks; "" = the endpoint's default
    extensions: Mapping[str, str] = field(default_factory=dict[str, str])  # sent with the token
    # Form-encode id and secret before Basic (KAFKA-16345, RFC 6749 section 2.3.1).
    urlencode: bool = False
    # Timeout of one attempt, from connecting to the last byte of the response.
    connect_seconds: float = 10.0
    retry: Backoff = RETRY.backoff
    tries_for: float = RETRY.total_seconds  # seconds after which no further attempt begins
    tls: ssl.SSLContext | None = None  # None = the machine's certificate authorities

    def __post_init__(self) -> None:
        key = "sasl.oauthbearer.token.endpoint.url"
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in {"https", "http"} or not parts.hostname:
            raise ConfigError(f"{key}: is not an https URL", key=key)
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ConfigError(
                f"{key}: must be https, because the client secret is sent to it", key=key
            )
        if parts.username or parts.password:
            raise ConfigError(f"{key}: must not hold credentials", key=key)


class OidcTokens:
    """A token source that requests tokens from an endpoint, and caches each for 80 % of its life.

    After the broker refuses a cached token, a new one is fetched once; a refused re-authentication only closes
    the connection, and the next login decides.
    """

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._token: BearerToken | None = None
        self._keep_until = 0.0
        self._busy = asyncio.Lock()

    def __repr__(self) -> str:
        return f"OidcTokens(url={redact_url(self._settings.url)!r}, client_id={self._settings.client_id!r})"

    async def __call__(self) -> BearerToken:
        """Return a token that is valid now.

        Raises:
            AuthenticationError: The endpoint refused, or returned no usable token in time.
        """
        async with self._busy:
            if self._token is None or self._clock.now() >= self._keep_until:
                self._token = await self._fetch()
                life = max((self._token.expires_at or 0.0) - self._clock.now(), 0.0)
                self._keep_until = self._clock.now() + REUSE_SHARE * life
            return self._token

    def forget(self) -> bool:
        """Drop the cached token, because the broker refused it; return whether one was cached."""
        token, self._token = self._token, None
        return token is not None

    async def _fetch(self) -> BearerToken:
        settings = self._settings
        policy = RetryPolicy(backoff=settings.retry, total_seconds=settings.tries_for)
        return await with_retries(
            self._ask, policy, clock=self._clock, final_error=self._final_error
        )

    def _final_error(self, exhausted: Exhausted) -> AuthenticationError:
        return AuthenticationError(
            f"no token from {redact_url(self._settings.url)}: {exhausted.failure.error.message}",
            attempt=exhausted.tries,
            hint="check sasl.oauthbearer.* and whether the endpoint is up",
        )

    async def _ask(self, _: float) -> BearerToken | Failure:
        # An attempt may take the read timeout, also where the time for retries, a setting of its own, is shorter.
        settings, now = self._settings, self._clock.now()
        request = HttpRequest(
            method="POST",
            url=settings.url,
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {_basic(settings)}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            body=_form(settings),
            max_bytes=_MAX_ANSWER,
        )
        route = Route(tls=settings.tls)
        async with HttpClient(seconds=settings.connect_seconds, route=route) as client:
            response = await client.send(request)
        if isinstance(response, NoResponse):
            words = scrubbed(response.text, settings.client_secret)
            return Failure(error=AuthenticationError(words), is_retriable=response.is_transient)
        if not response.is_success:
            words = f"HTTP {response.status}{_endpoint_error(response.body, settings)}"
            return Failure(
                error=AuthenticationError(words),
                is_retriable=response.is_transient,
                wait=response.retry_after(now),
            )
        return _token(response.body, settings, now)


def _form(settings: OidcSettings) -> bytes:
    fields = {"grant_type": "client_credentials"}
    if settings.scope:
        fields["scope"] = settings.scope
    return urllib.parse.urlencode(fields).encode("ascii")


def _basic(settings: OidcSettings) -> str:
    pair = (settings.client_id, settings.client_secret.reveal())
    if settings.urlencode:
        pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
    return base64.b64encode(":".join(pair).encode()).decode("ascii")


def _endpoint_error(body: bytes, settings: OidcSettings) -> str:
    """Return the endpoint's own error fields (RFC 6749 section 5.2), without secrets."""
    answer = _parse(body)
    error_fields = [answer.get(name) for name in ("error", "error_description")]
    text = ": ".join(word for word in error_fields if isinstance(word, str))
    return f" ({scrubbed(text, settings.client_secret, Secret(_basic(settings)))})" if text else ""


def _token(body: bytes, settings: OidcSettings, now: float) -> BearerToken | Failure:
    answer = _parse(body)
    value = answer.get("access_token")
    if not isinstance(value, str):
        fault = (
            "the answer's access_token is not a text"
            if "access_token" in answer
            else "the answer is not JSON with an access_token"
        )
        return Failure(error=AuthenticationError(fault), is_retriable=False)
    try:
        expires = _expiry(value, answer.get("expires_in"), now)
        return BearerToken(value=Secret(value), expires_at=expires, extensions=settings.extensions)
    except ConfigError as error:
        return Failure(error=error, is_retriable=False)


def _parse(body: bytes) -> dict[str, object]:
    """Parse the fields of the response; empty if it is not a JSON object.

    Never raises: an error could contain what the endpoint sent.
    """
    try:
        answer = bounded_json.parse(body, most_bytes=_MAX_ANSWER)
    except bounded_json.InvalidJson:
        return {}
    return answer if isinstance(answer, dict) else {}


def _expiry(value: str, life: object, now: float) -> float | None:
    """Return when the token expires: ``expires_in``, else the JWT's ``exp``, else None; at most a day from now.

    Raises:
        ConfigError: ``expires_in`` is not a number of seconds.
    """
    if life is None:
        end = _claimed_end(value)
        return None if end is None else min(end, now + LONGEST_LIFE)
    if isinstance(life, str) and life.isascii() and life.isdigit() and len(life) <= _MAX_DIGITS:
        life = int(life)
    if not isinstance(life, int | float) or isinstance(life, bool) or not life >= 0:
        raise ConfigError("the answer's expires_in is not a number of seconds")
    return now + min(life, LONGEST_LIFE)


def _claimed_end(value: str) -> float | None:
    """Return ``exp`` of a JWT; ``None`` if the token is not a JWT or has no valid ``exp``."""
    try:
        payload = value.split(".")[1]
        content = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        end = float(bounded_json.parse(content, most_bytes=_MAX_ANSWER)["exp"])
    except (IndexError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return end if math.isfinite(end) else None
