"""A request as a value, and the error of a request. No I/O."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from reconciler.client.client_config import Address
from reconciler.errors import (
    AuthorizationError,
    BrokerError,
    ClientError,
    ConnectionRefused,
    RequestTimeout,
)
from reconciler.wire.apis import KafkaApi
from reconciler.wire.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NONE,
    NOT_CONTROLLER,
    REBOOTSTRAP_REQUIRED,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    error_code,
)
from reconciler.wire.handshake import ListenerHint

Answer = TypeVar("Answer")


class ResponseStatus(Struct, frozen=True):
    """The error code of the whole response, with the broker's message."""

    code: int = NONE
    message: str | None = None


GOOD = ResponseStatus()


class ClientRequest(Struct, Generic[Answer], frozen=True, kw_only=True):
    """One request."""

    api: KafkaApi
    encode: Callable[[int], bytes]  # encodes the body for a version
    decode: Callable[[int, bytes], Answer]  # decodes the body of a version
    verdict: Callable[[Answer], ResponseStatus]  # returns the error code of the whole response
    right: str  # the right that the principal needs, for a message; "" = not known
    repeatable: bool = True  # false if the client must not send it again after an unknown outcome
    # Minimum timeout of the response, even if the configured one is lower.
    least_seconds: float = 0.0

    def refusal(
        self, verdict: ResponseStatus, node: str, scrubbed: Callable[[str], str] = str
    ) -> BrokerError | None:
        """Return the error for a status; None for success."""
        if verdict.code == NONE:
            return None
        code = error_code(verdict.code)
        words = f": {scrubbed(verdict.message)}" if verdict.message else ""
        if verdict.code == CLUSTER_AUTHORIZATION_FAILED and self.right:
            return AuthorizationError(
                f"{self.api.name} is not allowed: the principal lacks {self.right} on the cluster",
                code=verdict.code,
                node=node,
                api=self.api.name,
                hint=f"grant it: kafka-acls --add --allow-principal User:NAME --cluster --operation {self.right}",
            )
        return BrokerError(
            f"{node} answered {self.api.name} with {code}, {code.sentence}{words}",
            code=verdict.code,
            node=node,
            api=self.api.name,
        )


class RequestFailed(Exception):
    """A request ended without a usable response. Never leaves the package.

    Args:
        is_written: Whether a byte of the request may have been sent, so that the broker may apply it.
    """

    def __init__(self, error: ClientError, *, is_written: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.written = is_written


Failure = TypeVar("Failure", bound=ClientError)


def add_node(error: Failure, node: str, scrubbed: Callable[[str], str] = str) -> Failure:
    """Add the node to an error and its message, and remove secrets that the peer repeats."""
    message, error.hint = scrubbed(error.message), scrubbed(error.hint)
    error.node = error.node or node
    error.reword(message if node in message else f"{node}: {message}")
    return error


UNKNOWN_ERROR_RETRIES: Final = 2
"""Maximum retries after UNKNOWN_SERVER_ERROR, which does not show whether a retry can help."""

_TRANSIENT: Final = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER, REBOOTSTRAP_REQUIRED})


def can_retry(error: ClientError, unknown_error_count: int) -> bool:
    """Whether a retry can help.

    Args:
        unknown_error_count: Number of attempts of this call with UNKNOWN_SERVER_ERROR.
    """
    if isinstance(error, BrokerError):
        return error.code in _TRANSIENT or (
            error.code == UNKNOWN_SERVER_ERROR and unknown_error_count <= UNKNOWN_ERROR_RETRIES
        )
    # A throttled connection is not replaced; a new one would only evade the quota.
    throttled = isinstance(error, RequestTimeout) and error.phase == "throttled"
    return error.retriable and not throttled


SUSPICIOUS_TRIES: Final = 3
"""Consecutive failures that look like a wrong port or protocol and end the call: retries would not help."""

_LISTENER_HINTS: Final[frozenset[str]] = frozenset(ListenerHint)


def listed_text(addresses: Iterable[Address]) -> str:
    """Join addresses with commas."""
    return ", ".join(str(address) for address in addresses)


class ConnectAttempts(Struct, kw_only=True):
    """Attempts to set up one connection; ``refused_addresses`` are those whose last attempt was refused."""

    began: float
    tries: int = 0
    misconfiguration_count: int = 0
    renewed: bool = False
    refused_addresses: set[Address] = field(default_factory=set[Address])
    last: ClientError | None = None

    def note(self, error: ClientError, addresses: Iterable[Address]) -> None:
        """Record a failure. A cause has priority over a timeout, which may only mean that no time was left."""
        error.attempt = self.tries
        if isinstance(error, ConnectionRefused):
            self.refused_addresses.update(addresses)
        else:
            self.refused_addresses.difference_update(addresses)
        if self.last is None or not isinstance(error, RequestTimeout):
            self.last = error
        self.misconfiguration_count = (
            self.misconfiguration_count + 1 if error.hint in _LISTENER_HINTS else 0
        )

    @property
    def is_misconfigured(self) -> bool:
        """Whether the last failures look like a wrong port or protocol."""
        return self.misconfiguration_count >= SUSPICIOUS_TRIES

    def gave_up(self, now: float, causes: Iterable[str]) -> ClientError:
        """Return the error of a call that ends now: the last cause, with the time and the total number of attempts.

        Args:
            causes: The last known cause of each address; those that the error does not have are added.
        """
        if self.last is None:
            message = "the deadline passed before a connection was made"
            return RequestTimeout(with_causes(message, causes), phase="connect")
        self.last.attempt = self.tries
        spent = f"{now - self.began:.1f} s"
        tries = "1 attempt" if self.tries == 1 else f"{self.tries} attempts"
        if isinstance(self.last, RequestTimeout):
            message = f"no usable connection to {self.last.node} within {spent} ({tries})"
        else:
            message = f"{self.last.message} ({tries} in {spent})"
        self.last.reword(with_causes(message, causes))
        return self.last


@contextlib.asynccontextmanager
async def turn(
    lock: asyncio.Lock | asyncio.Semaphore, seconds: float, causes: Callable[[], Iterable[str]]
) -> AsyncIterator[None]:
    """Hold a lock while connecting; other calls connect first.

    Args:
        causes: Returns why earlier attempts failed.

    Raises:
        RequestTimeout: The others did not end in time.
    """
    try:
        async with asyncio.timeout(seconds):
            _ = await lock.acquire()
    except TimeoutError:
        message = "the deadline passed while another call was connecting"
        raise RequestTimeout(with_causes(message, causes()), phase="connect") from None
    try:
        yield
    finally:
        lock.release()


def with_causes(message: str, causes: Iterable[str]) -> str:
    """Add those causes to a message that it does not contain."""
    missing = [cause for cause in dict.fromkeys(causes) if f" {cause}" not in f" {message}"]
    return f"{message}; last known cause: {'; '.join(missing)}" if missing else message
