"""SASL mechanisms as steppers, bytes to bytes: they never see a connection, a clock or a source of chance.

A stepper is used for one exchange and holds credentials, so none of them shows them in its ``repr``.
What it cannot accept from the peer it refuses with ``AuthenticationError``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DeferredStep:
    """A step that takes long (PBKDF2: some milliseconds): ``run`` gives the token to send.

    Run it where it blocks no other task; it touches nothing but its stepper.
    """

    run: Callable[[], bytes]


class Mechanism(Protocol):
    """The client's side of one exchange."""

    @property
    def name(self) -> str:
        """The registered name, for SaslHandshake."""
        ...

    @property
    def complaint(self) -> str:
        """What the server said against the credentials on the way, "" if nothing."""
        ...

    def start(self) -> bytes:
        """The first token."""
        ...

    def receive(self, challenge: bytes) -> bytes | DeferredStep | None:
        """The answer to a challenge that came without an error.

        Returns:
            The next token, or ``DeferredStep`` that makes it, or None if the exchange is complete: the server
            has shown what the mechanism demands of it.

        Raises:
            AuthenticationError: if the challenge is not what the mechanism allows.
        """
        ...
