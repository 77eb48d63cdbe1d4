"""PLAIN (RFC 4616): user and password as plain text. Use it only on encrypted connections."""

from reconciler.errors import AuthenticationError, EncodeError

NAME = "PLAIN"


class PlainClient:
    """The client side."""

    name = NAME
    server_error = ""

    def __init__(self, *, user: str, password: str) -> None:
        if not user or not password or "\x00" in user + password:
            raise EncodeError("PLAIN needs a user and a password, both without NUL characters")
        self._user = user
        self._password = password

    def __repr__(self) -> str:
        return "Plain(...)"

    def start(self) -> bytes:
        """Return no authorization id, user and password."""
        return f"\x00{self._user}\x00{self._password}".encode()

    def receive(self, challenge: bytes) -> None:
        """Complete: the server sends no challenge (Kafka sends an empty token).

        Raises:
            AuthenticationError: The server sent a challenge.
        """
        if challenge:
            raise AuthenticationError("the broker answered PLAIN with a challenge")


def read_plain(token: bytes) -> tuple[str, str]:
    """Return user and password from a client's token, for a server.

    Raises:
        AuthenticationError: It is malformed, or requests another user's identity (``PlainSaslServer``).
    """
    try:
        parts = token.decode().split("\x00")
    except UnicodeDecodeError as error:
        raise AuthenticationError("the PLAIN token is not UTF-8") from error
    if len(parts) != 3:
        raise AuthenticationError(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        )
    authorization_id, user, password = parts
    if not user:
        raise AuthenticationError("Authentication failed: username not specified")
    if not password:
        raise AuthenticationError("Authentication failed: password not specified")
    if authorization_id not in ("", user):
        raise AuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return user, password
