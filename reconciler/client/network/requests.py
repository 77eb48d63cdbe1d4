"""What one request is, as a value, and how it can fail on the way. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from reconciler.errors import AuthorizationError, BrokerError, ClientError
from reconciler.wire.apis import KafkaApi
from reconciler.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED, NONE, error_code

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStatus:
    """The code for the whole answer, with the broker's own words."""

    code: int = NONE
    message: str | None = None


GOOD = ResponseStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[Answer]):
    """One request.

    Attributes:
        api: Which API.
        encode: Version to body.
        decode: Version and body to answer.
        verdict: The code for the whole.
        right: What a principal needs for it, for the message when it is missing; "" = not known.
        repeatable: False if a second sending after an unknown outcome is not ours to decide.
        least_seconds: Wait for the answer so long even if the configuration says less.
    """

    api: KafkaApi
    encode: Callable[[int], bytes]
    decode: Callable[[int, bytes], Answer]
    verdict: Callable[[Answer], ResponseStatus]
    right: str
    repeatable: bool = True
    least_seconds: float = 0.0

    def refusal(
        self, verdict: ResponseStatus, node: str, scrubbed: Callable[[str], str] = str
    ) -> BrokerError | None:
        """The error for a verdict; None if there is none."""
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
    """A request ended without a usable answer. Never leaves the package.

    Args:
        error: What to report.
        written: Whether a byte of the request may have left, so that the broker may act on it.
    """

    def __init__(self, error: ClientError, *, is_written: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.written = is_written


Failure = TypeVar("Failure", bound=ClientError)


def located(error: Failure, node: str, scrubbed: Callable[[str], str] = str) -> Failure:
    """The error with the peer's name in its fields and its words, and without secrets that the peer repeats."""
    error.message, error.hint = scrubbed(error.message), scrubbed(error.hint)
    error.args = (error.message,)
    error.node = error.node or node
    if node not in error.message:
        error.message = f"{node}: {error.message}"
        error.args = (error.message,)
    return error
