"""Delivers one message over HTTP: retries, interprets the response, and hides secrets in errors."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from reconciler.base.escaping import escaped
from reconciler.base.http.client import HttpClient
from reconciler.base.http.messages import HttpRequest, NoResponse
from reconciler.base.http.retry import POLICIES, Exhausted, Failure, Peer, RetryPolicy, with_retries
from reconciler.base.protocols import Clock
from reconciler.base.redaction import SecretScrubber, redact_urls
from reconciler.errors import NotifyError
from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import Message
from reconciler.notify.shapes import SHAPES, MessageShape

TRY_SECONDS: Final = 10.0
"""Maximum seconds of one attempt, response included."""

_ANSWER_BYTES: Final = 2048
_SHOWN_CHARACTERS: Final = 120
_LEAST_SECRET: Final = 5

_HINTS: Final = {
    400: "the receiver does not support this message format; see docs/alerts.md",
    401: "the address or the key is not valid any more",
    403: "the address or the key is not valid any more",
    404: "the address is not valid any more",
    410: "the URL was revoked",
}

Random: TypeAlias = Callable[[], float]
"""A random number from 0 up to, not including, 1."""


async def deliver(
    client: HttpClient,
    to: Endpoint,
    request: WebhookRequest,
    *,
    clock: Clock,
    random: Random,
    policy: RetryPolicy = POLICIES[Peer.RECEIVER],
) -> None:
    """Post until the receiver accepts the message.

    Redirects are not followed: a message is sent only to the configured address.

    Raises:
        NotifyError: The receiver refused it, or did not accept it in time.
    """
    post = HttpRequest(
        method="POST",
        url=to.url.reveal(),
        headers=request.headers,
        body=request.body,
        max_bytes=_ANSWER_BYTES,
        is_cut=True,
    )

    async def attempt(seconds: float) -> Failure | None:
        response = await client.send(post, seconds=min(TRY_SECONDS, seconds))
        if isinstance(response, NoResponse):
            error = NotifyError(f"{to.name}: {to.origin} could not be reached ({response.text})")
            return Failure(error=error, is_retriable=response.is_transient)
        if response.is_success:
            return None
        words = _shorten_response(response.body, to)
        error = NotifyError(
            f"{to.name}: {to.origin} answered {response.status}" + (f" ({words})" if words else ""),
            status=response.status,
            hint=_HINTS.get(response.status, ""),
        )
        return Failure(
            error=error, is_retriable=response.is_transient, wait=response.retry_after(clock.now())
        )

    await with_retries(attempt, policy, clock=clock, uniform=random, final_error=_final_error)


def _final_error(exhausted: Exhausted) -> NotifyError:
    error, tries = exhausted.failure.error, exhausted.tries
    waits = (
        f", and asks to wait {exhausted.pause:.0f} s"
        if exhausted.failure.wait and exhausted.pause is not None
        else ""
    )
    return NotifyError(
        f"{error.message} after {tries} {'try' if tries == 1 else 'tries'}{waits}",
        status=error.status if isinstance(error, NotifyError) else 0,
        attempts=tries,
        hint=error.hint,
    )


def _shorten_response(content: bytes, to: Endpoint) -> str:
    """Return the receiver's text on one line and without secrets, which some receivers repeat."""
    text = content.decode("utf-8", "replace")
    path = to.url.reveal().removeprefix(to.origin)
    secrets = [path.lstrip("/"), *(path.split("/"))]
    scrub = SecretScrubber(_long(secrets), complete=(to.url.reveal(),))
    text = escaped(" ".join(redact_urls(scrub(text)).split()))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _long(parts: Iterable[str]) -> list[str]:
    """Return parts of a path that can be secrets; ``api`` and ``v1`` are ordinary words."""
    return [part for part in parts if len(part) >= _LEAST_SECRET]


class HttpReceiver:
    """A receiver with an HTTP address and a shape of message."""

    def __init__(self, shape: MessageShape, to: Endpoint, *, clock: Clock, random: Random) -> None:
        self._shape = shape
        self._to = to
        self._clock = clock
        self._random = random

    @property
    def name(self) -> str:
        """The name of its endpoint."""
        return self._to.name

    async def take(self, message: Message) -> None:
        """Post a message.

        Raises:
            NotifyError: The receiver refused it, or did not accept it in time.
        """
        request = SHAPES[self._shape](message)
        async with HttpClient(seconds=TRY_SECONDS) as client:
            await deliver(client, self._to, request, clock=self._clock, random=self._random)
