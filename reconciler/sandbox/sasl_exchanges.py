"""Server sides of SASL mechanisms: they process tokens and return a principal.

The mechanisms are implemented in ``reconciler.wire.sasl``; this module connects them to the sandbox's users, with
Kafka's error messages (``PlainServerCallbackHandler``, ``SaslServerAuthenticator``).
"""

import hmac
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

from reconciler.errors import AuthenticationError
from reconciler.wire.sasl.plain import NAME as PLAIN
from reconciler.wire.sasl.plain import read_plain
from reconciler.wire.sasl.scram import ScramServer, ServerCredential, make_credential

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
        """Return an empty response, if name and password match."""
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
        """Return the server's next message."""
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
    """Return a new exchange of one of the mechanisms in ``settings.MECHANISMS``."""
    return PlainExchange(users) if mechanism == PLAIN else ScramExchange(mechanism, users)
