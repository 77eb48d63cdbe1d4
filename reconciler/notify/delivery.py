"""Delivering one request: tries, back-off, what the receiver asks for, and an end. The only HTTP of this package."""

import email.utils
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from reconciler.base.protocols import Clock
from reconciler.base.redaction import SecretScrubber, redact_urls
from reconciler.errors import NotifyError
from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.render.names import escaped

RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later."""

_ANSWER_BYTES: Final = 2048
_SHOWN_CHARACTERS: Final = 120
_LAST_PAUSE: Final = 16.0
_LEAST_SECRET: Final = 5

Random: TypeAlias = Callable[[], float]
"""A number from 0 up to, not including, 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTimeouts:
    """How long one message may take.

    Attributes:
        tries: Most tries.
        try_seconds: For one try, answer included.
        total_seconds: For all tries and the waits between them.
    """

    tries: int = 5
    try_seconds: float = 10.0
    total_seconds: float = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReceiverResponse:
    """What a try brought: a status with the receiver's words, or why there was none."""

    status: int = 0
    message: str = ""
    retry_after: float | None = None

    @property
    def may_work_later(self) -> bool:
        return self.status == 0 or self.status in RETRIED

    @property
    def text(self) -> str:
        """For people."""
        if not self.status:
            return f"could not be reached ({self.message})"
        return f"answered {self.status}" + (f" ({self.message})" if self.message else "")


async def deliver(
    session: aiohttp.ClientSession,
    to: Endpoint,
    request: WebhookRequest,
    *,
    clock: Clock,
    random: Random,
    patience: DeliveryTimeouts,
) -> int:
    """Post until the receiver takes it; how many tries that were.

    Redirects are not followed: a signed message goes to the address that was configured, or nowhere.

    Raises:
        NotifyError: The receiver refused it, or did not take it in time.
    """
    deadline = clock.monotonic() + patience.total_seconds
    for attempt in range(1, patience.tries + 1):
        remaining = deadline - clock.monotonic()
        answer = await _tried(session, to, request, clock, min(patience.try_seconds, remaining))
        if 200 <= answer.status < 300:
            return attempt
        pause = _pause(attempt, answer, random)
        late = clock.monotonic() + pause >= deadline
        if not answer.may_work_later or attempt == patience.tries or late:
            waits = f", and asks to wait {pause:.0f} s" if answer.retry_after and late else ""
            raise _failure(to, answer, attempt, waits)
        await clock.sleep(pause)
    raise _failure(to, _ReceiverResponse(message="no try was allowed"), 0, "")


async def _tried(
    session: aiohttp.ClientSession,
    to: Endpoint,
    request: WebhookRequest,
    clock: Clock,
    seconds: float,
) -> _ReceiverResponse:
    """One try. No exception leaves it with its own words: several of aiohttp's hold the whole address."""
    try:
        async with session.post(
            to.url.reveal(),
            data=request.body,
            headers=dict(request.headers),
            allow_redirects=False,
            proxy=_proxy(to),
            timeout=aiohttp.ClientTimeout(total=max(seconds, 0.001)),
        ) as answer:
            content = await answer.content.read(_ANSWER_BYTES)
            return _ReceiverResponse(
                status=answer.status,
                message=_response_text(content, to),
                retry_after=_retry_after(answer.headers.get("Retry-After"), clock.now()),
            )
    except TimeoutError:
        return _ReceiverResponse(message="no answer in time")
    except aiohttp.ClientConnectorDNSError:
        return _ReceiverResponse(message="its name does not resolve")
    except aiohttp.ClientConnectorCertificateError:
        return _ReceiverResponse(message="its certificate is not trusted")
    except aiohttp.ClientConnectorError as error:
        return _ReceiverResponse(message=error.os_error.strerror or "no connection")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return _ReceiverResponse(message=type(error).__name__)


def _response_text(content: bytes, to: Endpoint) -> str:
    """What the receiver said, on one line and without our secrets, which some receivers repeat."""
    text = content.decode("utf-8", "replace")
    path = to.url.reveal().removeprefix(to.origin)
    secrets = [path.lstrip("/"), *(path.split("/"))]
    scrub = SecretScrubber(
        [to.key.reveal(), *_long(secrets)] if to.key is not None else _long(secrets),
        complete=(to.url.reveal(),),
    )
    text = escaped(" ".join(redact_urls(scrub(text)).split()))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _long(parts: Iterable[str]) -> list[str]:
    """Parts of a path that can be secrets; ``api`` and ``v1`` are ordinary words."""
    return [part for part in parts if len(part) >= _LEAST_SECRET]


def _retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait: ``Retry-After`` is a number of seconds or a date. ``None`` where it says nothing useful."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now, 0.0)


def _pause(attempt: int, answer: _ReceiverResponse, random: Random) -> float:
    """1, 2, 4 ... seconds, half of it by chance, and never less than the receiver asks for."""
    doubled = min(2.0 ** (attempt - 1), _LAST_PAUSE)
    own_pause = doubled * (0.5 + 0.5 * random())
    return own_pause if answer.retry_after is None else max(own_pause, answer.retry_after)


def _failure(to: Endpoint, answer: _ReceiverResponse, attempts: int, waits: str) -> NotifyError:
    tries = f"after {attempts} {'try' if attempts == 1 else 'tries'}"
    return NotifyError(
        f"{to.name}: {to.origin} {answer.text} {tries}{waits}",
        status=answer.status,
        attempts=attempts,
        hint=_HINTS.get(answer.status, ""),
    )


_HINTS: Final = {
    400: "the receiver does not understand this kind of message; see docs/alerts.md",
    401: "the address or the key is not valid any more",
    403: "the address or the key is not valid any more",
    404: "the address is not valid any more",
    410: "the address was taken back",
}


def session() -> aiohttp.ClientSession:
    """A session for messages: no cookies."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())


def _proxy(to: Endpoint) -> str | None:
    """The proxy that the environment names for an address; aiohttp's ``trust_env`` would also send logins of a netrc."""
    split = urlsplit(to.url.reveal())
    if urllib.request.proxy_bypass(split.hostname or ""):
        return None
    return urllib.request.getproxies().get(split.scheme)


__all__ = ["DeliveryTimeouts", "deliver", "session"]
