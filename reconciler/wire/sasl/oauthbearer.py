"""OAUTHBEARER (RFC 7628, KIP-255): a token obtained elsewhere, with optional extensions."""

import re
from collections.abc import Mapping
from typing import Final, cast

from reconciler.base import bounded_json
from reconciler.errors import AuthenticationError, EncodeError

NAME: Final = "OAUTHBEARER"

_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_KEY: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_LONGEST_COMPLAINT: Final = 100
_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7E]")


class OAuthBearerClient:
    """The client side.

    A server that refuses the token sends the reason in a challenge; the client must answer it with a single 0x01
    before it receives the refusal itself.
    """

    name = NAME

    def __init__(self, *, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise EncodeError(
                "the OAUTHBEARER token has characters that a bearer token may not have"
            )
        extensions = dict(extensions or {})
        for key, value in extensions.items():
            if not _EXTENSION_KEY.fullmatch(key) or key == "auth":
                raise EncodeError(f"an OAUTHBEARER extension may not be called {key[:40]!a}")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise EncodeError(
                    f"the OAUTHBEARER extension {key[:40]} has a value it may not have"
                )
        self._token = token
        self._extensions = extensions
        self.server_error = ""

    def __repr__(self) -> str:
        return "OAuthBearer(...)"

    def start(self) -> bytes:
        """Return no authorization id, the token and the extensions."""
        pairs = [f"auth=Bearer {self._token}"]
        pairs += [f"{key}={value}" for key, value in self._extensions.items()]
        return ("n,," + "".join(_SEPARATOR + pair for pair in pairs) + _SEPARATOR * 2).encode()

    def receive(self, challenge: bytes) -> bytes | None:
        """Complete on an empty challenge; otherwise store the server's error and acknowledge it.

        Raises:
            AuthenticationError: The broker refused the token.
        """
        if self.server_error:
            raise AuthenticationError(f"the broker refused the token: {self.server_error}")
        if not challenge:
            return None
        self.server_error = _server_error(challenge)
        return _SEPARATOR.encode()


def _server_error(challenge: bytes) -> str:
    """Return only the status of the server's error, short and printable."""
    try:
        answer: object = bounded_json.parse(challenge, most_bytes=bounded_json.SMALL)
    except ValueError:
        return "no reason given"
    fields = cast("dict[object, object]", answer) if isinstance(answer, dict) else {}
    status = fields.get("status")
    if not isinstance(status, str) or not status:
        return "no reason given"
    return _NOT_PLAIN.sub("?", status[:_LONGEST_COMPLAINT])
