"""SASL mechanisms as state machines from bytes to bytes, without a connection, a clock or randomness.

Each instance is used for one exchange and contains credentials, so no ``repr`` shows them.
It raises ``AuthenticationError`` for messages of the peer that it cannot accept.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


class DeferredStep(Struct, frozen=True):
    """A step that takes long (PBKDF2: some milliseconds): ``run`` returns the token to send.

    Run it where it blocks no other task; it changes only its own mechanism.
    """

    run: Callable[[], bytes]


class Mechanism(Protocol):
    """The client side of one exchange."""

    @property
    def name(self) -> str:
        """The registered name, for SaslHandshake."""
        ...

    @property
    def server_error(self) -> str:
        """The server's error message about the credentials during the exchange, "" if none."""
        ...

    def start(self) -> bytes:
        """Return the first token."""
        ...

    def receive(self, challenge: bytes) -> bytes | DeferredStep | None:
        """Return the response to a challenge without an error.

        Returns:
            The next token, or ``DeferredStep`` that computes it, or None if the exchange is complete: the server has
            proved what the mechanism requires.

        Raises:
            AuthenticationError: The mechanism does not allow this challenge.
        """
        ...
