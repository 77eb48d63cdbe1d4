"""The SASL side of one connection: order of requests, principal, and the mechanisms as a broker implements them.

Source: ``SaslServerAuthenticator`` (3.4 to 4.4): one successful ApiVersions, then SaslHandshake, then
SaslAuthenticate until the mechanism is complete; everything else closes the connection. If sessions have a lifetime
(KIP-368), the same principal may repeat the sequence with the same mechanism. The mechanisms of
``reconciler.wire.sasl`` are connected to the sandbox's users, with Kafka's error messages
(``PlainServerCallbackHandler``, ``SaslServerAuthenticator``).
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Final, Protocol

from msgspec import Struct

from reconciler.errors import AuthenticationError
from reconciler.wire.error_codes import (
    ILLEGAL_SASL_STATE,
    NONE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from reconciler.wire.messages import sasl_authenticate, sasl_handshake
from reconciler.wire.sasl.plain import NAME as PLAIN
from reconciler.wire.sasl.plain import read_plain
from reconciler.wire.sasl.scram import (
    SHA_256,
    SHA_512,
    ScramServer,
    ServerCredential,
    make_credential,
)

MECHANISMS: Final = (PLAIN, SHA_256, SHA_512)

_LATE: Final = "SaslAuthenticate request received after successful authentication"


class SaslStage(Enum):
    """The stage of authentication."""

    FRESH = auto()
    GREETED = auto()
    CHOSEN = auto()
    KNOWN = auto()


class SaslReply(Struct, frozen=True, kw_only=True):
    """The body of a response, and whether the connection ends after it."""

    body: bytes
    closes: bool = False
    wrong: bool = False  # the credentials were wrong, so that the response is delayed


class SaslSession:
    """Authentication of one connection; ``principal`` is "" until it is known."""

    def __init__(
        self,
        *,
        mechanisms: tuple[str, ...],
        users: Mapping[str, str],
        lifetime: float,
        clock: Callable[[], float],
    ) -> None:
        self.principal = ""
        self.stage = SaslStage.FRESH
        self._mechanisms = mechanisms
        self._users = users
        self._lifetime = lifetime
        self._clock = clock
        self._expires = 0.0
        self._mechanism = ""
        self._renewed: tuple[str, str] | None = None
        self._exchange: SaslExchange | None = None

    @property
    def expired(self) -> bool:
        """Whether the session of an authenticated client has expired."""
        return self.stage is SaslStage.KNOWN and 0 < self._expires <= self._clock()

    def handshake(self, version: int, body: bytes) -> SaslReply:
        """Return the response to SaslHandshake."""
        mechanism = sasl_handshake.decode_request(version, body).mechanism
        renewing = self.stage is SaslStage.KNOWN and self._lifetime > 0
        if self.stage in (SaslStage.CHOSEN, SaslStage.KNOWN) and not renewing:
            return SaslReply(body=_handshake(version, ILLEGAL_SASL_STATE, ()))
        if mechanism not in self._mechanisms:
            code = UNSUPPORTED_SASL_MECHANISM
            return SaslReply(body=_handshake(version, code, self._mechanisms), closes=True)
        if renewing:
            self._renewed = (self.principal, self._mechanism)
        self._mechanism = mechanism
        self._exchange = begin(mechanism, self._users)
        self.stage = SaslStage.CHOSEN
        return SaslReply(body=_handshake(version, NONE, self._mechanisms))

    def authenticate(self, version: int, body: bytes) -> SaslReply | None:
        """Return the response to SaslAuthenticate; ``None`` closes the connection: there was no handshake."""
        token = sasl_authenticate.decode_request(version, body).token
        if self.stage is SaslStage.KNOWN:
            return SaslReply(body=_authenticate_response(version, ILLEGAL_SASL_STATE, _LATE))
        if self.stage is not SaslStage.CHOSEN or self._exchange is None:
            return None
        try:
            answer = self._exchange.step(token)
            principal = self._exchange.principal
            self._check_renewal(principal)
        except AuthenticationError as wrong:
            body = _authenticate_response(version, SASL_AUTHENTICATION_FAILED, wrong.message)
            return SaslReply(body=body, closes=True, wrong=True)
        lifetime_ms = 0
        if principal is not None:
            self.principal, self.stage, self._exchange = principal, SaslStage.KNOWN, None
            lifetime_ms = round(self._lifetime * 1000)
            self._expires = self._clock() + self._lifetime if self._lifetime > 0 else 0.0
        response = sasl_authenticate.SaslAuthenticateResponse(
            error_message="", token=answer, session_lifetime_ms=lifetime_ms
        )
        return SaslReply(body=sasl_authenticate.encode_response(version, response))

    def _check_renewal(self, principal: str | None) -> None:
        if principal is None or self._renewed is None:
            return
        before, mechanism = self._renewed
        if principal != before:
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from User.{before}: User.{principal}"
            )
        if mechanism != self._mechanism:
            raise AuthenticationError(
                "SaslAuthentication request re-authentication mechanism has changed"
            )


def refused_handshake(version: int) -> bytes:
    """Return the response to SaslHandshake on a listener without SASL."""
    return _handshake(version, ILLEGAL_SASL_STATE, ())


def refused_authenticate(version: int) -> bytes:
    """Return the response to SaslAuthenticate on a listener without SASL."""
    return _authenticate_response(version, ILLEGAL_SASL_STATE, _LATE)


def _handshake(version: int, code: int, mechanisms: tuple[str, ...]) -> bytes:
    response = sasl_handshake.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)
    return sasl_handshake.encode_response(version, response)


def _authenticate_response(version: int, code: int, message: str) -> bytes:
    response = sasl_authenticate.SaslAuthenticateResponse(error_code=code, error_message=message)
    return sasl_authenticate.encode_response(version, response)


WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"  # noqa: S105 - words

SCRAM_ITERATIONS: Final = 4096
_SALT: Final = secrets.token_bytes(16)
"""One salt for every user: a sandbox protects nothing, and its passwords change with each run."""


class SaslExchange(Protocol):
    """One authentication; ``principal`` is ``None`` until it has succeeded."""

    principal: str | None

    def step(self, token: bytes) -> bytes:
        """Return the response to the client's token.

        Raises:
            AuthenticationError: The credentials are wrong, or the client violated the mechanism's rules.
        """


class PlainExchange:
    """SASL PLAIN: one token with all credentials."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.principal: str | None = None
        self._users = users

    def step(self, token: bytes) -> bytes:
        """Return an empty response, if name and password match.

        Raises:
            AuthenticationError: The token is malformed, or the password is wrong.
        """
        name, password = read_plain(token)
        expected = self._users.get(name)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise AuthenticationError(WRONG_PASSWORD)
        self.principal = name
        return b""


class ScramExchange:
    """SCRAM: two tokens each way."""

    def __init__(self, mechanism: str, users: Mapping[str, str]) -> None:
        self.principal: str | None = None
        self._mechanism = mechanism
        self._users = users
        self._server = ScramServer(
            mechanism, lookup=self._credential, nonce=secrets.token_urlsafe(18)
        )

    def step(self, token: bytes) -> bytes:
        """Return the server's next message.

        Raises:
            AuthenticationError: The token is malformed, or the proof is wrong.
        """
        try:
            answer = self._server.receive(token)
        except AuthenticationError as wrong:
            raise AuthenticationError(
                "Authentication failed during authentication due to invalid credentials"
                f" with SASL mechanism {self._mechanism}"
            ) from wrong
        if self._server.is_complete:
            self.principal = self._server.user
        return answer

    def _credential(self, name: str) -> ServerCredential | None:
        password = self._users.get(name)
        return None if password is None else _credential_of(self._mechanism, password)


@lru_cache(maxsize=1024)
def _credential_of(mechanism: str, password: str) -> ServerCredential:
    """Cached, because deriving it takes milliseconds."""
    return make_credential(mechanism, password=password, salt=_SALT, iterations=SCRAM_ITERATIONS)


def begin(mechanism: str, users: Mapping[str, str]) -> SaslExchange:
    """Return a new exchange of one of the :data:`MECHANISMS`."""
    return PlainExchange(users) if mechanism == PLAIN else ScramExchange(mechanism, users)
