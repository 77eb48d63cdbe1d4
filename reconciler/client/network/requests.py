"""A request as a value, and the error of a request. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from reconciler.errors import AuthorizationError, BrokerError, ClientError
from reconciler.wire.apis import KafkaApi
from reconciler.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, NONE, error_code

Answer = TypeVar("Answer")


class ResponseStatus(NamedTuple):
    """The error code of the whole response, with the broker's message."""

    code: int = NONE
    message: str | None = None


GOOD = ResponseStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[Answer]):
    """One request."""

    api: KafkaApi
    encode: Callable[[int], bytes]  # encodes the body for a version
    decode: Callable[[int, bytes], Answer]  # decodes the body of a version
    verdict: Callable[[Answer], ResponseStatus]  # returns the error code of the whole response
    # The required right of the principal, for the message if it is missing; "" = not known.
    right: str
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
    error.message, error.hint = scrubbed(error.message), scrubbed(error.hint)
    error.args = (error.message,)
    error.node = error.node or node
    if node not in error.message:
        error.message = f"{node}: {error.message}"
        error.args = (error.message,)
    return error
