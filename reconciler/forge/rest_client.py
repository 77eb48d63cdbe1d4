"""A bounded JSON client for GitHub: rate limits, pages, downloads, and what its answers mean.

What a host refuses or answers in another form is a ``ForgeError``, in every module of this package.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Final, Self, TypeAlias, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from reconciler.base import bounded_json
from reconciler.base.escaping import escaped
from reconciler.base.http.client import HttpClient
from reconciler.base.http.messages import HttpRequest, HttpResponse, NoResponse, is_plain
from reconciler.base.http.retry import POLICIES, Failure, Peer, with_retries
from reconciler.base.protocols import Clock
from reconciler.base.redaction import redact_url, remember
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError

MAX_WORDS: Final = 300
"""Characters of a host's error text in a message."""

SECONDARY_SECONDS: Final = 60.0
"""GitHub: after a secondary limit without Retry-After, wait at least a minute."""

_HINTS: Final[Mapping[int, str]] = {
    401: "the token is invalid, expired or for another host",
    403: "the token lacks a permission; on GitHub a job needs `permissions: pull-requests: write` (issues: write for an"
    " issue), and a run of a fork's pull request never has it",
    404: "the repository, pull request or comment does not exist, or the token cannot read it",
    410: "issues or comments are disabled for this repository",
    413: "the text is too long for this host",
    422: "the host did not accept the content",
    429: "the host limits requests; try again later",
}


def is_rate_limit(response: HttpResponse) -> bool:
    """Whether this is a rate limit. GitHub uses 403 for both kinds of them, and for missing permissions."""
    if response.status == 429:
        return True
    if response.status != 403:
        return False
    return (
        "retry-after" in response.headers
        or response.headers.get("x-ratelimit-remaining") == "0"
        or "secondary rate limit" in error_text(response).lower()
    )


def error_text(response: HttpResponse) -> str:
    """Return the host's error text on one line, cut; "" if there is none."""
    try:
        document = bounded_json.parse(response.body, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        return ""
    if not isinstance(document, dict):
        return ""
    texts = [str(document["message"])] if document.get("message") else []
    # GitHub reports invalid fields only in this list.
    texts += [
        str(error.get("message") or error) if isinstance(error, dict) else str(error)
        for error in document.get("errors") or ()
    ]
    line = escaped("; ".join(texts))
    return line if len(line) <= MAX_WORDS else f"{line[:MAX_WORDS]}..."


def limit_wait(response: HttpResponse, now: float) -> float:
    """Return the seconds that the host requires to wait; only for rate limits.

    Retry-After takes precedence over the reset time: it is sent for secondary limits, which reset at another time.
    """
    after = response.retry_after(now)
    if after is not None:
        return after
    headers = response.headers
    reset = headers.get("x-ratelimit-reset", "")
    is_primary = headers.get("x-ratelimit-remaining") == "0"
    if reset.isascii() and reset.isdigit() and is_primary:
        return max(float(reset) - now, 1.0)
    return SECONDARY_SECONDS


def failure(answer: HttpResponse, request: str, token: Secret | None) -> ForgeError:
    """Return the error for an unexpected response."""
    words = error_text(answer) if token is None else token.hidden_in(error_text(answer))
    redirect = answer.headers.get("location", "") if 300 <= answer.status < 400 else ""
    hint = _HINTS.get(answer.status, "")
    if redirect:
        hint = "the repository was renamed or moved; use its new name"
    elif answer.status >= 500:
        hint = "the host has an internal error; try again later"
    return ForgeError(
        f"{request} answered {answer.status}" + (f": {words}" if words else ""),
        status=answer.status,
        may_work_later=answer.status >= 500 or is_rate_limit(answer),
        hint=hint,
    )


def next_page(answer: HttpResponse, current_url: str) -> str | None:
    """Return the address of the next page, from the Link header; ``None`` after the last.

    Raises:
        ForgeError: It leads to another host, which would receive the token.
    """
    for part in answer.headers.get("link", "").split(","):
        address, _, parameters = part.strip().partition(">")
        names = {parameter.strip().replace('"', "") for parameter in parameters.split(";")}
        if address.startswith("<") and "rel=next" in names:
            target = urljoin(current_url, address[1:])
            if urlsplit(target)[:2] != urlsplit(current_url)[:2]:
                raise ForgeError(
                    f"the next page of {urlsplit(current_url).path} is on another host and is not requested"
                )
            return target
    return None


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

PAGE: Final = 30
"""Items per page: 30 comments of 65,536 characters, each escaped as twelve bytes, fit into the largest response."""

_REPEATABLE: Final = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods that may be sent again although the first attempt may have been executed. POST would comment twice."""


class RestLimits(Struct, frozen=True, kw_only=True):
    """Limits of one client."""

    connect_seconds: float = 10.0
    total_seconds: float = 30.0  # for one attempt, response included
    wait_seconds: float = 180.0  # maximum sum of waits that a host may require
    answer_bytes: int = 32 * 1024 * 1024
    pages: int = 100


BOUNDS: Final = RestLimits()


def checked_address(address: str) -> str:
    """Return the base address of an API without a trailing slash.

    Raises:
        UsageError: It is invalid, contains a login, or would send a token without TLS.
    """
    split = urlsplit(address)
    if split.scheme not in {"http", "https"} or not split.hostname:
        raise UsageError(
            f"{redact_url(address)!r} is not an API URL", hint="such as https://api.github.com"
        )
    if split.username is not None or split.query or split.fragment:
        raise UsageError("an API URL must not contain credentials, a query or a fragment")
    if is_plain(address):
        raise UsageError(
            f"{redact_url(address)} would send the token unencrypted", hint="use https"
        )
    return address.rstrip("/")


class RestClient:
    """A client of one API; use it as an async context.

    Args:
        address: Base address; see :func:`checked_address`.
        token: Sent with every request, and hidden in every message.
    """

    def __init__(
        self,
        address: str,
        *,
        headers: Mapping[str, str],
        clock: Clock,
        token: Secret | None,
        bounds: RestLimits = BOUNDS,
    ) -> None:
        self._address = checked_address(address)
        self._headers = dict(headers)
        self._clock = clock
        self._token = token
        self._bounds = bounds
        self._waited = 0.0
        self._http = HttpClient(
            seconds=bounds.total_seconds, connect_seconds=bounds.connect_seconds
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def get(self, path: str, *, query: Mapping[str, str] | None = None) -> Json:
        """Return the JSON at a path."""
        return _decode(await self._exchange("GET", self._at(path), query=query), path)

    async def send(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Json:
        """Send a write; return ``None`` if the response has no content.

        Raises:
            ForgeError: ``unsure`` = a POST may have been executed although no response came.
        """
        answer = await self._exchange(method, self._at(path), body=body)
        return None if answer.status == 204 or not answer.body else _decode(answer, path)

    async def items(
        self, path: str, *, query: Mapping[str, str] | None = None, field: str = ""
    ) -> AsyncIterator[dict[str, Json]]:
        """Yield every object of a list, page by page.

        Args:
            field: Name of the field with the list, if the response is an object.

        Raises:
            ForgeError: The response is not a list of objects, or is too long.
        """
        url: str | None = self._at(path)
        parameters: Mapping[str, str] | None = {"per_page": str(PAGE)} | dict(query or {})
        for _ in range(self._bounds.pages):
            assert url is not None  # noqa: S101 - the loop ends where the pages do
            answer = await self._exchange("GET", url, query=parameters)
            page = _decode(answer, path)
            if field:
                page = page.get(field) if isinstance(page, dict) else None
            if not isinstance(page, list):
                raise ForgeError(f"GET {path} did not answer with a list")
            for item in page:
                if not isinstance(item, dict):
                    raise ForgeError(f"GET {path} did not answer with a list of objects")
                yield item
            url = next_page(answer, url)
            parameters = None  # the next address has them all
            if url is None:
                return
        raise ForgeError(f"GET {path} has more than {self._bounds.pages * PAGE:,} items")

    async def download(self, path: str, *, max_bytes: int) -> bytes:
        """Download a file to whose signed address the API redirects; that address must not receive the token.

        Raises:
            ForgeError: It does not exist, or exceeds ``max_bytes`` bytes.
        """
        answer = await self._exchange("GET", self._at(path), max_bytes=max_bytes, fine=(200, 302))
        if answer.status == 200:
            return answer.body
        target = answer.headers.get("location", "")
        if not urlsplit(target).hostname or is_plain(target):
            raise ForgeError(f"GET {path} leads to an address that is not https")
        return (await self._exchange("GET", target, max_bytes=max_bytes, is_foreign=True)).body

    def _at(self, path: str) -> str:
        return f"{self._address}/{path.lstrip('/')}"

    async def _exchange(
        self,
        method: str,
        address: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Json] | None = None,
        max_bytes: int = 0,
        fine: tuple[int, ...] = (200, 201, 204),
        is_foreign: bool = False,
    ) -> HttpResponse:
        """Return a response with one of the ``fine`` statuses, after retries.

        Args:
            max_bytes: Maximum size of the response; 0 = by the limits.
            is_foreign: Whether the address is not the API's, so that neither token nor headers are sent.
        """
        headers = {} if is_foreign else dict(self._headers)
        if self._token is not None and not is_foreign:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = HttpRequest(
            method=method,
            url=f"{address}?{urlencode(query)}" if query else address,
            headers=headers,
            body=None if body is None else json.dumps(body, ensure_ascii=True).encode(),
            max_bytes=max_bytes or self._bounds.answer_bytes,
        )
        name = f"{method} {urlsplit(address).path}"
        is_repeatable = method in _REPEATABLE

        async def attempt(seconds: float) -> HttpResponse | Failure:
            answer = await self._http.send(request, seconds=seconds)
            if isinstance(answer, NoResponse):
                error = self._no_answer(name, answer)
                error.unsure = answer.may_be_sent and method == "POST"
                return Failure(
                    error=error,
                    is_retriable=answer.is_transient and (is_repeatable or not answer.may_be_sent),
                )
            if answer.status in fine:
                return answer
            error = failure(answer, name, self._token)
            if is_rate_limit(answer):
                return self._rate_limit_failure(answer, error)
            error.unsure = answer.status >= 500 and method == "POST"
            return Failure(error=error, is_retriable=answer.is_transient and is_repeatable)

        return await with_retries(attempt, POLICIES[Peer.CODE_HOST], clock=self._clock)

    def _rate_limit_failure(self, answer: HttpResponse, error: ForgeError) -> Failure:
        """Map a rate limit: the host executed nothing. Waits beyond ``wait_seconds`` are not awaited."""
        seconds = limit_wait(answer, self._clock.now())
        self._waited += max(seconds, 1.0)
        is_short = self._waited <= self._bounds.wait_seconds
        if not is_short:
            error.hint = (
                f"the host requests a wait of {seconds:.0f} s, which is longer than the limit"
            )
        return Failure(error=error, is_retriable=is_short, wait=seconds, uses_try=False)

    def _no_answer(self, request: str, answer: NoResponse) -> ForgeError:
        words = answer.text if self._token is None else self._token.hidden_in(answer.text)
        return ForgeError(
            f"{request} at {urlsplit(self._address).netloc} failed: {words}",
            may_work_later=answer.is_transient,
            hint="check the address of the API (--api-url), the network and the proxy",
        )


def _decode(answer: HttpResponse, path: str) -> Json:
    try:
        document: Json = bounded_json.parse(answer.body, most_bytes=bounded_json.DOCUMENT)
    except bounded_json.InvalidJson as error:
        raise ForgeError(
            f"{path} answered with something that is not JSON",
            status=answer.status,
            hint="check the API URL (--api-url)",
        ) from error
    return document


T = TypeVar("T")


def answered(document: Json, kind: type[T]) -> T:
    """Return an answer as a type, which declares the fields that are read.

    Raises:
        ForgeError: A field is missing, or of another type.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ForgeError(f"the host's answer is not as expected: {error}") from error


def forge_token(text: str) -> Secret:
    """Validate a token for a header; logs of this process hide it from now on.

    Args:
        text: The value of the environment variable; surrounding blanks are removed.

    Raises:
        UsageError: It is empty, or contains characters that are invalid in a header. The message does not show it.
    """
    text = text.strip()
    if not text:
        raise UsageError("the token is empty")
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise UsageError("the token contains invalid characters (a line break?)")
    remember(text)
    return Secret(text)
